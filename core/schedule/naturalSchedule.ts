/**
 * Converts what a language model made of free text (`agents/schedule`) to a call of `schedule`
 * (`interface.md` §4.6). The type is structural, since only the entry has the schema library.
 */
import { readScheduleCall, type ScheduleCall, type ScheduleSettings } from "./Schedule.ts";

/** A model's answer to `getSchedulePrompt`: what to do, and when. */
export interface NaturalSchedule {
  readonly description: string;
  readonly when:
    | { readonly type: "scheduled"; readonly date: string | Date }
    | { readonly type: "delayed"; readonly delayInSeconds: number }
    | { readonly type: "cron"; readonly cron: string }
    | { readonly type: "no-schedule" };
}

/**
 * Undefined for text without a time. Throws `RangeError` for an invalid date, and `TypeError` for
 * what is no answer of a model to the schema.
 */
export function callOfNatural(
  result: NaturalSchedule,
  callback: string,
  { timezone, ...settings }: ScheduleSettings,
): ScheduleCall | undefined {
  const { description, when } = (result ?? {}) as Partial<NaturalSchedule>;
  if (typeof when?.type !== "string")
    throw new TypeError(
      "scheduleFrom: the result has no `when`: pass the object that a model made for scheduleSchema",
    );
  if (when.type === "no-schedule") return undefined;
  // The app does not know what the text will be.
  const zone = when.type === "cron" && timezone !== undefined ? { timezone } : {};
  const options = { payload: description, ...settings, ...zone, ...timeOf(when) };
  return readScheduleCall([callback, options]);
}

const timeOf = (
  when: Exclude<NaturalSchedule["when"], { readonly type: "no-schedule" }>,
): object => {
  switch (when.type) {
    case "scheduled":
      return { time: toDate(when.date) };
    case "delayed":
      return { delayInSeconds: when.delayInSeconds };
    case "cron":
      return { cron: when.cron };
  }
};

/** ISO 8601; RFC 3339 has a space for the `T`. Zones: none, `Z`, `UTC`, `GMT`, `+02`, `+02:00`. */
const ISO =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(?: ?(?:Z|UTC|GMT|([+-]\d\d):?(\d\d)?))?)?$/i;
/** As the prompt names the current time (`Date.toUTCString`). */
const HTTP_DATE = /^[a-z]{3}, \d\d [a-z]{3} \d{4} \d\d:\d\d:\d\d GMT$/i;

/** `Date` alone would take any text with a number for a date, and a missing zone for the host's. */
function toDate(date: string | Date): Date {
  const found = new Date(typeof date === "string" ? written(date.trim()) : date);
  if (Number.isNaN(found.getTime()))
    throw new RangeError(`scheduleFrom: "${String(date)}" is not an ISO 8601 date`);
  return found;
}

/** The text with a zone, UTC unless it has one; `NaN` for one that is no date. */
function written(text: string): string | number {
  if (HTTP_DATE.test(text)) return text;
  const [, day, time = "00:00", hours, minutes = "00"] = ISO.exec(text) ?? [];
  if (day === undefined) return Number.NaN;
  // The 30th of February would be a day in March.
  const midnight = new Date(`${day}T00:00Z`);
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(day))
    return Number.NaN;
  return `${day}T${time}${hours === undefined ? "Z" : `${hours}:${minutes}`}`;
}
