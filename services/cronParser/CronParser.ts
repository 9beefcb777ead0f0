/**
 * The cron port on `cron-parser`. The library is asked in UTC only, as a calendar of clock
 * readings; which instants show such a reading is `ZoneClock`'s matter, and the port's rules for
 * clock changes are put on top here:
 *
 * 1. A reading is due at the first instant at which the clock shows it or a later one. So one that
 *    the clock skips is due at the end of the gap, and one that it shows twice is due once.
 * 2. Where every hour is meant (`*` for hours) an hour is an hour: each instant that shows the
 *    reading is due, and what is skipped is not made up for.
 *
 * Beyond the library: `5/10` is `5` as in the reference, `FRI-SUN` is a range, parts of a list may
 * overlap, a day field that names every day is `*`, `@midnight` is known; a field too few or an `H`
 * (another time at every parse) is refused.
 */
import { CronExpressionParser, type CronExpression } from "cron-parser";
import * as Layer from "effect/Layer";
import { Cron, InvalidCron, type CronShape } from "../../core/schedule/Cron.ts";
import { ZoneClock } from "./ZoneClock.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** Expressions and zones kept, the longest unused go first: parsing costs more than a question. */
const KEPT_MAX = 256;
/** Readings in a row that no instant shows: no gap is longer than a day of seconds. */
const SKIPPED_MAX = 86_400;
/** Characters of an expression that is read here; the library refuses longer ones. */
const TEXT_MAX = 1024;
/** The library's names of six fields, in order. */
const UNITS = ["second", "minute", "hour", "dayOfMonth", "month", "dayOfWeek"] as const;
type Unit = (typeof UNITS)[number];

interface Calendar {
  readonly expression: CronExpression;
  readonly everyHour: boolean;
}

export class CronParser implements CronShape {
  private readonly calendars = new Map<string, Calendar>();
  private readonly zones = new Map<string, ZoneClock>();

  // An arrow: callers take it off the record.
  readonly next = (expression: string, afterMs: number, timezone: string | undefined): number => {
    const zone =
      timezone === undefined || /^(etc\/)?utc$/i.test(timezone)
        ? undefined
        : kept(this.zones, timezone, ZoneClock.of);
    const calendar = kept(this.calendars, expression, parse);
    try {
      if (zone === undefined) return nextReading(calendar, afterMs);
      return calendar.everyHour
        ? nextShown(calendar, zone, afterMs)
        : zone.reached(nextReading(calendar, zone.highest(afterMs)));
    } catch (error) {
      // Parsed, and without a next time.
      throw invalid(expression, error);
    }
  };
}

export const layer: Layer.Layer<Cron> = Layer.sync(Cron, () => new CronParser());

/** The first reading of the clock after this one, as if it were UTC. */
function nextReading({ expression }: Calendar, afterMs: number): number {
  expression.reset(new Date(afterMs));
  return expression.next().getTime();
}

/** Rule 2. */
function nextShown(calendar: Calendar, zone: ZoneClock, afterMs: number): number {
  const near = zone.stretches(afterMs, afterMs + ZoneClock.SHIFT_MS_MAX);
  for (const { fromMs, toMs, offsetMs } of near) {
    // The first stretch begins with the instant that is past, the others with one that counts.
    const since = fromMs + offsetMs - (fromMs === afterMs ? 0 : 1);
    const dueMs = nextReading(calendar, since) - offsetMs;
    if (dueMs < toMs) return dueMs;
  }
  const last = near[near.length - 1]!;
  let reading = last.toMs + last.offsetMs - 1;
  for (let skipped = 0; skipped < SKIPPED_MAX; skipped++) {
    reading = nextReading(calendar, reading);
    const dueMs = zone.shown(reading);
    if (dueMs !== undefined) return dueMs;
  }
  throw new Error(
    "every matching time is skipped by a clock change: use another hour or time zone",
  );
}

function parse(expression: string): Calendar {
  try {
    const parsed = read(normalise(expression));
    return { expression: parsed, everyHour: parsed.fields.hour.values.length === 24 };
  } catch (error) {
    throw invalid(expression, error);
  }
}

const read = (text: string): CronExpression =>
  CronExpressionParser.parse(text, { tz: "UTC", currentDate: new Date(0) });

function normalise(expression: string): string {
  const text = expression.trim();
  if (/^@[a-z]+$/i.test(text)) {
    const name = text.toLowerCase();
    return name === "@midnight" ? "0 0 * * *" : name;
  }
  const fields = text.split(/\s+/);
  if ((fields.length !== 5 && fields.length !== 6) || fields.some((field) => /\bH\b/.test(field)))
    throw new InvalidCron({
      message: `"${expression}" is not a cron expression: use "minute hour day month weekday", optionally with seconds in front, or a name like @hourly`,
    });
  if (text.length > TEXT_MAX) return text;
  const units = UNITS.slice(-fields.length);
  return fields
    .map((field, at) => distinct(field.replace(/(^|,)(\d+)\/\d+/g, "$1$2"), units[at]!))
    .join(" ");
}

/**
 * A field without what the library takes by the text instead of the values: a number that two parts
 * of a list have, and a day field of every day, which counts as restricted unless it is `*`.
 */
function distinct(field: string, unit: Unit): string {
  const weekday = unit === "dayOfWeek";
  const days = weekday || unit === "dayOfMonth";
  const isList = field.includes(",");
  if (field === "*" || !(days || isList)) return field;
  const parts = (
    weekday ? field.replace(/\bsun-sun\b/gi, "sun").replace(/-sun\b/gi, "-7") : field
  ).split(",");
  const whole = parts.join(",");
  // An empty part would leave a field too few, and `#` is no value: the library judges them.
  if (parts.includes("") || field.includes("#")) return whole;
  const values = new Set<number>();
  for (const part of new Set(parts))
    for (const value of read(UNITS.map((each) => (each === unit ? part : "*")).join(" ")).fields[
      unit
    ].values) {
      if (typeof value !== "number") return whole;
      values.add(weekday ? value % 7 : value);
    }
  if (days && values.size === (weekday ? 7 : 31)) return "*";
  return isList ? [...values].toSorted((a, b) => a - b).join(",") : whole;
}

function invalid(expression: string, error: unknown): InvalidCron {
  if (error instanceof InvalidCron) return error;
  const why = messageOf(error);
  return new InvalidCron({ message: `"${expression}" is not a cron expression: ${why}` });
}

function kept<A>(cache: Map<string, A>, key: string, make: (key: string) => A): A {
  const value = cache.get(key) ?? make(key);
  cache.delete(key);
  cache.set(key, value);
  if (cache.size > KEPT_MAX) cache.delete(cache.keys().next().value!);
  return value;
}
