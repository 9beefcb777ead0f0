/**
 * The schedule methods of `Agent`: reads their calls, and returns schedules as users see them
 * (`interface.md` §4.4, `protocol.md` §6.3). `Scheduler` keeps and runs them.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { timeOf } from "../errors/timeOf.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { OWN_ALARMS } from "./ownAlarms.ts";
import { callOfNatural, type NaturalSchedule } from "./naturalSchedule.ts";
import {
  checkSettings,
  readInterval,
  readScheduleCall,
  type Schedule,
  type ScheduleSettings,
  type ScheduleCriteria,
} from "./Schedule.ts";
import { toSchedule, type SchedulesOfAgent } from "./ScheduleTable.ts";

/** A criterion that is not known would select every schedule, as for a loop that cancels them. */
const CRITERIA: ReadonlySet<string> = new Set<keyof ScheduleCriteria>(["id", "type", "timeRange"]);

/** Its public methods are those of `Agent`, which documents them. */
interface SchedulingAgent extends Pick<AgentTurns, "assertMayWrite"> {
  readonly scheduler: SchedulesOfAgent;
}

export class ScheduleApi {
  readonly #agent: SchedulingAgent;

  constructor(agent: SchedulingAgent) {
    this.#agent = agent;
  }

  /** Throws in the function of a step. */
  get #toWrite(): SchedulesOfAgent {
    this.#agent.assertMayWrite();
    return this.#agent.scheduler;
  }

  add(args: ReadonlyArray<unknown>): string | Schedule {
    const call = readScheduleCall(args);
    const row = this.#toWrite.add(call);
    return call.shape === "interface" ? row.id : toSchedule(row);
  }

  addInterval(
    intervalSeconds: number,
    callback: string,
    payload: unknown,
    { _idempotent: idempotent, ...options }: ScheduleSettings & { readonly _idempotent?: boolean },
  ): Schedule {
    const when = readInterval(intervalSeconds);
    checkSettings(`scheduleEvery(…, "${callback}")`, options);
    const settings = {
      ...(idempotent === undefined ? {} : { idempotent }),
      ...options,
      ...(payload === undefined ? {} : { payload }),
    };
    const call = { callback, when, settings, shape: "reference" as const };
    return toSchedule(this.#toWrite.add(call));
  }

  addNatural(result: NaturalSchedule, callback: string, settings: ScheduleSettings): string | null {
    const call = callOfNatural(result, callback, settings);
    return call === undefined ? null : this.#toWrite.add(call).id;
  }

  get(id: string): Schedule | undefined {
    const row = this.#agent.scheduler.table.get(id);
    return row === undefined || OWN_ALARMS.has(row.callback) ? undefined : toSchedule(row);
  }

  list(criteria: ScheduleCriteria): Schedule[] {
    checkOptions("getSchedules", criteria, CRITERIA);
    const { id, type, timeRange } = criteria;
    const from = secondsOf("start", timeRange?.start) ?? -Infinity;
    const to = secondsOf("end", timeRange?.end) ?? Infinity;
    return this.#agent.scheduler.table
      .all()
      .filter(({ callback }) => !OWN_ALARMS.has(callback))
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
    if (typeof id !== "string")
      throw new TypeError(
        `cancelSchedule(id): the id must be the id of a schedule, not ${typeof id}`,
      );
    return this.#toWrite.cancel(id);
  }
}

/** The Unix time of a limit of `timeRange`. Throws `TypeError` for an invalid time. */
function secondsOf(limit: string, time: unknown): number | undefined {
  const ms = timeOf(`getSchedules: timeRange.${limit}`, time);
  return ms === undefined ? undefined : ms / 1000;
}
