/** Cron expressions and changes of clocks, 2000 to 2040; `AGENTS_CRON_SWEEP=all` takes each. */
import { describe, expect, test } from "vitest";
import { CronParser } from "../../services/cronParser/CronParser.ts";
import { dueByWalking, ZoneReader, type ClockChange, type Matches } from "./clockOracle.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const { next } = new CronParser();

const nextOf = (expression: string, after: string, zone?: string): string =>
  new Date(next(expression, Date.parse(after), zone)).toISOString();
/** The first `count` times, as the zone's clock shows them, with their offset. */
function series(expression: string, after: string, zone: string, count: number): string[] {
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone,
    dateStyle: "short",
    timeStyle: "short", // prettier-ignore
  });
  const offset = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "shortOffset" });
  const times: string[] = [];
  for (let ms = Date.parse(after); times.length < count;) {
    ms = next(expression, ms, zone);
    times.push(`${format.format(ms)} ${offset.format(ms).split(" ")[1]}`);
  }
  return times;
}

describe("an expression", () => {
  test.each([
    ["five fields: minute hour day month weekday", "30 4 * * *", "2025-01-01T04:30:00.000Z"],
    ["six fields: seconds first", "15 30 4 * * *", "2025-01-01T04:30:15.000Z"],
    ["a step", "*/25 * * * *", "2025-01-01T00:25:00.000Z"],
    ["a range and a list", "0 9-11,15 2 * *", "2025-01-02T09:00:00.000Z"],
    ["names of months and weekdays", "0 0 * FEB MON", "2025-02-03T00:00:00.000Z"],
    ["0 is Sunday", "0 0 * * 0", "2025-01-05T00:00:00.000Z"],
    ["7 is Sunday too", "0 0 * * 7", "2025-01-05T00:00:00.000Z"],
    ["day and weekday both restricted: either", "0 0 13 * FRI", "2025-01-03T00:00:00.000Z"],
    [
      "a number with a step is the number, as in the reference",
      "5/10 1 * * *",
      "2025-01-01T01:05:00.000Z",
    ],
    ["@hourly", "@hourly", "2025-01-01T01:00:00.000Z"],
    ["@daily", "@daily", "2025-01-02T00:00:00.000Z"],
    ["@midnight", "@midnight", "2025-01-02T00:00:00.000Z"],
    ["@weekly", "@weekly", "2025-01-05T00:00:00.000Z"],
    ["@monthly", "@monthly", "2025-02-01T00:00:00.000Z"],
    ["@yearly", "@yearly", "2026-01-01T00:00:00.000Z"],
    ["@annually", "@annually", "2026-01-01T00:00:00.000Z"],
    ["a leap day", "0 0 29 2 *", "2028-02-29T00:00:00.000Z"],
    ["names in capitals", "@WEEKLY", "2025-01-05T00:00:00.000Z"],
    ["every day of the month is `*`", "0 9 1-31 * 1", "2025-01-06T09:00:00.000Z"],
    ["every day, by a step of one", "0 9 */1 2 1", "2025-02-03T09:00:00.000Z"],
    ["every weekday is `*`", "0 9 7 * 0-6", "2025-01-07T09:00:00.000Z"],
    ["every weekday, from Monday on", "0 9 7 * 1-7", "2025-01-07T09:00:00.000Z"],
    ["every weekday, in a list", "0 9 7 * SUN-WED,4-6", "2025-01-07T09:00:00.000Z"],
    ["a step of two is a restriction", "0 9 */2 * 4", "2025-01-01T09:00:00.000Z"],
    ["Sunday by both numbers", "0 0 * * 0,7", "2025-01-05T00:00:00.000Z"],
    ["Sunday by name and number", "0 0 * * SUN,0", "2025-01-05T00:00:00.000Z"],
    ["a range to Sunday, and Sunday", "0 0 * * 6-7,0", "2025-01-04T00:00:00.000Z"],
    ["a range to Sunday by name", "0 0 * * SAT-SUN", "2025-01-04T00:00:00.000Z"],
    ["a range of one name", "0 0 * * SUN-SUN", "2025-01-05T00:00:00.000Z"],
    ["a step and a number of it", "*/15,45 * * * *", "2025-01-01T00:15:00.000Z"],
    ["a range and a number of it", "1-5,5 4 * * *", "2025-01-01T04:01:00.000Z"],
    ["names in a list, one of them twice", "0 0 1 MAR,APR,MAR *", "2025-03-01T00:00:00.000Z"],
    ["blanks around and between", "  0   0 2 *  * ", "2025-01-02T00:00:00.000Z"],
  ])("%s", (_name, expression, expected) => {
    expect(nextOf(expression, "2025-01-01T00:00:30.500Z")).toBe(expected);
  });

  test.each([
    "", "* * * *", "* * * * * * *", "a b c d e", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
    "* * * * 8", "*/0 * * * *", "5-1 * * * *", "H * * * *", "@reboot",
    "0 0 30 2 *", "0 0 31 4,6 *", "1,H * * * *", "1,,2 * * * *", "1, * * * *", "1,60 * * * *", "0 0 * * 0,8",
  ])("`%s` is refused, with the expression in the message", (expression) => {
    expect(() => next(expression, 0, undefined)).toThrow(`"${expression}" is not a cron expression`);
  }); // prettier-ignore

  test("has its next time after the given one, to the millisecond", () => {
    expect(nextOf("* * * * *", "2025-01-01T00:00:59.999Z")).toBe("2025-01-01T00:01:00.000Z");
    expect(nextOf("* * * * *", "2025-01-01T00:01:00.000Z")).toBe("2025-01-01T00:02:00.000Z");
  });

  test("returns the same time when asked again, or for other times in between", () => {
    const first = nextOf("*/7 3 * * *", "2025-01-01T00:00:00Z", "Europe/Paris");
    nextOf("*/7 3 * * *", "2030-01-01T00:00:00Z", "Asia/Tokyo");
    expect(nextOf("*/7 3 * * *", "2025-01-01T00:00:00Z", "Europe/Paris")).toBe(first);
  });
});

describe("in a time zone", () => {
  test("follows that zone's clock; an unknown zone is an error that names it", () => {
    expect(nextOf("0 9 * * *", "2025-01-01T00:00:00Z", "Asia/Tokyo")).toBe(
      "2025-01-02T00:00:00.000Z",
    );
    expect(nextOf("0 9 * * *", "2025-01-01T00:00:00Z", "Etc/UTC")).toBe("2025-01-01T09:00:00.000Z");
    expect(() => next("0 9 * * *", 0, "Europe/Atlantis")).toThrow(
      '"Europe/Atlantis" is not a time zone',
    );
  });

  test.each<[string, string, string, string, string[]]>([
    ["a time that the clock skips is due at the first instant after the gap", "30 2 * * *", "2025-03-29T12:00Z", "Europe/Berlin",
      ["2025-03-30 03:00 GMT+2", "2025-03-31 02:30 GMT+2"]],
    ["two such times are one", "10,40 2 * * *", "2025-03-29T12:00Z", "Europe/Berlin",
      ["2025-03-30 03:00 GMT+2", "2025-03-31 02:10 GMT+2"]],
    ["and one with the time at which the gap ends", "30 2,3 * * *", "2025-03-29T12:00Z", "Europe/Berlin",
      ["2025-03-30 03:00 GMT+2", "2025-03-30 03:30 GMT+2"]],
    ["a time that the clock shows twice is due once, the first time", "30 2 * * *", "2025-10-25T12:00Z", "Europe/Berlin",
      ["2025-10-26 02:30 GMT+2", "2025-10-27 02:30 GMT+1"]],
    ["every hour is every hour: none is made up for", "30 * * * *", "2025-03-30T00:00Z", "Europe/Berlin",
      ["2025-03-30 01:30 GMT+1", "2025-03-30 03:30 GMT+2"]],
    ["and none is left out", "30 * * * *", "2025-10-26T00:00Z", "Europe/Berlin",
      ["2025-10-26 02:30 GMT+2", "2025-10-26 02:30 GMT+1", "2025-10-26 03:30 GMT+1"]],
    ["half an hour", "15 2 * * *", "2025-10-04T12:00Z", "Australia/Lord_Howe",
      ["2025-10-05 02:30 GMT+11", "2025-10-06 02:15 GMT+11"]],
    ["at midnight", "0 0 * * *", "2024-04-25T12:00Z", "Africa/Cairo",
      ["2024-04-26 01:00 GMT+3", "2024-04-27 00:00 GMT+3"]],
    ["a whole day", "0 12 * * *", "2011-12-29T23:00Z", "Pacific/Apia",
      ["2011-12-31 00:00 GMT+14", "2011-12-31 12:00 GMT+14"]],
    ["a day of the year that the clock skips", "0 12 30 12 *", "2011-01-01T00:00Z", "Pacific/Apia",
      ["2011-12-31 00:00 GMT+14", "2012-12-30 12:00 GMT+14"]],
  ])("%s", (_name, expression, after, zone, expected) => {
    expect(series(expression, after, zone, expected.length)).toEqual(expected);
  }); // prettier-ignore
});

describe("every change of every clock", () => {
  const all = process.env["AGENTS_CRON_SWEEP"] === "all";
  const from = Date.UTC(2000, 0, 1);
  const to = Date.UTC(2040, 0, 1);

  /** Expressions around a change of clocks: the skipped or repeated time, and what crosses it. */
  function questions(
    readings: ReadonlyArray<readonly [number, number]>,
    { atMs, minutes }: ClockChange,
  ) {
    const at = readings.find(([ms]) => ms === atMs)![1];
    // In the middle of what is skipped, or of what is shown twice.
    const middle = new Date((at - minutes / 2) * MINUTE_MS);
    const [hour, minute] = [middle.getUTCHours(), middle.getUTCMinutes()];
    const asked: Array<{ expression: string; everyHour: boolean; matches: Matches; spanMs: number }> = [
      { expression: `${minute} ${hour} * * *`, everyHour: false, spanMs: 26 * HOUR_MS,
        matches: (t) => t.hour === hour && t.minute === minute },
      { expression: "0 0 * * *", everyHour: false, spanMs: 26 * HOUR_MS,
        matches: (t) => t.hour === 0 && t.minute === 0 },
      { expression: "*/20 */2 * * *", everyHour: false, spanMs: 4 * HOUR_MS,
        matches: (t) => t.hour % 2 === 0 && t.minute % 20 === 0 },
      { expression: "7,37 * * * *", everyHour: true, spanMs: 4 * HOUR_MS,
        matches: (t) => t.minute === 7 || t.minute === 37 },
      { expression: `${minute} * * * ${middle.getUTCDay()}`, everyHour: true, spanMs: 4 * HOUR_MS,
        matches: (t) => t.minute === minute && t.weekday === middle.getUTCDay() },
    ]; // prettier-ignore
    return asked;
  }

  test("is handled from 2000 to 2040 as a minute-by-minute search finds it", () => {
    const startMs = performance.now();
    let zones = 0;
    let changes = 0;
    let compared = 0;
    for (const zone of Intl.supportedValuesOf("timeZone")) {
      zones++;
      const reader = new ZoneReader(zone);
      const kinds = new Set<string>();
      for (const change of reader.changes(from, to)) {
        // A zone's summer times are of few kinds: by how far, and at which hour of its clock.
        const kind = `${change.minutes} ${reader.read(change.atMs) % (24 * 60)}`;
        if (!all && kinds.has(kind)) continue;
        kinds.add(kind);
        changes++;
        // Offsets hold between changes: the clock is read where it could differ, and counted on
        // between.
        const readings: Array<[number, number]> = [];
        const margin = 52 * HOUR_MS;
        for (let ms = change.atMs - margin; ms <= change.atMs + margin; ms += 15 * MINUTE_MS) {
          const reading = reader.read(ms);
          for (let minute = 0; minute < 15; minute++)
            readings.push([ms + minute * MINUTE_MS, reading + minute]);
        }
        for (const { expression, everyHour, matches, spanMs } of questions(readings, change)) {
          const [first, last] = [change.atMs - spanMs, change.atMs + spanMs];
          const window = readings.filter(([ms]) => ms >= first - 25 * HOUR_MS && ms <= last);
          const expected = dueByWalking(window, first, matches, everyHour);
          const found: number[] = [];
          for (let ms = first; ; found.push(ms)) {
            ms = next(expression, ms, zone);
            if (ms > last) break;
          }
          compared += found.length;
          if (found.join() !== expected.join())
            expect(
              { zone, expression, found: found.map(iso) },
              `around ${iso(change.atMs)}, ${change.minutes} min`,
            ).toEqual({ zone, expression, found: expected.map(iso) });
        }
      }
    }
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    process.stdout.write(
      `cron: ${compared} due times at ${changes} changes of ${zones} zones in ${seconds} s\n`,
    );
    expect(zones).toBeGreaterThan(400);
    expect(changes).toBeGreaterThan(500);
  }, 900_000);
});

const iso = (ms: number): string => new Date(ms).toISOString();
