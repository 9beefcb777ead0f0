/**
 * Attempts that this process announced in the journal, and whose agent it lost before they ran. (An
 * input that may have killed a host is journaled as begun before it runs.) Nothing of such an
 * attempt happened, so the next attempt has the same number. Otherwise an input that waits while
 * leases come and go would spend its attempts on announcements, and become a dead letter without
 * having run.
 *
 * 1. An attempt that begins is forgotten here first: one that kills its host, or makes it lose its
 *    lease, counts.
 * 2. A dead process forgets this, and another host does not know it: those attempts
 *    count like runs with an unknown end.
 * 3. An entry is valid only if it matches the last attempt that the journal has of the key. If
 *    another process has begun it since, that attempt counts.
 *
 * One for each host. `Suspects` feeds and asks it.
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
  /** False: nothing is known of any input, so this process need not ask. */
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
   * Whether the last attempt that the journal has was announced here and never began. The entry is
   * removed: the next attempt with this number begins, or is announced again.
   */
  take(id: AgentId, key: string, journaled: number): boolean {
    if (this.attempts.size === 0) return false;
    const place = placeOf(id, key);
    const attempt = this.attempts.get(place);
    return attempt !== undefined && this.attempts.delete(place) && attempt === journaled;
  }

  /** The attempt is about to be journaled as begun. */
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
