/**
 * Moves virtual time while a test waits for something: a webhook's answer, a call's result, the end of
 * a span of time. One at a time, so that two that wait at once do not move it twice.
 *
 * 1. Before time moves, all promise work that can go on does. So a run depends on the seed and on what
 *    the test does, in which order, and on nothing else.
 * 2. Agents' code may wait for the real world too (a file, a promise of the test's). While a turn is
 *    open, each new piece of activity gives it `GRACE_MS` of the machine's time before virtual time
 *    goes on; nothing that needs none waits.
 * 3. What is waited for and does not come within `PATIENCE_MS` of virtual time is an error that says what
 *    is open.
 */
import { setImmediate as loopTurn, setTimeout as machineSleep } from "node:timers/promises";

/** Enough for a file or a local computation; little enough that a test's hundred waits don't show. */
const GRACE_MS = 10;
const GRACE_STEP_MS = 1;
/** For what is mostly real work, and outside of any turn: hashing, parsing. It ends as soon as that is done. */
export const REAL_WORK_GRACE_MS = 2_000;
/** Longer than all attempts of an input, and than any deadline of a call or a request. */
const PATIENCE_MS = 15 * 60_000;

export interface MovableTime {
  readonly monotonicMs: () => number;
  readonly nextInMs: number | undefined;
  readonly advance: (ms: number, stop?: () => boolean) => Promise<void>;
}

export interface DriverHost {
  readonly time: MovableTime;
  /** Grows with each turn that begins or ends and each use of the broker. */
  readonly activity: () => number;
  /** Work of the machine's that time is to wait for, however long it takes; told of once. */
  readonly takeLoading?: () => Promise<unknown> | undefined;
  /** What is open now, in words; empty when nothing is. */
  readonly open: () => ReadonlyArray<string>;
  /** False: there is no host, and what is open stays so. */
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
  private readonly host: DriverHost;
  private readonly waits = new Set<Wait>();
  /** Spans that the test asked for, in order: their ends on the steady clock come as they begin. */
  private readonly spans: Array<{ readonly ms: number; endMs?: number; resolve: () => void }> = [];
  private readonly alone: Array<() => Promise<void>> = [];
  private running = false;
  private seenActivity = -1;

  constructor(host: DriverHost) {
    this.host = host;
  }

  /** Resolves when `done()`, moving time as far as it takes (rule 3). */
  until(what: string, done: () => boolean, graceMs = GRACE_MS): Promise<void> {
    return new Promise((resolve, reject) => {
      const endMs = this.host.time.monotonicMs() + PATIENCE_MS;
      this.waits.add({ what, done, graceMs, endMs, resolve, reject });
      void this.run();
    });
  }

  /** The same for a promise: its outcome, when it has one. */
  async settle<A>(what: string, promise: Promise<A>, graceMs = GRACE_MS): Promise<A> {
    let over = false;
    const end = (): void => void (over = true);
    promise.then(end, end);
    await this.until(what, () => over, graceMs);
    return promise;
  }

  /** Resolves when all work is done that waits for no time. */
  quiet(): Promise<void> {
    return this.until("quiet", () => true);
  }

  /** Resolves when everything that was given to agents is done, retries included; at once without a host. */
  settled(): Promise<void> {
    const { open, isAlive } = this.host;
    return this.until("the end of what was begun", () => !isAlive() || open().length === 0);
  }

  /** Runs `f` while time stands still, but for what `f` itself moves. */
  exclusive(f: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.alone.push(() => f().then(resolve, reject));
      void this.run();
    });
  }

  /** The test is over: what somebody left waiting neither comes nor fails. */
  end(): void {
    this.waits.clear();
    this.spans.length = 0;
  }

  /** Resolves when `ms` have passed and all that fell due in them has run. */
  advance(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.spans.push({ ms, resolve });
      void this.run();
    });
  }

  private async run(): Promise<void> {
    if (this.running) return;
    this.running = true;
    while (this.waits.size > 0 || this.spans.length > 0 || this.alone.length > 0) {
      await this.rest();
      if (this.tellDone()) continue;
      const alone = this.alone.shift();
      if (alone === undefined) await this.step();
      else await alone();
    }
    this.running = false;
  }

  /** Rules 1 and 2. */
  private async rest(): Promise<void> {
    const { time, activity, open } = this.host;
    await time.advance(0);
    const loading = this.host.takeLoading?.();
    if (loading !== undefined) {
      await loading.catch(() => undefined);
      this.seenActivity = -1;
    }
    if (this.someDone()) return;
    if (this.waits.size === 0 && open().length === 0) return;
    if (activity() === this.seenActivity) return;
    this.seenActivity = activity();
    const graceMs = Math.max(GRACE_MS, ...[...this.waits].map((wait) => wait.graceMs));
    for (let ms = 0; ms < graceMs; ms += GRACE_STEP_MS) {
      // Several turns of the loop cost less than a millisecond, and most needs no more.
      await loopTurn();
      if (activity() !== this.seenActivity || this.someDone()) return;
      await machineSleep(GRACE_STEP_MS);
      if (activity() !== this.seenActivity || this.someDone()) return;
    }
  }

  private someDone(): boolean {
    for (const wait of this.waits) if (wait.done()) return true;
    return false;
  }

  private tellDone(): boolean {
    let told = false;
    for (const wait of this.waits) {
      if (!wait.done()) continue;
      this.waits.delete(wait);
      wait.resolve();
      told = true;
    }
    return told;
  }

  /** To the next timer, or in the span that is on to where something happens, or to its end. */
  private async step(): Promise<void> {
    const { time, activity } = this.host;
    const nowMs = time.monotonicMs();
    const [span] = this.spans;
    const nextMs = nowMs + (time.nextInMs ?? Infinity);
    if (span !== undefined) {
      span.endMs ??= nowMs + span.ms;
      // In one go for as long as nothing happens: a month has many timers and few events.
      const before = activity();
      await time.advance(
        span.endMs - nowMs,
        () => activity() !== before || this.waits.size > 0 || this.alone.length > 0,
      );
      if (time.monotonicMs() < span.endMs) return;
      this.spans.shift();
      span.resolve();
      return;
    }
    const late = [...this.waits].filter((wait) => wait.endMs < nextMs);
    if (late.length > 0 && (await this.lastMoment())) return;
    for (const wait of late) {
      this.waits.delete(wait);
      wait.reject(new Error(this.explain(wait.what, nextMs === Infinity)));
    }
    if (this.waits.size > 0) await time.advance(nextMs - nowMs);
  }

  /** Before something is given up: real work on a busy machine may just need longer. Did anything happen? */
  private async lastMoment(): Promise<boolean> {
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
