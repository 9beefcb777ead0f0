/**
 * The clock of an IANA time zone, from the machine's own tables (`Intl`): what it shows at an
 * instant, and when it first shows something. A reading is milliseconds as if the clock showed UTC;
 * an offset is what to add to an instant to get its reading.
 */
import { InvalidCron } from "../../core/schedule/Cron.ts";

/** A time during which the clock runs evenly. `toMs` is not in it. */
interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly offsetMs: number;
}

/** Milliseconds of an hour. */
const HOUR_MS = 3600 * 1000;
/** Offsets of all zones lie within; also how far around a reading its instants are looked for. */
const OFFSET_MS_MAX = 16 * HOUR_MS;
/** No zone changes its clock twice within this. */
const STEP_MS = 12 * HOUR_MS;

export class ZoneClock {
  /** No clock is put back or forward by more: places that cross the date line skip a day. */
  static readonly SHIFT_MS_MAX = 26 * HOUR_MS;

  private constructor(private readonly format: Intl.DateTimeFormat) {}

  /** Throws `InvalidCron` for an unknown name. */
  static of(this: void, timezone: string): ZoneClock {
    try {
      return new ZoneClock(
        new Intl.DateTimeFormat("en-US", { timeZone: timezone, timeZoneName: "longOffset" }),
      );
    } catch {
      throw new InvalidCron({
        message: `"${timezone}" is not a time zone; use an IANA name like Europe/Berlin`,
      });
    }
  }

  /** The latest reading that the clock has shown by then: in an hour that repeats, its end. */
  highest(ms: number): number {
    let highest = -Infinity;
    for (const { toMs, offsetMs } of this.stretches(ms - ZoneClock.SHIFT_MS_MAX, ms + 1))
      highest = Math.max(highest, toMs - 1 + offsetMs);
    return highest;
  }

  /** The first instant at which the clock shows this reading or a later one. */
  reached(reading: number): number {
    for (const { fromMs, toMs, offsetMs } of this.around(reading)) {
      const ms = Math.max(fromMs, reading - offsetMs);
      if (ms < toMs) return ms;
    }
    throw new Error(`no instant shows ${new Date(reading).toISOString()}`);
  }

  /** The first instant at which the clock shows exactly this; undefined when it skips it. */
  shown(reading: number): number | undefined {
    for (const { fromMs, toMs, offsetMs } of this.around(reading)) {
      const ms = reading - offsetMs;
      if (fromMs <= ms && ms < toMs) return ms;
    }
    return undefined;
  }

  /**
   * What lies between two instants, in order; the first begins with `fromMs`, the last ends with
   * `toMs`.
   */
  stretches(fromMs: number, toMs: number): ReadonlyArray<Stretch> {
    const found: Stretch[] = [];
    let startMs = fromMs;
    let offsetMs = this.offset(fromMs);
    for (let atMs = fromMs; atMs < toMs;) {
      const stepMs = Math.min(atMs + STEP_MS, toMs);
      const nextMs = this.offset(stepMs);
      if (nextMs !== offsetMs) {
        const changeMs = this.change(atMs, stepMs, nextMs);
        found.push({ fromMs: startMs, toMs: changeMs, offsetMs });
        startMs = changeMs;
        offsetMs = nextMs;
      }
      atMs = stepMs;
    }
    if (startMs < toMs) found.push({ fromMs: startMs, toMs, offsetMs });
    return found;
  }

  private around(reading: number): ReadonlyArray<Stretch> {
    return this.stretches(reading - OFFSET_MS_MAX, reading + OFFSET_MS_MAX);
  }

  /** The instant between two at which the offset becomes `offsetMs`, on a whole second. */
  private change(fromMs: number, toMs: number, offsetMs: number): number {
    let low = Math.floor(fromMs / 1000);
    let high = Math.ceil(toMs / 1000);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.offset(middle * 1000) === offsetMs) high = middle;
      else low = middle;
    }
    return high * 1000;
  }

  private offset(ms: number): number {
    const [, sign, hours, minutes, seconds] =
      /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?/.exec(this.format.format(ms)) ?? [];
    if (sign === undefined) return 0;
    const size = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds ?? 0);
    return (sign === "-" ? -size : size) * 1000;
  }
}
