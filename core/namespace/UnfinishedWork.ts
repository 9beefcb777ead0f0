/**
 * What handlers of a module passed to `waitUntil`. The process that ran them waits for it when it
 * stops: a gateway for `fetch`, the mail process for `email`.
 */
import { messageOf } from "../errors/thrown.ts";
import type { LogShape } from "../telemetry/Log.ts";
import { settlesWithin } from "../time/settlesWithin.ts";
import type { TimeShape } from "../time/Time.ts";

/** As long as a stopping host waits for its agents. */
const SETTLE_MS = 10_000;

export class UnfinishedWork {
  private readonly promises = new Set<Promise<void>>();

  constructor(
    private readonly time: TimeShape,
    private readonly log: LogShape,
  ) {}

  /** Number of promises that have not settled. */
  get size(): number {
    return this.promises.size;
  }

  /** `waitUntil` of a handler's context. */
  readonly add = (promise: unknown): void => {
    const settled: Promise<void> = Promise.resolve(promise)
      .then(
        () => undefined,
        (error: unknown) =>
          this.log.error("a waitUntil promise rejected", { error: messageOf(error) }),
      )
      .finally(() => this.promises.delete(settled));
    this.promises.add(settled);
  };

  /** Resolves when all has settled, what is added meanwhile included; after 10 s at the latest. */
  async settle(): Promise<void> {
    if (this.size === 0) return;
    const all = async (): Promise<void> => {
      while (this.size > 0) await Promise.all(this.promises);
    };
    if (await settlesWithin(this.time, SETTLE_MS, all())) return;
    const { size: unfinished } = this;
    this.log.warn("the process stops before all waitUntil promises have settled", { unfinished });
  }
}
