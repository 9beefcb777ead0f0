/**
 * A host's answers to questions over all agents (`core/query/Queries`): from a thread with a view
 * of its own (`queryThread`), which is started by the first question and ended after a pause.
 *
 * 1. The view is in the host's own folder, and is removed when the host starts: an agent that was
 *    erased while the host was away is not in it.
 * 2. An erasure is brought into the view of a thread that runs; otherwise the view is removed.
 * 3. A thread that ends by itself (a statement took all its memory) fails what it was asked. The
 *    next question starts another.
 */
import { rmSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { QueryRefused, UnknownClass } from "../../core/query/askView.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { FromThread, QueryThreadData, ToThread } from "./queryThread.ts";

/** A view of 100,000 agents is open again in less than a second. */
const IDLE_MS = 60_000;
/** Past it the thread ends, and nothing else. Rows of an answer are in it several times. */
const HEAP_MB_MAX = 1_024;
/** The thread saves its view in this time; what it does not save, the next question reads again. */
const CLOSE_MS_MAX = 2_000;

export interface JoinedQueries extends QueriesShape {
  readonly stop: () => Promise<void>;
}

interface Asked {
  readonly resolve: (said: FromThread) => void;
  readonly reject: (error: unknown) => void;
}

interface Running {
  readonly worker: Worker;
  readonly ended: Promise<void>;
  readonly asked: Map<number, Asked>;
}

type Wanted = Omit<Extract<ToThread, { question: unknown }>, "id"> | { readonly erased: true };

export function joinQueries(data: QueryThreadData, time: Pick<TimeShape, "after">): JoinedQueries {
  let running: Running | undefined;
  let count = 0;
  let cancelIdle = (): void => undefined;
  const removeView = (): void => rmSync(data.folder, { recursive: true, force: true });
  removeView(); // Rule 1.

  const start = (): Running => {
    const worker = new Worker(threadFile(), {
      workerData: data,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
      // Node's own options are those of the main thread; the module's loader is not needed.
      execArgv: [],
    });
    worker.unref();
    const asked = new Map<number, Asked>();
    let why = "The thread that answers queries has ended";
    worker.on("message", (said: FromThread) => {
      asked.get(said.id)?.resolve(said);
      asked.delete(said.id);
    });
    worker.on("error", (error: NodeJS.ErrnoException) => {
      const isFull = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      why = isFull ? "The query took too much memory: select fewer rows or columns" : error.message;
    });
    const ended = new Promise<void>((resolve) =>
      worker.once("exit", () => {
        if (running?.worker === worker) running = undefined;
        for (const { reject } of asked.values()) reject(new QueryRefused(why)); // Rule 3.
        resolve();
      }),
    );
    return { worker, ended, asked };
  };

  /** Called once no question is open. */
  const close = async (): Promise<void> => {
    const thread = running;
    if (thread === undefined) return;
    running = undefined;
    thread.worker.postMessage({ close: true } satisfies ToThread);
    await settlesWithin(time, CLOSE_MS_MAX, thread.ended);
    await thread.worker.terminate();
  };

  const ask = async (wanted: Wanted): Promise<FromThread> => {
    cancelIdle();
    const thread = (running ??= start());
    const id = ++count;
    try {
      const said = await new Promise<FromThread>((resolve, reject) => {
        thread.asked.set(id, { resolve, reject });
        thread.worker.postMessage({ id, ...wanted } satisfies ToThread);
      });
      const { failed } = said;
      if (failed === undefined) return said;
      const { message, refused, unknown } = failed;
      if (unknown) throw new UnknownClass(message);
      throw refused ? new QueryRefused(message) : new BrokerUnavailable({ message });
    } finally {
      cancelIdle();
      cancelIdle = time.after(IDLE_MS, () => {
        if (running?.asked.size === 0) void close();
      });
    }
  };

  return {
    answer: async (question) => (await ask({ question })).answer!,
    erased: async () => {
      if (running === undefined) return removeView();
      await ask({ erased: true }); // Rule 2.
    },
    stop: async () => {
      cancelIdle();
      await close();
    },
  };
}

/** Only built code runs in it: `npm run build` comes before tests that start processes. */
const threadFile = (): URL =>
  import.meta.url.endsWith(".ts")
    ? new URL("../../dist/services/wiring/queryThread.js", import.meta.url)
    : new URL("./queryThread.js", import.meta.url);
