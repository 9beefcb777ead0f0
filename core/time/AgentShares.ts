/**
 * How much of a pass of the event loop one agent may take (`TimeSlices` asks before each piece of
 * its work), so that the neighbours of a flooded agent wait for short passes only.
 *
 * 1. A share is time, and always at least one piece of work: of a flood of short turns many begin
 *    in a pass, of a flood of long ones one.
 * 2. An agent that has less than a quarter of all work is not held back. Where a few agents share
 *    the load evenly, their turns gather in large commits.
 * 3. An agent that is alone has all passes, up to `ALONE_MS` of each: a neighbour may arrive.
 * 4. Agents that have used up their share pause for as long as the pass took. Where it was the
 *    machine that took the time, and not their turns, the pause is shorter.
 */

/**
 * What turns do before they first wait for something. Their requests, commits and answers take
 * about twice as long again. A neighbour's request takes two or three passes.
 */
const SHARE_MS = 2;
/** Counted for work that begins where it arrives, which is not measured: a short turn. */
const UNMEASURED_MS = SHARE_MS / 8;
/** Rule 2: a fourth of what the last pass began. */
const PART = 0.25;
/** Rule 3: for so long after another agent's work, an agent is not alone. */
const APART_MS = 1_000;
/** Rule 3. */
const ALONE_MS = 10;

/** Rule 4: beside a pause of 2 ms and shares of 0.5 ms, an agent had 500 turns a second at most. */
const PAUSE_MS = 1;

interface Taken {
  ms: number;
  pieces: number;
}

export class AgentShares {
  /** What began in this pass, by agent. */
  private readonly taken = new Map<string, Taken>();
  private pieces = 0;
  /** Rule 2, by the last pass. */
  private part = 0;
  private last: string | undefined;
  private othersMs = -Infinity;

  /** Whether the agent's next piece of work has to wait. `passMs`: when the pass began. */
  isUsed(agent: string, nowMs: number, passMs: number): boolean {
    if (agent !== this.last) {
      if (this.last !== undefined) this.othersMs = nowMs;
      this.last = agent;
    }
    const taken = this.taken.get(agent);
    if (taken === undefined) return false;
    if (this.isAlone(nowMs)) return nowMs - passMs >= ALONE_MS;
    return taken.ms >= SHARE_MS && taken.pieces >= this.part;
  }

  /** Rule 3. */
  isAlone(nowMs: number): boolean {
    return nowMs - this.othersMs >= APART_MS;
  }

  /** A piece of the agent's work began, and took so long until it waited for something. */
  take(agent: string, ms = UNMEASURED_MS): void {
    this.pieces += 1;
    const taken = this.taken.get(agent);
    if (taken === undefined) {
      this.taken.set(agent, { ms, pieces: 1 });
      return;
    }
    taken.ms += ms;
    taken.pieces += 1;
  }

  /** Rule 4, at the end of a pass. An agent that is alone has no pause. */
  pauseMs(usedMs: number, nowMs: number): number {
    if (this.isAlone(nowMs)) return 0;
    let mostMs = PAUSE_MS;
    for (const { ms } of this.taken.values()) mostMs = Math.max(mostMs, ms);
    return Math.min(usedMs, mostMs);
  }

  /** The pass is over. */
  renew(): void {
    this.part = this.pieces * PART;
    this.pieces = 0;
    this.taken.clear();
  }
}
