/** Reads from one journal what was done, turn by turn, and the marks that must be there. */
import type { AgentHistory } from "../rig/RunHistory.ts";
import type { Order } from "../subjects.ts";

export interface Effects {
  /** Times that each key was done, over all lives. */
  readonly done: ReadonlyMap<string, number>;
  /** Keys whose input or job ended in the dead letters. */
  readonly dead: ReadonlySet<string>;
  /** Marks that SQL holds after the last event, in no order. */
  readonly marks: ReadonlyArray<string>;
  /** The marks that the state counts after each event, and the state. */
  readonly counts: ReadonlyArray<{
    readonly seq: number;
    readonly marks: number;
    readonly state: number;
  }>;
}

/** Ids of webhooks are the provider's, with its name before them. */
export const keyOfId = (id: string): string => `github:${id}`;

export function effectsOf(history: AgentHistory, states: ReadonlyArray<unknown>): Effects {
  const done = new Map<string, number>();
  const dead = new Set<string>();
  const counts: Array<Effects["counts"][number]> = [];
  let marks: string[] = [];
  /** Runs that have written in this life and have not ended. */
  let wrote = new Set<string>();
  for (const [n, { seq, head }] of history.events.entries()) {
    if (head.kind === "destroyed") {
      marks = [];
      wrote = new Set();
    }
    for (const { cause, state, done: keys = [], dead: isDead, undone } of head.turns) {
      const { id = "" } = cause;
      if (isDead === true) dead.add(id);
      else for (const key of keys) done.set(key, (done.get(key) ?? 0) + 1);
      if (head.kind === "destroyed") continue;
      // What it had written is rolled back, and it runs again from its start.
      if (undone === true) wrote.delete(id);
      else if (state !== undefined && DURABLE.has(cause.kind)) wrote.add(id);
      // A job that was cancelled before it began is done without having run.
      const ran = DURABLE.has(cause.kind) && (cause.kind === "webhook" || wrote.has(id));
      if (isDead !== true && keys.length > 0 && ran) marks.push(id);
      if (keys.length > 0) wrote.delete(id);
    }
    const { count = 0 } = (states[n] ?? {}) as { count?: number };
    counts.push({ seq, marks: marks.length + wrote.size, state: count });
  }
  return { done, dead, marks, counts };
}

/** Turns that leave marks; others only seed the initial state. */
const DURABLE: ReadonlySet<string> = new Set(["webhook", "queue", "schedule", "mail", "workflow"]);

/** The order that a webhook carried, where the journal has its body. */
export function orderOf(body: string | undefined): Order | undefined {
  try {
    return body === undefined ? undefined : (JSON.parse(body) as Order);
  } catch {
    return undefined;
  }
}
