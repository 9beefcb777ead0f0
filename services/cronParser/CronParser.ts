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
 * Beyond the library: `5/10` is `5` as in the reference, `@midnight` is known; a field too few or
 * an `H` (another time at every parse) is refused.
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
  const text = normalise(expression);
  try {
    const parsed = CronExpressionParser.parse(text, { tz: "UTC", currentDate: new Date(0) });
    return { expression: parsed, everyHour: parsed.fields.hour.values.length === 24 };
  } catch (error) {
    throw invalid(expression, error);
  }
}

function normalise(expression: string): string {
  const text = expression.trim();
  if (/^@midnight$/i.test(text)) return "0 0 * * *";
  if (/^@[a-z]+$/i.test(text)) return text;
  const fields = text.split(/\s+/);
  if ((fields.length !== 5 && fields.length !== 6) || fields.some((field) => /^H\b/.test(field)))
    throw new InvalidCron({
      message: `"${expression}" is not a cron expression: use "minute hour day month weekday", optionally with seconds in front, or a name like @hourly`,
    });
  return fields.map((field) => field.replace(/(^|,)(\d+)\/\d+/g, "$1$2")).join(" ");
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
