/**
 * The cron port: when an expression is due next. Five fields `minute hour day month weekday`, or
 * six with seconds first; names, weekdays 0-7, and `@hourly` and similar (`protocol.md` §6.3). If
 * day and weekday are both restricted, either is enough.
 *
 * In a time zone with clock changes, a time that the clock skips is due at the first instant after
 * the gap, and one that it shows twice is due once, the first time. If every hour is meant (`*` for
 * hours), skipped times are not made up for, and those shown twice are due twice.
 * `services/cronParser` implements it.
 */
import * as Context from "effect/Context";
import * as Data from "effect/Data";

/** The expression or its time zone can't be used; `message` says which and why. */
export class InvalidCron extends Data.TaggedError("InvalidCron")<{ readonly message: string }> {}

export interface CronShape {
  /**
   * The first due instant after `afterMs`, milliseconds since the epoch. `timezone` is an IANA
   * name; undefined is UTC. Throws `InvalidCron`, also for a date that never comes.
   */
  readonly next: (expression: string, afterMs: number, timezone: string | undefined) => number;
}

export class Cron extends Context.Service<Cron, CronShape>()("agents/core/schedule/Cron") {}
