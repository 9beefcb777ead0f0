/**
 * Runs inputs, jobs and calls that may have killed a host apart from others. A crash reports
 * nothing, so each job that waited when its agent woke, and the inputs that a mailbox suspects, are
 * journaled as begun before they run. Calls carry the suspicion themselves (`Call.suspect`).
 *
 * 1. A job that was begun before and did not end runs while no other such job does. The one that
 *    kills spends its own attempts, and not those of jobs that happened to run beside it.
 * 2. Such a job and an input that was begun before do not run beside each other either. The second
 *    waits, but not for ever: an input may wait for a job, and a job for an input.
 * 3. An attempt that was journaled and lost its agent before it ran is not spent (`Unbegun`). An
 *    attempt that is known to have ended its process is spent, even where nothing of it was
 *    journaled; attempts of others that it interrupted are not.
 * 4. A call that was under way when its host was lost runs beside none of these, and beside no
 *    other such call. It does not wait here: its caller asks again. A call that ends this host then
 *    takes only itself down, since the others were not under way.
 */
import { notUndone } from "../step/undoSteps.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import type { Unbegun } from "./Unbegun.ts";

/** Rules 2 and 4. Most killers kill at once, and nearly every turn is shorter. */
const APART_MS_MAX = 10_000;

const NOTHING = (): void => undefined;

export type SuspectsAgent = Pick<
  AgentTurns,
  "id" | "time" | "image" | "committer" | "unlessDiscarded"
>;

export class Suspects {
  /** Settles when the last such job is over. Undefined: none ran yet. */
  private lastJob: Promise<void> | undefined;
  private lastInput: Promise<void> | undefined;
  private lastCall: Promise<void> | undefined;
  /** How many suspects of rules 1, 2 and 4 wait or run. */
  private holding = 0;
  /** Monotonic: until then, calls are not admitted beside them. */
  private apartUntilMs = 0;

  constructor(
    private readonly agent: SuspectsAgent,
    private readonly unbegun: Unbegun,
  ) {}

  /** True while something that may have killed its host runs or waits. */
  get any(): boolean {
    return this.holding > 0;
  }

  /** Rule 4. Call the returned function when the call is over; undefined: not now. */
  admitCall(): (() => void) | undefined {
    if (this.any && this.agent.time.monotonicMs() < this.apartUntilMs) return undefined;
    const { over, ended } = this.hold();
    this.lastCall = over;
    return ended;
  }

  /** Rule 3. The number of a key's next attempt. `journaled`: how many attempts the journal has. */
  next(key: string, journaled: number): number {
    const ended = this.ended(key);
    if (ended > journaled) return ended + 1;
    return journaled + (this.unbegun.take(this.agent.id, key, journaled) ? 0 : 1);
  }

  /** The number of the last attempt that is known to have ended its process; 0: none. */
  ended(key: string): number {
    return this.unbegun.endedAt(this.agent.id, key);
  }

  /**
   * Called when it is certain that another agent ended this agent's last host. An attempt that was
   * begun has the same number when it begins again, unless it is known to have ended a process
   * itself. Returns false if something was begun: it may have ended an earlier host.
   */
  forgive(): boolean {
    const { id, image } = this.agent;
    for (const [key, { attempts }] of image.begun)
      if (this.ended(key) < attempts) this.unbegun.announced(id, key, attempts);
    return image.begun.size === 0;
  }

  /** An input or job is dead, and that is stored. */
  settled(key: string): void {
    this.unbegun.settled(this.agent.id, key);
  }

  /**
   * The error of an input or job whose last attempt did not end, and which has none left. Its steps
   * are not undone: only its code, which is not run again, knows how.
   */
  exhausted(key: string): string {
    const { id, image } = this.agent;
    return notUndone(this.unbegun.exhausted(id, key), image.stepsDone(key));
  }

  /**
   * `attemptsBefore`: how often its job was begun. Resolves when the announcement is stored and the
   * job may run, to a function to call when this attempt is over. Rejects with `AgentDiscarded`.
   */
  async announce(turn: Turn, attemptsBefore: number): Promise<() => void> {
    const cleared = attemptsBefore === 0 ? NOTHING : await this.jobAlone();
    await this.store(turn);
    return cleared;
  }

  /** As `announce`, for an input. The mailbox decides which inputs run alone. */
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
    // Announcements without an await between them share one commit.
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
