/**
 * Which trace a job belongs to: that of the turn that made it. Kept in this process's memory, for
 * the last `JOBS_MAX` jobs: one that another host runs, or this one after a restart, begins a trace
 * of its own. The event that made it has the first trace's id in any case.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";

/** About 2 MB. */
const JOBS_MAX = 10_000;

export class JobTraces {
  private readonly traces = new Map<string, string>();

  /** Notes the rows that an event adds. */
  made({ schedules, queue }: Pick<JournalHead, "schedules" | "queue">, traceparent: string): void {
    for (const row of [...(schedules?.put ?? []), ...(queue?.put ?? [])]) {
      const id: unknown = (row as { readonly id?: unknown } | null)?.id;
      if (typeof id === "string") this.remember(id, traceparent);
    }
  }

  /** `key`: of a run, which contains the job's id: `queue:<id>`, `schedule:<id>:<due>`. */
  of(key: string): string | undefined {
    const [, id = ""] = key.split(":");
    return this.traces.get(id);
  }

  private remember(id: string, traceparent: string): void {
    this.traces.delete(id);
    this.traces.set(id, traceparent);
    if (this.traces.size <= JOBS_MAX) return;
    const [oldest] = this.traces.keys();
    this.traces.delete(oldest!);
  }
}
