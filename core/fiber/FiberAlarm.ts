/**
 * The alarm of an agent's fibers (`Fibers`, rule 2): a schedule that `getSchedules` hides. It wakes
 * whichever host owns the agent. `Fibers` says when it is set.
 */
import { FIBER_ALARM } from "../schedule/ownAlarms.ts";
import type { SchedulesOfAgent } from "../schedule/ScheduleTable.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { FIBER_OPTIONS_DEFAULT } from "./Fiber.ts";

/** A failed recovery is tried again with the next alarm. The wait doubles each time, up to this. */
const ALARM_MS_MAX = 300_000;
/** Each alarm is a commit, and a timer in the broker. */
const ALARM_MS_MIN = 100;
/** Keeps the factor finite. The default interval reaches `ALARM_MS_MAX` after 4 doublings. */
const DOUBLINGS_MAX = 10;

interface AlarmRuntime extends Pick<AgentWork, "log" | "time"> {
  readonly scheduler: SchedulesOfAgent;
}

export class FiberAlarm {
  readonly #runtime: AlarmRuntime;
  readonly #usualMs: number;
  /** Id of the alarm's row; null: not looked for yet. */
  #id: string | undefined | null = null;

  /** An invalid interval is logged, and the default is used. */
  constructor(runtime: AlarmRuntime, intervalMs: number) {
    this.#runtime = runtime;
    this.#usualMs = checked(intervalMs, runtime);
  }

  get isSet(): boolean {
    return this.#row !== undefined;
  }

  /** Sets the alarm anew. `failures`: how often the recovery that it is for has failed. */
  set(failures: number): void {
    const { scheduler, time } = this.#runtime;
    const waitMs = Math.min(this.#usualMs * 2 ** Math.min(failures, DOUBLINGS_MAX), ALARM_MS_MAX);
    const when = { type: "scheduled", atMs: time.nowMs() + waitMs } as const;
    this.clear();
    const settings = { idempotent: false };
    this.#id = scheduler.add({ callback: FIBER_ALARM, when, settings, shape: "interface" }).id;
  }

  clear(): void {
    const id = this.#row;
    if (id !== undefined) this.#runtime.scheduler.cancel(id);
  }

  /** The id of the alarm's row while it exists: it goes when it fires, and users may delete it. */
  get #row(): string | undefined {
    const { table } = this.#runtime.scheduler;
    if (this.#id === null)
      this.#id = table.all().find(({ callback }) => callback === FIBER_ALARM)?.id;
    if (this.#id !== undefined && table.get(this.#id) === undefined) this.#id = undefined;
    return this.#id;
  }
}

/** An infinite interval would lose work, and a very short one would keep the host busy. */
function checked(intervalMs: number, { log }: Pick<AgentWork, "log">): number {
  if (intervalMs >= ALARM_MS_MIN && Number.isFinite(intervalMs)) return intervalMs;
  log.error(
    `static options.keepAliveIntervalMs is ${intervalMs}, but must be at least ${ALARM_MS_MIN}. The default is used`,
  );
  return FIBER_OPTIONS_DEFAULT.keepAliveIntervalMs;
}
