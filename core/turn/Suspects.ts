/**
 * Jobs that may have killed the host that ran them: a crash tells nobody, so each is journaled as begun
 * before it runs. One that was begun before and did not end runs while no other such job does: so
 * the one that kills spends its own attempts, and not those of jobs that happened to run beside it.
 */
import type { ActiveAgent } from "./ActiveAgent.ts";
import type { Turn } from "./Turn.ts";

export class Suspects {
  private readonly agent: ActiveAgent;
  /** Undefined: none was alone yet. */
  private last: Promise<void> | undefined;

  constructor(agent: ActiveAgent) {
    this.agent = agent;
  }

  /**
   * `attemptsBefore`: how often its job was begun. Resolves when the journal knows and it may run; what it
   * gives is to be called when this attempt is over. Rejects with `AgentDiscarded`.
   */
  async announce(turn: Turn, attemptsBefore: number): Promise<() => void> {
    const cleared = attemptsBefore === 0 ? () => undefined : await this.alone();
    const { committer } = this.agent;
    turn.announced = true;
    committer.touch(turn);
    await committer.flush(turn);
    return cleared;
  }

  private async alone(): Promise<() => void> {
    const before = this.last;
    let cleared = (): void => undefined;
    this.last = new Promise((resolve) => (cleared = resolve));
    await before;
    return cleared;
  }
}
