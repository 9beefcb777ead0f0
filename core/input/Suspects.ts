/**
 * What may have killed the host that ran it: a crash tells nobody, so each job that waited when its agent woke, and the
 * inputs that a mailbox suspects, are journaled as begun before they run. Calls carry the suspicion themselves (`Call.suspect`).
 *
 * 1. A job that was begun before and did not end runs while no other such job does: so the one that kills spends
 *    its own attempts, and not those of jobs that happened to run beside it.
 * 2. Nor do such a job and an input that was begun before run beside each other. Whichever comes second waits, but not for
 *    ever: an input may wait for a job, and a job for an input.
 * 3. What was journaled and lost its agent before it ran spends nothing (`Unbegun`).
 * 4. A call that was out when its host was lost runs beside none of these, and beside no other such call. It does not wait here:
 *    its caller asks again. So one that ends this host takes only itself down, for the others were not out.
 */
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import type { Unbegun } from "./Unbegun.ts";

/** Rules 2 and 4. What kills its host mostly does it at once; nearly every turn is shorter. */
const APART_MS_MAX = 10_000;

const NOTHING = (): void => undefined;

/** The agent that the suspects run on. */
export type SuspectsAgent = Pick<AgentTurns, "id" | "time" | "committer" | "unlessDiscarded">;

export class Suspects {
  private readonly agent: SuspectsAgent;
  private readonly unbegun: Unbegun;
  /** Undefined: none was alone yet. */
  private lastJob: Promise<void> | undefined;
  private lastInput: Promise<void> | undefined;
  private lastCall: Promise<void> | undefined;
  /** Those of rules 1, 2 and 4 that wait or run. */
  private holding = 0;
  /** Monotonic: they keep calls out until then. */
  private apartUntilMs = 0;

  constructor(agent: SuspectsAgent, unbegun: Unbegun) {
    this.agent = agent;
    this.unbegun = unbegun;
  }

  /** Something runs, or waits to, that may have killed its host before. */
  get any(): boolean {
    return this.holding > 0;
  }

  /** Rule 4. What it returns is to be called when the call is over; undefined: not now. */
  admitCall(): (() => void) | undefined {
    if (this.any && this.agent.time.monotonicMs() < this.apartUntilMs) return undefined;
    const { over, ended } = this.hold();
    this.lastCall = over;
    return ended;
  }

  /** Rule 3. The number of the attempt that comes next for a key that the journal says was begun so often. */
  next(key: string, journaled: number): number {
    return journaled + (this.unbegun.take(this.agent.id, key, journaled) ? 0 : 1);
  }

  /**
   * `attemptsBefore`: how often its job was begun. Resolves when the journal knows and it may run; what it
   * gives is to be called when this attempt is over. Rejects with `AgentDiscarded`.
   */
  async announce(turn: Turn, attemptsBefore: number): Promise<() => void> {
    const cleared = attemptsBefore === 0 ? NOTHING : await this.jobAlone();
    await this.store(turn);
    return cleared;
  }

  /** The same for an input; of inputs only the mailbox knows which run alone. */
  async announceInput(turn: Turn, attemptsBefore: number): Promise<() => void> {
    const cleared = attemptsBefore === 0 ? NOTHING : await this.inputApart();
    await this.store(turn);
    return cleared;
  }

  private async store(turn: Turn): Promise<void> {
    const { committer, id } = this.agent;
    const { id: key = "", attempt = 1 } = turn.cause;
    turn.announced = true;
    committer.touch(turn);
    this.unbegun.announced(id, key, attempt);
    // What is announced without an await between is one commit.
    await Promise.resolve();
    await committer.flush(turn);
    this.unbegun.begins(id, key);
  }

  private async jobAlone(): Promise<() => void> {
    const { lastJob, lastInput, lastCall } = this;
    const { over, ended } = this.hold();
    this.lastJob = over;
    await lastJob;
    await this.apartFrom(lastInput, lastCall);
    return ended;
  }

  private async inputApart(): Promise<() => void> {
    const { lastJob, lastCall } = this;
    const { over, ended } = this.hold();
    this.lastInput = over;
    await this.apartFrom(lastJob, lastCall);
    return ended;
  }

  /** `over` resolves with the first call of `ended`. */
  private hold(): { readonly over: Promise<void>; readonly ended: () => void } {
    this.holding++;
    this.apartUntilMs = this.agent.time.monotonicMs() + APART_MS_MAX;
    let resolve = NOTHING;
    const over = new Promise<void>((settle) => (resolve = settle));
    const ended = (): void => {
      if (resolve === NOTHING) return;
      this.holding--;
      resolve();
      resolve = NOTHING;
    };
    return { over, ended };
  }

  private async apartFrom(...others: ReadonlyArray<Promise<void> | undefined>): Promise<void> {
    if (others.every((other) => other === undefined)) return;
    await new Promise<void>((resolve) => {
      const cancel = this.agent.time.after(APART_MS_MAX, resolve);
      void Promise.all(others).then(cancel).then(resolve);
    });
    await this.agent.unlessDiscarded();
  }
}
