/** When a cron expression is due around a change of clocks, found minute by minute. */

/** A change of a zone's clock, and how far it was put on (or back, negative), in minutes. */
export interface ClockChange {
  readonly zone: string;
  readonly atMs: number;
  readonly minutes: number;
}

/** A clock reading in minutes since the epoch, as if it were UTC. */
type Reading = number;
export type Matches = (at: {
  minute: number;
  hour: number;
  day: number;
  month: number;
  weekday: number;
}) => boolean;

const MINUTE_MS = 60_000;
/** Zones change their clocks at full minutes, and rest on one offset for weeks. */
const STEP_MS = 7 * 24 * 60 * MINUTE_MS;

export class ZoneReader {
  private readonly format: Intl.DateTimeFormat;
  private readonly zone: string;

  constructor(zone: string) {
    this.zone = zone;
    this.format = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone, hourCycle: "h23",
      year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric",
    }); // prettier-ignore
  }

  read(ms: number): Reading {
    const [day, month, year, hour, minute] = this.format.format(ms).match(/\d+/g)!.map(Number) as [
      number, number, number, number, number,
    ]; // prettier-ignore
    return Date.UTC(year, month - 1, day, hour, minute) / MINUTE_MS;
  }

  /** Every change between two instants. */
  changes(fromMs: number, toMs: number): ClockChange[] {
    const ahead = (ms: number): number => this.read(ms) - ms / MINUTE_MS;
    const found: ClockChange[] = [];
    let before = ahead(fromMs);
    for (let ms = fromMs; ms < toMs; ms += STEP_MS) {
      const after = ahead(ms + STEP_MS);
      if (after !== before) {
        let [low, high] = [ms / MINUTE_MS, (ms + STEP_MS) / MINUTE_MS];
        while (high - low > 1) {
          const middle = Math.floor((low + high) / 2);
          if (ahead(middle * MINUTE_MS) === before) low = middle;
          else high = middle;
        }
        found.push({ zone: this.zone, atMs: high * MINUTE_MS, minutes: after - before });
      }
      before = after;
    }
    return found;
  }
}

/** Instants in (fromMs, toMs] at which it is due; `everyHour` as in the port's rules. */
export function dueByWalking(
  readings: ReadonlyArray<readonly [ms: number, reading: Reading]>,
  fromMs: number,
  matches: Matches,
  everyHour: boolean,
): number[] {
  const due: number[] = [];
  let highest = -Infinity;
  for (const [ms, reading] of readings) {
    let isDue = false;
    if (everyHour) isDue = matches(fieldsOf(reading));
    else if (highest > -Infinity)
      // All that the clock shows now for the first time, and all that it has just skipped.
      for (let shown = highest + 1; shown <= reading && !isDue; shown++)
        isDue = matches(fieldsOf(shown));
    highest = Math.max(highest, reading);
    if (isDue && ms > fromMs) due.push(ms);
  }
  return due;
}

function fieldsOf(reading: Reading) {
  const date = new Date(reading * MINUTE_MS);
  return {
    minute: date.getUTCMinutes(),
    hour: date.getUTCHours(),
    day: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    weekday: date.getUTCDay(),
  };
}
