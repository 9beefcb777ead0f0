/**
 * Remembers the trace that a job belongs to: that of the turn that made it. The last `JOBS_MAX`
 * jobs are kept in this process's memory. A job that another host runs, or this one after a
 * restart, begins a new trace; the event that made it has the first trace's id in any case.
 *
 * A queue item is identified by the key of its trigger, which is stored just before the event that
 * adds the item. A schedule is identified by its id, which is in its event.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";

/** About 2 MB. */
const JOBS_MAX = 10_000;
/** The most agents with a trigger whose event is not appended: above a host's open commits. */
const AGENTS_MAX = 1_000;

export class JobTraces {
  private readonly traces = new Map<string, string>();
  /** Keys of triggers whose event is not appended yet, by agent. */
  private readonly triggers = new Map<string, string[]>();

  /** Called when a trigger of an agent is stored. */
  triggered(agent: string, key: string): void {
    const keys = this.triggers.get(agent) ?? [];
    keys.push(key);
    this.triggers.set(agent, keys);
    dropOldest(this.triggers, AGENTS_MAX);
  }

  /** Called when an event of the agent is appended that belongs to a trace. */
  made(agent: string, { schedules }: Pick<JournalHead, "schedules">, traceparent: string): void {
    for (const row of schedules?.put ?? []) {
      const id: unknown = (row as { readonly id?: unknown } | null)?.id;
      if (typeof id === "string") this.remember(`schedule:${id}`, traceparent);
    }
    for (const key of this.triggers.get(agent) ?? []) this.remember(key, traceparent);
    this.triggers.delete(agent);
  }

  /** The `traceparent` for a run. `key`: `schedule:<id>:<due>`, or the key of its trigger. */
  of(key: string): string | undefined {
    return this.traces.get(key) ?? this.traces.get(key.slice(0, key.lastIndexOf(":")));
  }

  private remember(key: string, traceparent: string): void {
    this.traces.delete(key);
    this.traces.set(key, traceparent);
    dropOldest(this.traces, JOBS_MAX);
  }
}

function dropOldest(map: Map<string, unknown>, max: number): void {
  if (map.size <= max) return;
  const [oldest] = map.keys();
  map.delete(oldest!);
}
