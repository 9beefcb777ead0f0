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

export class HostQueries implements QueriesShape {
  private running: Running | undefined;
  /** Set while a thread closes. */
  private closing: Promise<void> | undefined;
  private readonly own = new OwnEvents();
  private count = 0;
  private cancelIdle = (): void => undefined;

  constructor(
    private readonly data: QueryThreadData,
    private readonly time: Pick<TimeShape, "after">,
  ) {
    this.removeView(); // Rule 1.
  }

  /** Rule 4. */
  readonly stored: NonNullable<QueriesShape["stored"]> = (id, seq, event) => {
    if (this.running !== undefined) this.own.add(id, seq, event);
  };

  readonly answer: QueriesShape["answer"] = async (question) =>
    (await this.ask({ question })).answer!;

  /** Rule 2. */
  readonly erased: QueriesShape["erased"] = async () => {
    if (this.closing !== undefined) await this.closing;
    if (this.running === undefined) this.removeView();
    else await this.ask({ erased: true });
  };

  async stop(): Promise<void> {
    this.cancelIdle();
    await this.close();
  }

  private async ask(wanted: Wanted): Promise<FromThread> {
    if (this.closing !== undefined) await this.closing; // Rule 2.
    this.cancelIdle();
    const thread = (this.running ??= this.start());
    const id = ++this.count;
    try {
      const said = await new Promise<FromThread>((resolve, reject) => {
        thread.asked.set(id, { resolve, reject });
        thread.worker.postMessage({ id, ...wanted, own: this.own.take() } satisfies ToThread);
      });
      if (said.failed !== undefined) throw errorOf(said.failed);
      return said;
    } finally {
      this.cancelIdle();
      this.cancelIdle = this.time.after(IDLE_MS, () => {
        if (this.running?.asked.size === 0) void this.close();
      });
    }
  }

  private start(): Running {
    const { worker, ended } = startThread("queryThread", this.data);
    const asked = new Map<number, Asked>();
    const forget = (): void => {
      if (this.running?.worker === worker) this.stopKeeping();
    };
    worker.on("message", (said: FromThread) => {
      asked.get(said.id)?.resolve(said);
      asked.delete(said.id);
      if (said.unopened !== true) return;
      forget(); // Rule 3.
      if (asked.size === 0) void worker.terminate();
    });
    const settled = ended.then((why) => {
      forget();
      for (const { reject } of asked.values()) reject(why); // Rule 3.
    });
    return { worker, ended: settled, asked };
  }

  /** Called once no question is open. */
  private async close(): Promise<void> {
    if (this.closing !== undefined) await this.closing;
    const thread = this.running;
    if (thread === undefined) return;
    this.stopKeeping();
    this.closing = this.end(thread).finally(() => {
      this.closing = undefined;
    });
    await this.closing;
  }

  private async end({ worker, ended }: Running): Promise<void> {
    worker.postMessage({ close: true } satisfies ToThread);
    await settlesWithin(this.time, CLOSE_MS_MAX, ended);
    await worker.terminate();
  }

  /** Rule 4: without a thread nobody reads them. */
  private stopKeeping(): void {
    this.running = undefined;
    this.own.take();
  }

  private removeView(): void {
    rmSync(this.data.folder, { recursive: true, force: true });
  }
}
