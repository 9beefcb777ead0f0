/**
 * Decides which of an agent's inputs may have killed their host before, and how such inputs begin.
 * A crash reports nothing, so an input in doubt is journaled as begun before it runs. Its attempts
 * then count even when its host dies.
 *
 * 1. The first stored input that begins after a wake decides. When it is older than
 *    `SUSPECT_AGE_MS` and the last process's end is not explained, or an input evicted the agent
 *    just now, every input that was stored before this wake is in doubt. Each of them is announced,
 *    not only the first: an older one that finishes just before the death would hide the one that
 *    killed.
 * 2. Inputs that begin together are announced in one commit, and begin in their order when it is
 *    stored. Nothing overtakes them.
 * 3. An input that had been begun before starts once all inputs ahead of it have begun, and nothing
 *    begins beside it. From the second announced death on, the input that kills spends only its own
 *    attempts.
 * 4. An input that a gateway passed to this host without storing it is tried for the first time: it
 *    is not in doubt.
 * 5. Nothing begins beside an input whose attempts are exhausted: if it ended the process before
 *    that is stored, the input would become a dead letter again.
 *
 * `Mailbox` asks; `Suspects` announces.
 */
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Suspects } from "./Suspects.ts";
import type { Turn } from "../turn/Turn.ts";

/** A host's death is detected, and its shard claimed, within a few seconds. */
const SUSPECT_AGE_MS = 3_000;

interface DoubtsAgent extends Pick<AgentTurns, "startedMs" | "time"> {
  readonly suspects: Pick<Suspects, "announceInput">;
}

/** What the owner knows about the inputs that wait when the agent wakes. */
export interface Trust {
  /** An input just made the agent leave memory, or ended its process: all are in doubt. */
  readonly suspicious?: boolean;
  /** What ended the last process is known, and was none of these: age alone is no doubt. */
  readonly explained?: boolean;
}

export class InputDoubts {
  /** Rule 1; undefined until an input was asked about. */
  private doubtful: boolean | undefined;
  /** Settles when the last announcement is stored. */
  private last: Promise<undefined> | undefined;
  /** Key of the input of rule 3 or 5. */
  private alone: string | undefined;

  private readonly suspicious: boolean;
  private readonly explained: boolean;

  constructor(
    private readonly agent: DoubtsAgent,
    { suspicious = false, explained = false }: Trust,
  ) {
    this.suspicious = suspicious;
    this.explained = explained;
  }

  /** Rules 3 and 5: nothing may begin until `over`. */
  get closed(): boolean {
    return this.alone !== undefined;
  }

  /**
   * Undefined: the input may run at once. Otherwise resolves when it may run, to a function to call
   * when the run is over, if there is one. Rejects with `AgentDiscarded`. `storedMs`: since the
   * epoch; `attempt`: its number, from 1.
   */
  pass(
    turn: Turn,
    storedMs: number,
    attempt: number,
  ): Promise<(() => void) | undefined> | undefined {
    if (turn.direct || !this.isInDoubt(storedMs)) return this.last;
    if (attempt > 1) this.alone = turn.cause.id;
    const announced = this.agent.suspects.announceInput(turn, attempt - 1);
    const last = announced.then(() => {
      if (this.last === last) this.last = undefined;
      return undefined;
    });
    // Its waiters receive the rejection; there may be none.
    last.catch(() => undefined);
    this.last = last;
    return announced;
  }

  /** The input with this key does not run again (rule 5). */
  exhausted(key: string): void {
    this.alone ??= key;
  }

  /** The input with this key has ended, and its effects are stored. */
  over(key: string): void {
    if (this.alone === key) this.alone = undefined;
  }

  private isInDoubt(storedMs: number): boolean {
    const { startedMs, time } = this.agent;
    if (this.doubtful !== undefined) return this.doubtful && storedMs <= startedMs;
    const isOld = time.nowMs() - storedMs > SUSPECT_AGE_MS;
    this.doubtful = this.suspicious || (!this.explained && isOld);
    return this.doubtful;
  }
}
