/**
 * The schedule methods of `Agent`: reads their calls, and returns schedules as users see them
 * (`interface.md` §4.4, `protocol.md` §6.3). `Scheduler` keeps and runs them.
 */
import type { NaturalSchedule } from "./naturalSchedule.ts";
import { callOfNatural } from "./naturalSchedule.ts";
import {
  readInterval,
  readScheduleCall,
  type Schedule,
  type ScheduleSettings,
  type ScheduleCriteria,
} from "./Schedule.ts";
import { toSchedule, type SchedulesOfAgent } from "./ScheduleTable.ts";

/** Its public methods are those of `Agent`, which documents them. */
export class ScheduleApi {
  readonly #agent: { readonly scheduler: SchedulesOfAgent };
  readonly #hidden: string;

  /** `hidden`: the callback whose schedules are the runtime's own. */
  constructor(agent: { readonly scheduler: SchedulesOfAgent }, hidden: string) {
    this.#agent = agent;
    this.#hidden = hidden;
  }

  add(args: ReadonlyArray<unknown>): string | Schedule {
    const call = readScheduleCall(args);
    const row = this.#agent.scheduler.add(call);
    return call.shape === "interface" ? row.id : toSchedule(row);
  }

  addInterval(
    intervalSeconds: number,
    callback: string,
    payload: unknown,
    options: ScheduleSettings,
  ): Schedule {
    const when = readInterval(intervalSeconds);
    const settings = { ...options, ...(payload === undefined ? {} : { payload }) };
    const call = { callback, when, settings, shape: "reference" as const };
    return toSchedule(this.#agent.scheduler.add(call));
  }

  addNatural(result: NaturalSchedule, callback: string, settings: ScheduleSettings): string | null {
    const call = callOfNatural(result, callback, settings);
    return call === undefined ? null : this.#agent.scheduler.add(call).id;
  }

  get(id: string): Schedule | undefined {
    const row = this.#agent.scheduler.table.get(id);
    return row === undefined || row.callback === this.#hidden ? undefined : toSchedule(row);
  }

  list({ id, type, timeRange }: ScheduleCriteria): Schedule[] {
    const from = timeRange?.start === undefined ? -Infinity : timeRange.start.getTime() / 1000;
    const to = timeRange?.end === undefined ? Infinity : timeRange.end.getTime() / 1000;
    return this.#agent.scheduler.table
      .all()
      .filter(({ callback }) => callback !== this.#hidden)
      .map(toSchedule)
      .filter(
        (schedule) =>
          (id === undefined || schedule.id === id) &&
          (type === undefined || schedule.type === type) &&
          schedule.time >= from &&
          schedule.time <= to,
      );
  }

  cancel(id: string): boolean {
    return this.#agent.scheduler.cancel(id);
  }
}
