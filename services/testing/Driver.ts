/**
 * Moves virtual time while a test waits for something: a webhook's answer, a call's result, or the
 * end of a time span. A single loop moves time, so that two concurrent waits do not move it twice.
 *
 * 1. Before time moves, all promise work that can run has run. A run therefore depends only on the
 *    seed and on the test's steps and their order.
 * 2. Agent code may also wait for the real world (a file, a promise of the test). While a turn is
 *    open, each new activity grants it `GRACE_MS` of real time before virtual time moves. Work that
 *    needs no real time does not wait. While the code of an open turn has work of the machine that
 *    has not ended (`RealWork`), virtual time stands still for up to `REAL_WORK_GRACE_MS`. So a
 *    deadline does not pass during it. What is not known as such work, as a promise of the test,
 *    gets `REAL_WORK_GRACE_MS` once nothing has happened for `LATE_GRACE_AFTER_MS` of virtual time.
 * 3. A wait that does not end within `PATIENCE_MS` of virtual time rejects with an error that lists
 *    what is open.
 */
import { AsyncResource } from "node:async_hooks";
import { setImmediate as loopTurn, setTimeout as machineSleep } from "node:timers/promises";

/** Enough to read a file or to compute something; hardly noticed in a test of a hundred waits. */
const GRACE_MS = 10;
const GRACE_STEP_MS = 1;
/** For real work outside of any turn, such as hashing and parsing. The wait ends with it. */
export const REAL_WORK_GRACE_MS = 2_000;
/** Rule 2. Turns seldom sleep this long, and calls and requests wait for a minute. */
const LATE_GRACE_AFTER_MS = 50_000;
/** Longer than all attempts of an input, and than any deadline of a call or request. */
const PATIENCE_MS = 15 * 60_000;

/** The virtual time that the driver moves. */
interface MovableTime {
  readonly monotonicMs: () => number;
  readonly nextInMs: number | undefined;
  readonly advance: (ms: number, stop?: () => boolean) => Promise<void>;
}

/** The installation, as the driver observes it. */
interface DriverHost {
  readonly time: MovableTime;
  /** A count that grows when a turn begins or ends, and with each use of the broker. */
  readonly activity: () => number;
  /** Work in real time for which virtual time waits without a limit. Each is returned once. */
  readonly takeLoading?: () => Promise<unknown> | undefined;
  /** Descriptions of the open work; empty if there is none. */
  readonly open: () => ReadonlyArray<string>;
  /** Whether an agent is in a turn. */
  readonly isInTurn: () => boolean;
  /** Whether code in a turn has work of the machine that has not ended. */
  readonly isWorking: () => boolean;
  /** False if no host runs, so that open work stays open. */
  readonly isAlive: () => boolean;
}

interface Wait {
  readonly what: string;
  readonly done: () => boolean;
  readonly graceMs: number;
  readonly endMs: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class Driver {
  private readonly waits = new Set<Wait>();
  /** Time spans that the test asked for, in order. `endMs` is set when a span begins. */
  private readonly spans: Array<{ readonly ms: number; endMs?: number; resolve: () => void }> = [];
  private readonly alone: Array<() => Promise<void>> = [];
  private running = false;
  private seenActivity = -1;
  /** When an open turn gets its late grace, in virtual time. */
  private graceAtMs = Infinity;
  /** How long open turns may still work in real time until something happens. */
  private workMsLeft = 0;
  /** The context of the test. A handler of outgoing requests calls in the context of an agent. */
  private readonly context = new AsyncResource("Driver");

  constructor(private readonly host: DriverHost) {}

  /** Moves time until `done()` returns true. Rejects by rule 3. */
  until(what: string, done: () => boolean, graceMs = GRACE_MS): Promise<void> {
    return new Promise((resolve, reject) => {
      const endMs = this.host.time.monotonicMs() + PATIENCE_MS;
      this.waits.add({ what, done, graceMs, endMs, resolve, reject });
      this.context.runInAsyncScope(() => void this.run());
    });
  }

  /** Moves time until `promise` settles, and settles as it does. Rejects by rule 3. */
  async settle<A>(what: string, promise: Promise<A>, graceMs = GRACE_MS): Promise<A> {
    let over = false;
    const end = (): void => void (over = true);
    promise.then(end, end);
    await this.until(what, () => over, graceMs);
    return promise;
  }

  /** Resolves when all work that does not wait for time is done. */
  quiet(): Promise<void> {
    return this.until("quiet", () => true);
  }

  /** Resolves when all inputs of agents are done, including retries, or at once if no host runs. */
  settled(): Promise<void> {
    const { open, isAlive } = this.host;
    return this.until("the end of all open work", () => !isAlive() || open().length === 0);
  }

  /** Runs `f` while nothing else moves time. */
  exclusive(f: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.alone.push(() => f().then(resolve, reject));
      this.context.runInAsyncScope(() => void this.run());
    });
  }

  /** Ends the test: pending waits neither resolve nor reject. */
  end(): void {
    this.waits.clear();
    this.spans.length = 0;
  }

  /** Resolves when `ms` of virtual time have passed and everything due in them has run. */
  advance(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.spans.push({ ms, resolve });
      this.context.runInAsyncScope(() => void this.run());
    });
  }

  private async run(): Promise<void> {
    if (this.running) return;
    this.running = true;
    while (this.waits.size > 0 || this.spans.length > 0 || this.alone.length > 0) {
      await this.rest();
      if (this.resolveDone()) continue;
      const alone = this.alone.shift();
      if (alone === undefined) await this.step();
      else await alone();
    }
    this.running = false;
  }

  /** Rules 1 and 2. */
  private async rest(): Promise<void> {
    const { time, activity, open } = this.host;
    do {
      await time.advance(0);
      const loading = this.host.takeLoading?.();
      if (loading !== undefined) {
        await loading.catch(() => undefined);
        this.seenActivity = -1;
      }
      if (this.someDone()) return;
      if (this.waits.size === 0 && open().length === 0) return;
      if (activity() !== this.seenActivity) {
        this.seenActivity = activity();
        this.graceAtMs = time.monotonicMs() + LATE_GRACE_AFTER_MS;
        this.workMsLeft = REAL_WORK_GRACE_MS;
        await this.grace();
      } else if (time.monotonicMs() >= this.graceAtMs) {
        this.graceAtMs = Infinity;
        if (this.host.isInTurn()) await this.lateGrace();
      }
    } while (await this.workEnds());
  }

  private async grace(): Promise<void> {
    const graceMs = Math.max(GRACE_MS, ...[...this.waits].map((wait) => wait.graceMs));
    const isOver = (): boolean => this.host.activity() !== this.seenActivity || this.someDone();
    for (let ms = 0; ms < graceMs; ms += GRACE_STEP_MS) {
      // Most work ends within a turn of the event loop, which takes less than a millisecond.
      await loopTurn();
      if (isOver()) return;
      await machineSleep(GRACE_STEP_MS);
      if (isOver()) return;
    }
  }

  /** Waits for real work. Returns whether there was any, so that what follows it is to be run. */
  private async workEnds(): Promise<boolean> {
    let worked = false;
    while (!this.someDone() && this.workMsLeft > 0 && this.host.isWorking()) {
      await machineSleep(GRACE_STEP_MS);
      this.workMsLeft -= GRACE_STEP_MS;
      worked = true;
    }
    return worked;
  }

  private someDone(): boolean {
    for (const wait of this.waits) if (wait.done()) return true;
    return false;
  }

  /** Resolves the waits that are done. Returns whether there was one. */
  private resolveDone(): boolean {
    let resolved = false;
    for (const wait of this.waits) {
      if (!wait.done()) continue;
      this.waits.delete(wait);
      wait.resolve();
      resolved = true;
    }
    return resolved;
  }

  /** Moves time to the next timer, or within the current span to the next activity or its end. */
  private async step(): Promise<void> {
    const { time, activity, open } = this.host;
    const nowMs = time.monotonicMs();
    const [span] = this.spans;
    const nextMs = nowMs + (time.nextInMs ?? Infinity);
    const graceAtMs = this.graceAtMs > nowMs ? this.graceAtMs : Infinity;
    if (span !== undefined) {
      span.endMs ??= nowMs + span.ms;
      let seen = activity();
      await time.advance(Math.min(span.endMs, graceAtMs) - nowMs, () => {
        if (this.waits.size > 0 || this.alone.length > 0) return true;
        // Moves on while nothing is open, since a month has many timers but few turns.
        if (activity() === seen) return false;
        seen = activity();
        return open().length > 0;
      });
      if (time.monotonicMs() < span.endMs) return;
      this.spans.shift();
      span.resolve();
      return;
    }
    const late = [...this.waits].filter((wait) => wait.endMs < nextMs);
    if (late.length > 0 && (await this.lateGrace())) return;
    for (const wait of late) {
      this.waits.delete(wait);
      wait.reject(new Error(this.explain(wait.what, nextMs === Infinity)));
    }
    if (this.waits.size > 0) await time.advance(Math.min(nextMs, graceAtMs) - nowMs);
  }

  /** Grants time to real work on a busy machine. Returns whether anything happened. */
  private async lateGrace(): Promise<boolean> {
    const before = this.host.activity();
    for (let ms = 0; ms < REAL_WORK_GRACE_MS; ms += GRACE_STEP_MS) {
      await machineSleep(GRACE_STEP_MS);
      if (this.someDone() || this.host.activity() !== before) return true;
    }
    return false;
  }

  private explain(what: string, stuck: boolean): string {
    const open = this.host.open();
    return [
      `${what} did not come${stuck ? "" : ` within ${PATIENCE_MS / 60_000} minutes of virtual time`}.`,
      ...(open.length === 0 ? [] : ["Open now:", ...open.map((line) => `  ${line}`)]),
    ].join("\n");
  }
}
