/**
 * A host's answers to questions over all agents (`core/query/Queries`): from a thread with a view
 * of its own (`queryThread`), which is started by the first question and ended after a pause.
 *
 * 1. The view is in the host's own folder, and is removed when the host starts: an agent that was
 *    erased while the host was away is not in it.
 * 2. An erasure is brought into the view of a thread that runs; otherwise the view is removed. A
 *    thread that is closing may still save its view: an erasure, and the next thread, wait for its
 *    end.
 * 3. A thread that ends by itself (a statement took all its memory), or that could not connect,
 *    fails what it was asked. The next question starts another.
 * 4. With each question the thread receives what the events that the host has stored since the last
 *    one change (`OwnEvents`). That is kept only while a thread runs.
 */
import { rmSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { OwnEvents } from "../../core/query/OwnEvents.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { FromThread, QueryThreadData, ToThread } from "./queryThread.ts";
import { errorOf, startThread } from "./readerThread.ts";

/** A view of 100,000 agents is open again in less than a second. */
const IDLE_MS = 60_000;
/** The thread saves its view in this time; what it does not save, the next question reads again. */
const CLOSE_MS_MAX = 2_000;

interface Asked {
  readonly resolve: (said: FromThread) => void;
  readonly reject: (error: unknown) => void;
}

interface Running {
  readonly worker: Worker;
  readonly ended: Promise<void>;
  readonly asked: Map<number, Asked>;
}

type Wanted =
  Pick<Extract<ToThread, { question: unknown }>, "question"> | { readonly erased: true };

export function joinQueries(
  data: QueryThreadData,
  time: Pick<TimeShape, "after">,
): QueriesShape & { readonly stop: () => Promise<void> } {
  let running: Running | undefined;
  /** Set while a thread closes. */
  let closing: Promise<void> | undefined;
  const own = new OwnEvents();
  let count = 0;
  let cancelIdle = (): void => undefined;
  const removeView = (): void => rmSync(data.folder, { recursive: true, force: true });
  removeView(); // Rule 1.

  /** Rule 4: without a thread nobody reads them. */
  const stopKeeping = (): void => {
    running = undefined;
    own.take();
  };

  const start = (): Running => {
    const { worker, ended } = startThread("queryThread", data);
    const asked = new Map<number, Asked>();
    worker.on("message", (said: FromThread) => {
      asked.get(said.id)?.resolve(said);
      asked.delete(said.id);
      if (said.unopened !== true) return;
      // Rule 3.
      if (running?.worker === worker) stopKeeping();
      if (asked.size === 0) void worker.terminate();
    });
    const settled = ended.then((why) => {
      if (running?.worker === worker) stopKeeping();
      for (const { reject } of asked.values()) reject(why); // Rule 3.
    });
    return { worker, ended: settled, asked };
  };

  /** Called once no question is open. */
  const close = async (): Promise<void> => {
    if (closing !== undefined) await closing;
    const thread = running;
    if (thread === undefined) return;
    stopKeeping();
    closing = end(thread).finally(() => {
      closing = undefined;
    });
    await closing;
  };
  const end = async ({ worker, ended }: Running): Promise<void> => {
    worker.postMessage({ close: true } satisfies ToThread);
    await settlesWithin(time, CLOSE_MS_MAX, ended);
    await worker.terminate();
  };

  const ask = async (wanted: Wanted): Promise<FromThread> => {
    if (closing !== undefined) await closing; // Rule 2.
    cancelIdle();
    const thread = (running ??= start());
    const id = ++count;
    try {
      const said = await new Promise<FromThread>((resolve, reject) => {
        thread.asked.set(id, { resolve, reject });
        thread.worker.postMessage({ id, ...wanted, own: own.take() } satisfies ToThread);
      });
      if (said.failed !== undefined) throw errorOf(said.failed);
      return said;
    } finally {
      cancelIdle();
      cancelIdle = time.after(IDLE_MS, () => {
        if (running?.asked.size === 0) void close();
      });
    }
  };

  return {
    stored: (id, seq, event) => {
      if (running !== undefined) own.add(id, seq, event);
    },
    answer: async (question) => (await ask({ question })).answer!,
    erased: async () => {
      if (closing !== undefined) await closing; // Rule 2.
      if (running === undefined) return removeView();
      await ask({ erased: true }); // Rule 2.
    },
    stop: async () => {
      cancelIdle();
      await close();
    },
  };
}
