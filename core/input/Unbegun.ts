/**
 * Attempts that this process announced in the journal (what may have killed a host is journaled as
 * begun before it runs) and whose agent it lost before they ran. Nothing of them happened, so the
 * attempt that comes next has their number again. Otherwise an input that waits while leases come
 * and go would spend its attempts on announcements, and die without having been run.
 *
 * 1. An attempt that begins is forgotten here first: one that kills its host, or makes it lose its
 *    lease, counts.
 * 2. A process that dies forgets all, and another host knows nothing of it: those attempts count,
 *    as of runs nobody knows the end of.
 * 3. What is held matches what the journal says last of the key; where somebody began it since,
 *    that counts.
 *
 * One a host. Fed and asked by `Suspects`.
 */
import type { AgentId } from "../../schemas/Address.ts";

/**
 * Why the process ended in which an attempt of this key ran, e.g. `a turn held …, at
 * agents.ts:7:3`. Undefined: not known. `services/watchdog/Endings` keeps it across the process's
 * end.
 */
export type LastEnding = (id: AgentId, key: string) => string | undefined;

/**
 * Keys that another host takes over never come back: past this bound the oldest are forgotten, and
 * their attempts count.
 */
const HELD_MAX = 10_000;

export class Unbegun {
  /** Announced attempt by agent and key, oldest first. */
  private readonly attempts = new Map<string, number>();
  private readonly lastEnding: LastEnding;

  /** Default: nothing is known of how processes ended. */
  constructor(lastEnding: LastEnding = () => undefined) {
    this.lastEnding = lastEnding;
  }

  /** The error of an input whose last attempt did not end, and which has none left. */
  exhausted(id: AgentId, key: string): string {
    const why = this.lastEnding(id, key);
    const text = "its attempts are exhausted; the last one did not end";
    return why === undefined ? text : `${text}: ${why}`;
  }

  /**
   * Whether the last attempt that the journal knows of was announced here and never began.
   * Forgotten with the answer: what has its number next begins, announced or not, or is announced
   * anew.
   */
  take(id: AgentId, key: string, journaled: number): boolean {
    if (this.attempts.size === 0) return false;
    const place = placeOf(id, key);
    const attempt = this.attempts.get(place);
    return attempt !== undefined && this.attempts.delete(place) && attempt === journaled;
  }

  /** It is about to be journaled. */
  announced(id: AgentId, key: string, attempt: number): void {
    const place = placeOf(id, key);
    this.attempts.delete(place);
    if (this.attempts.size >= HELD_MAX) this.attempts.delete(this.attempts.keys().next().value!);
    this.attempts.set(place, attempt);
  }

  /** Rule 1. */
  begins(id: AgentId, key: string): void {
    this.attempts.delete(placeOf(id, key));
  }
}

const placeOf = (id: AgentId, key: string): string => JSON.stringify([id.class, id.name, key]);
