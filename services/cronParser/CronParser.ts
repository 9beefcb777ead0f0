/**
 * The cron port on `cron-parser`. The library moves a time that the clock skips by the length of the
 * gap, and lets a missing field be any value; the port's rules (first instant after the gap, five or six
 * fields) are put on top here.
 */
import { CronExpressionParser, type CronExpression } from "cron-parser";
import { Layer } from "effect";
import { Cron, InvalidCron, type CronShape } from "../../core/schedule/Cron.ts";

/** Skipped times in a row that don't count: more than any zone's gap holds minutes of. */
const SHIFTED_MAX = 24 * 60;
/** No zone's clock changes twice within this; a gap between two instants is looked for in such steps. */
const STEP_MS = 12 * 3600 * 1000;

export const cronParser: CronShape = {
  next: (expression, afterMs, timezone) => {
    checkFields(expression);
    if (timezone === undefined || timezone === "UTC")
      return attempt(expression, () => nextOf(parse(expression, afterMs, "UTC")));
    const wall = wallClock(timezone);
    return attempt(expression, () => {
      const matches = parse(expression, afterMs, "UTC");
      const times = parse(expression, afterMs, timezone);
      let due = nextOf(times);
      // What the library moved out of a gap does not read like the expression: not that one.
      for (let i = 0; i < SHIFTED_MAX && !matches.includesDate(new Date(wall(due))); i++)
        due = nextOf(times);
      return inGap(expression, wall, afterMs, due) ?? due;
    });
  },
};

export const layer: Layer.Layer<Cron> = Layer.succeed(Cron, cronParser);

/** Shows an instant as the zone's clock does, as if that were UTC. Throws `InvalidCron` for no zone. */
function wallClock(timezone: string): (ms: number) => number {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: timezone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    throw new InvalidCron({
      message: `"${timezone}" is no time zone; use an IANA name like Europe/Berlin`,
    });
  }
  return (ms) => {
    const part = Object.fromEntries(format.formatToParts(ms).map((p) => [p.type, Number(p.value)]));
    return Date.UTC(
      part["year"]!, part["month"]! - 1, part["day"]!, part["hour"]!, part["minute"]!, part["second"]!,
    ); // prettier-ignore
  };
}

/** The instant after a gap between `afterMs` and `dueMs` that skips a due time; undefined if none does. */
function inGap(
  expression: string,
  wall: (ms: number) => number,
  afterMs: number,
  dueMs: number,
): number | undefined {
  for (let from = afterMs; from < dueMs; from += STEP_MS) {
    const to = Math.min(from + STEP_MS, dueMs);
    if (wall(to) - to <= wall(from) - from) continue;
    const end = gapEnd(wall, from, to);
    if (end <= afterMs) continue;
    const skipped = nextOf(parse(expression, wall(end - 1000), "UTC"));
    if (skipped < wall(end)) return end;
  }
  return undefined;
}

/** The first instant, to the second, at which the zone's later offset holds. */
function gapEnd(wall: (ms: number) => number, fromMs: number, toMs: number): number {
  const offset = (ms: number): number => wall(ms) - Math.floor(ms / 1000) * 1000;
  const after = offset(toMs);
  let low = Math.floor(fromMs / 1000);
  let high = Math.ceil(toMs / 1000);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offset(middle * 1000) === after) high = middle;
    else low = middle;
  }
  return high * 1000;
}

const parse = (expression: string, afterMs: number, tz: string): CronExpression =>
  CronExpressionParser.parse(expression, { currentDate: new Date(afterMs), tz });

const nextOf = (times: CronExpression): number => times.next().toDate().getTime();

function checkFields(expression: string): void {
  const fields = expression.trim().split(/\s+/).length;
  if (fields === 5 || fields === 6 || /^@[a-z]+$/.test(expression.trim())) return;
  throw new InvalidCron({
    message: `"${expression}" is no cron expression: give "minute hour day month weekday", seconds before them if you like, or a name like @hourly`,
  });
}

function attempt(expression: string, f: () => number): number {
  try {
    return f();
  } catch (error) {
    if (error instanceof InvalidCron) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new InvalidCron({ message: `"${expression}" is no cron expression: ${why}` });
  }
}
