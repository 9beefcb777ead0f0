/**
 * Attempts that this process announced in the journal (what may have killed a host is journaled as
 * begun before it runs) and whose agent it lost before they ran. Nothing of them happened, so the
 * attempt that comes next has their number again. Otherwise an input that waits while leases come
 * and go would spend its attempts on announcements, and die without having been run.
 *
 * 1. An attempt that begins is forgotten here first: one that kills its host, or makes it lose its
 *    lease, counts.
 * 2. A dead process forgets this, and another host does not know it: those attempts
 *    count like runs with an unknown end.
 * 3. An entry is valid only if it matches the journal's last word on the key. If somebody began it
 *    since, that counts.
 *
 * One a host. Fed and asked by `Suspects`.
 */
import type { AgentId } from "../../schemas/Address.ts";

/** The known facts of a process that ended while an attempt of an input ran. */
export interface LastEnding {
  /** E.g. `its turn held …, in agents.ts:7:3`. */
  readonly reason: string;
  /** The number of the attempt that ended it, from 1. It counts, whatever was journaled. */
  readonly attempt: number;
}

/** `services/watchdog/Endings` keeps them across the processes' ends. */
export interface LastEndings {
  /** False: this process need not ask for any input's. */
  readonly any: boolean;
  /** Undefined: not known. */
  readonly of: (id: AgentId, key: string) => LastEnding | undefined;
  /** The input is dead. When an operator sends it again, its attempts start from 1. */
  readonly forget: (id: AgentId, key: string) => void;
}

const NOTHING_KNOWN: LastEndings = { any: false, of: () => undefined, forget: () => undefined };

/**
 * Keys that another host takes over never come back: past this bound the oldest are forgotten, and
 * their attempts count.
 */
const HELD_MAX = 10_000;

export class Unbegun {
  /** Announced attempt by agent and key, oldest first. */
  private readonly attempts = new Map<string, number>();
  private readonly endings: LastEndings;

  /** Default: nothing is known of how processes ended. */
  constructor(endings = NOTHING_KNOWN) {
    this.endings = endings;
  }

  /** Whether the attempts of inputs that the journal does not know may be counted. */
  get knowsEndings(): boolean {
    return this.endings.any;
  }

  /** The number of the last attempt that is known to have ended its process; 0: none. */
  endedAt(id: AgentId, key: string): number {
    return this.endings.any ? (this.endings.of(id, key)?.attempt ?? 0) : 0;
  }

  /** The input is dead, and that is stored. */
  settled(id: AgentId, key: string): void {
    if (this.endings.any) this.endings.forget(id, key);
  }

  /** The error of an input whose last attempt did not end, and which has none left. */
  exhausted(id: AgentId, key: string): string {
    const why = this.endings.of(id, key)?.reason;
    const text = "its attempts are exhausted, and the last one did not end";
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
