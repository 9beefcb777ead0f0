/**
 * The wakes of a workflow instance: one schedule for each step that waits, whose payload is the
 * step's key. Requested by `Execution`, kept by the agent's scheduler; they call
 * `WorkflowRun.wake`.
 *
 * The table of schedules is the truth. A drive asks for the wake of each step that waits, so rows
 * are found by their ids: all are read once after activation, and later wakes are made here. A wake
 * that has fired, or was rolled back with its turn, is missing from the table.
 */
import type { SchedulesOfAgent } from "../schedule/ScheduleTable.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";

export class Wakes {
  /** Ids of present and past rows, by the step's key. Undefined: not read yet. */
  private ids: Map<string, Set<string>> | undefined;

  constructor(
    private readonly runtime: { readonly scheduler: SchedulesOfAgent },
    private readonly retry: RetryOptions,
  ) {}

  /** Arms one with the current commit. */
  add(key: string, atMs: number): void {
    const when = { type: "scheduled", atMs } as const;
    const settings = { payload: key, retry: this.retry, idempotent: false };
    const row = this.runtime.scheduler.add({
      callback: "wake",
      when,
      settings,
      shape: "interface",
    });
    if (this.ids !== undefined) note(this.ids, key, row.id);
  }

  has(key: string): boolean {
    return this.of(key).length > 0;
  }

  /** Cancels those of one step, or all. */
  cancel(key?: string): void {
    const { scheduler } = this.runtime;
    const ids = key === undefined ? scheduler.table.all().map(({ id }) => id) : this.of(key);
    for (const id of ids) scheduler.cancel(id);
  }

  /** Ids of a step's rows. */
  private of(key: string): ReadonlyArray<string> {
    const { table } = this.runtime.scheduler;
    const ids = (this.ids ??= this.read()).get(key);
    if (ids === undefined) return [];
    for (const id of ids) if (table.get(id) === undefined) ids.delete(id);
    if (ids.size === 0) this.ids.delete(key);
    return [...ids];
  }

  private read(): Map<string, Set<string>> {
    const ids = new Map<string, Set<string>>();
    for (const { id, payload } of this.runtime.scheduler.table.all())
      if (payload !== null) note(ids, JSON.parse(payload) as string, id);
    return ids;
  }
}

function note(ids: Map<string, Set<string>>, key: string, id: string): void {
  const found = ids.get(key);
  if (found === undefined) ids.set(key, new Set([id]));
  else found.add(id);
}
