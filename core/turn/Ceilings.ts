/**
 * How many things one agent may have at once: rows of an SQL result, queue items, schedules,
 * webhooks and mail to send, sockets, sub-agents, inputs that wait. Whatever would exceed a ceiling
 * is refused with `CeilingReached` (429 for a caller), which names the option, and changes nothing.
 * `WriteLimits` bounds how much an agent may write.
 *
 * A class may set its own ceilings. Those of a host are the most that any class gets.
 */
import { CeilingReached } from "../errors/errors.ts";

/** Each with its default, and what it counts, as the error and the command line say it. */
export const CEILINGS = {
  /** Some 100 MB as objects, where rows are small. */
  sqlRowsMax: { most: 100_000, of: "rows of one SQL result", advice: "Read in parts, with LIMIT" },
  /** A row and a message in the inbox each. */
  queueMax: {
    most: 100_000,
    of: "items in the queue",
    advice: "Queue again after some of them have run",
  },
  /** A row each, which the scheduler holds in memory. */
  schedulesMax: {
    most: 100_000,
    of: "schedules",
    advice: "Keep due times in a table, with one schedule for the first of them",
  },
  /** They are sent one after another: as many as a target takes in an hour. */
  outgoingMax: {
    most: 10_000,
    of: "unsent webhooks or mails",
    advice: "Their receiver is slow or away: send again later",
  },
  /** Each receives every change of the state. */
  connectionsMax: {
    most: 20_000,
    of: "connections",
    advice: "Spread the clients over more agents",
  },
  /** A row and an event each. Callers invent names; the agent's own code may create more. */
  subAgentsMax: {
    most: 100_000,
    of: "sub-agents that URLs create",
    advice: "Refuse unknown names in onBeforeSubAgent",
  },
  /** Held by number, a hundred bytes each. More than `queueMax`, whose items are among them. */
  waitingMax: {
    most: 200_000,
    of: "waiting inputs",
    advice: "They arrive faster than the handler processes them",
  },
} as const;

export type CeilingName = keyof typeof CEILINGS;
export type CeilingOptions = { readonly [K in CeilingName]?: number | undefined };

/**
 * The host's ceiling or the class's (or the default), whichever is smaller. Throws `RangeError` if
 * the class's is not a number above 0.
 */
export function ceilingOf(
  name: CeilingName,
  own: CeilingOptions | undefined,
  caps: CeilingOptions = {},
): number {
  const most = Math.min(own?.[name] ?? CEILINGS[name].most, caps[name] ?? Infinity);
  if (most > 0) return most;
  throw new RangeError(`static options.${name}: ${String(own?.[name])} is not a number above 0`);
}

export function ceilingReached(name: CeilingName, max: number): CeilingReached {
  const { of, advice } = CEILINGS[name];
  return new CeilingReached({ option: name, max, of, advice });
}

/**
 * Counts rows of a table that users' SQL may change too. It continues from its last count, and
 * counts the rows again before it refuses.
 */
export class CountedRows {
  #count: number | undefined;

  /** Throws `CeilingReached` when one more would be too many. `look` counts the rows. */
  add(name: CeilingName, max: number, look: () => number): void {
    if (this.#count === undefined || this.#count >= max) this.#count = look();
    if (this.#count >= max) throw ceilingReached(name, max);
    this.#count++;
  }

  removed(rows: number): void {
    if (this.#count !== undefined) this.#count = Math.max(0, this.#count - rows);
  }

  /** A transaction was rolled back, or a table dropped. */
  forget(): void {
    this.#count = undefined;
  }
}
