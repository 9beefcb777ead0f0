/**
 * Which of an agent's inputs may be what killed its host before, and how they begin: a crash tells nobody, so what is in doubt
 * is journaled as begun before it runs, and its attempts count even when nobody lives to tell.
 *
 * 1. The first stored input that begins after a wake decides: when it is older than `SUSPECT_AGE_MS`, or memory was full just
 *    now, each input that was stored before this wake is in doubt. Announced is each of them, not the first only: an older one
 *    that gets done in the instant before the death would leave no trace of the one that killed.
 * 2. Those that begin together are announced in one commit, and begin in their order when it is stored. Nothing overtakes them.
 * 3. One that was begun before begins when those before it have, and nothing begins beside it: the one that kills then
 *    spends its own attempts from the second announced death on, however many wait around it.
 * 4. What a gateway gave to this host without storing it is tried for the first time: it is not in doubt.
 *
 * Asked by `Mailbox`; the announcing is that of `Suspects`.
 */
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Suspects } from "./Suspects.ts";
import type { Turn } from "../turn/Turn.ts";

/** A death is found out, and its shard claimed, a few seconds later. */
const SUSPECT_AGE_MS = 3_000;

/** The agent whose inputs they are. */
export interface DoubtsAgent extends Pick<AgentTurns, "startedMs" | "time"> {
  readonly suspects: Pick<Suspects, "announceInput">;
}

export class InputDoubts {
  private readonly agent: DoubtsAgent;
  private readonly suspicious: boolean;
  /** Rule 1; undefined until an input was asked about. */
  private doubtful: boolean | undefined;
  /** Settles when the last announcement is stored. */
  private last: Promise<undefined> | undefined;
  /** Key of the input of rule 3. */
  private alone: string | undefined;

  /** `suspicious`: an input threw the agent out of memory just now; what waits is in doubt whatever its age. */
  constructor(agent: DoubtsAgent, suspicious: boolean) {
    this.agent = agent;
    this.suspicious = suspicious;
  }

  /** Rule 3: nothing may begin until `over`. */
  get closed(): boolean {
    return this.alone !== undefined;
  }

  /**
   * Undefined: it may run at once. Else resolves when it may, with what is to be called when its run is over, if anything.
   * Rejects with `AgentDiscarded`. `storedMs`: since the epoch; `attempt`: its number, from 1.
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
    // Who waits for it is told; there may be nobody.
    last.catch(() => undefined);
    this.last = last;
    return announced;
  }

  /** The input with this key has ended, and what it did is stored. */
  over(key: string): void {
    if (this.alone === key) this.alone = undefined;
  }

  private isInDoubt(storedMs: number): boolean {
    const { startedMs, time } = this.agent;
    if (this.doubtful !== undefined) return this.doubtful && storedMs <= startedMs;
    this.doubtful = this.suspicious || time.nowMs() - storedMs > SUSPECT_AGE_MS;
    return this.doubtful;
  }
}
