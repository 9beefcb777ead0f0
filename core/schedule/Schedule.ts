/**
 * Schedules as users see them, and the conversion of both call shapes (`interface.md` §4.4,
 * `protocol.md` table at the top and §6.3) to one. Pure.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { checkRetry } from "../retry/retryPolicy.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";

/** `scheduled`: at a time. `delayed`: once, after a delay. `cron`, `interval`: again and again. */
export type ScheduleType = "scheduled" | "delayed" | "cron" | "interval";

/** Which missed instants a schedule makes up for: only the last, each, or none. */
export type Misfire = (typeof MISFIRES)[number];
const MISFIRES = ["latest", "all", "skip"] as const;

/** A schedule as it is stored. */
export interface Schedule<T = unknown> {
  readonly id: string;
  /** Name of the method. */
  readonly callback: string;
  readonly payload?: T;
  readonly retry?: RetryOptions;
  readonly type: ScheduleType;
  /** Next due time, seconds since the epoch, rounded up. */
  readonly time: number;
  readonly delayInSeconds?: number;
  readonly cron?: string;
  readonly intervalSeconds?: number;
}

/** A filter of schedules: those that meet all given criteria. */
export interface ScheduleCriteria {
  /** The schedule's id. */
  readonly id?: string;
  /** The kind of schedule. */
  readonly type?: ScheduleType;
  /** The next due time, both ends included. */
  readonly timeRange?: { readonly start?: Date; readonly end?: Date };
}

/** Settings of a schedule, whatever its time. */
export interface ScheduleSettings<T = unknown> {
  readonly payload?: T;
  readonly retry?: RetryOptions;
  /** A repeated call returns the existing schedule. Default: for cron and interval only. */
  readonly idempotent?: boolean;
  /** IANA time zone of `cron`; default UTC. Only with `cron`. */
  readonly timezone?: string;
  /** Default `latest`. */
  readonly misfire?: Misfire;
}

interface WhenFields {
  readonly time: Date;
  readonly delayInSeconds: number;
  readonly cron: string;
  readonly intervalSeconds: number;
}

/** The second argument of `schedule(callback, options)`: exactly one of the four fields. */
export type ScheduleOptions<T = unknown> = ScheduleSettings<T> &
  {
    [K in keyof WhenFields]: Pick<WhenFields, K> & {
      readonly [Other in Exclude<keyof WhenFields, K>]?: never;
    };
  }[keyof WhenFields];

type When =
  | { readonly type: "scheduled"; readonly atMs: number }
  | { readonly type: "delayed"; readonly delayInSeconds: number }
  | { readonly type: "cron"; readonly cron: string }
  | { readonly type: "interval"; readonly intervalSeconds: number };

/** One call, independent of its shape. */
export interface ScheduleCall {
  readonly callback: string;
  readonly when: When;
  readonly settings: ScheduleSettings;
  /** The shape decides what the call returns: the id, or the whole schedule. */
  readonly shape: "interface" | "reference";
}

const SETTINGS: ReadonlySet<string> = new Set<keyof ScheduleSettings>([
  "payload", "retry", "idempotent", "timezone", "misfire",
]); // prettier-ignore
const WHEN = ["time", "delayInSeconds", "cron", "intervalSeconds"] as const;
const ALL_OPTIONS: ReadonlySet<string> = new Set([...WHEN, ...SETTINGS]);

/** 30 days (`protocol.md` §0, limits). */
export const INTERVAL_SECONDS_MAX = 2_592_000;

/** Throws `TypeError` or `RangeError` that names the allowed values. */
export function readScheduleCall(args: ReadonlyArray<unknown>): ScheduleCall {
  const [first, second, third, fourth] = args;
  if (typeof first === "string" && typeof second === "object" && second !== null) {
    const options = second as ScheduleOptions;
    const named = `schedule("${first}", …)`;
    checkSettings(named, options, ALL_OPTIONS);
    const when = readOptions(options);
    checkTimezone(named, when, options);
    return { callback: first, when, settings: options, shape: "interface" };
  }
  if (typeof second !== "string")
    throw new TypeError(
      "schedule(callback, { time | delayInSeconds | cron | intervalSeconds }) or schedule(when, callback, payload): the callback must be the name of a method",
    );
  const given = (fourth ?? {}) as ScheduleSettings;
  const named = `schedule(…, "${second}")`;
  checkSettings(named, given);
  const when = readWhen(first);
  checkTimezone(named, when, given);
  const settings = { ...given, ...(third === undefined ? {} : { payload: third }) };
  return { callback: second, when, settings, shape: "reference" };
}

function readOptions(options: ScheduleOptions): When {
  const given = WHEN.filter((name) => options[name] !== undefined);
  if (given.length !== 1)
    throw new TypeError(
      `schedule: give exactly one of time, delayInSeconds, cron and intervalSeconds; got ${given.length === 0 ? "none" : given.join(" and ")}`,
    );
  const { time, delayInSeconds, cron, intervalSeconds } = options as Partial<WhenFields>;
  // `readWhen` would take a number given as `time` for a delay, and text for a cron expression.
  if (time !== undefined && !((time as unknown) instanceof Date))
    throw new TypeError(`schedule: time must be a Date, like new Date(ms), not ${kindOf(time)}`);
  if (delayInSeconds !== undefined && typeof delayInSeconds !== "number")
    throw new TypeError(`schedule: delayInSeconds must be a number, not ${kindOf(delayInSeconds)}`);
  if (cron !== undefined && typeof cron !== "string")
    throw new TypeError(`schedule: cron must be text like "0 9 * * 1", not ${kindOf(cron)}`);
  if (intervalSeconds !== undefined) return readInterval(intervalSeconds);
  return readWhen(time ?? delayInSeconds ?? cron);
}

const kindOf = (value: unknown): string => (value === null ? "null" : `a ${typeof value}`);

function readWhen(when: unknown): When {
  if (when instanceof Date) {
    if (Number.isNaN(when.getTime()))
      throw new RangeError("Invalid job time: NaN. schedule: the time must be a valid Date");
    return { type: "scheduled", atMs: when.getTime() };
  }
  if (typeof when === "number") {
    if (!Number.isFinite(when))
      throw new RangeError(
        `Invalid job time: ${when}. schedule: the delay must be a finite number of seconds`,
      );
    return { type: "delayed", delayInSeconds: when };
  }
  if (typeof when === "string") return { type: "cron", cron: when };
  throw new TypeError("schedule: `when` must be a Date, a number of seconds or a cron expression");
}

/** Throws `TypeError` for an unknown option, and `RangeError` for a `misfire` that is none. */
export function checkSettings(call: string, given: ScheduleSettings, known = SETTINGS): void {
  checkOptions(call, given, known);
  checkRetry(`${call}: retry`, given.retry);
  const { misfire } = given;
  if (misfire === undefined || (MISFIRES as ReadonlyArray<unknown>).includes(misfire)) return;
  throw new RangeError(`misfire must be one of ${MISFIRES.join(", ")}, not ${String(misfire)}`);
}

/** Throws `TypeError` for the time zone of a schedule that has no cron expression. */
export function checkTimezone(call: string, { type }: When, { timezone }: ScheduleSettings): void {
  if (timezone === undefined || type === "cron") return;
  throw new TypeError(
    `${call}: timezone is the zone of a cron expression, and this schedule has none`,
  );
}

export function readInterval(intervalSeconds: unknown): When {
  if (
    typeof intervalSeconds !== "number" ||
    !(intervalSeconds > 0 && intervalSeconds <= INTERVAL_SECONDS_MAX)
  )
    throw new RangeError(
      `intervalSeconds must be more than 0 and at most ${INTERVAL_SECONDS_MAX} (30 days), not ${typeof intervalSeconds === "string" ? `the text "${intervalSeconds}"` : String(intervalSeconds)}`,
    );
  return { type: "interval", intervalSeconds };
}
