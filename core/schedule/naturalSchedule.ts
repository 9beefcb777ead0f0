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

/** Undefined for text without a time. Throws `RangeError` for an invalid date. */
export function callOfNatural(
  { description, when }: NaturalSchedule,
  callback: string,
  settings: ScheduleSettings,
): ScheduleCall | undefined {
  if (when.type === "no-schedule") return undefined;
  return readScheduleCall([callback, { payload: description, ...settings, ...timeOf(when) }]);
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

/** A date and time without a zone: the prompt asks for UTC, and a host's own zone means nothing. */
const ZONELESS = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?$/;

function toDate(date: string | Date): Date {
  const found = new Date(
    typeof date === "string" && ZONELESS.test(date.trim()) ? `${date.trim()}Z` : date,
  );
  if (Number.isNaN(found.getTime()))
    throw new RangeError(`scheduleFrom: "${String(date)}" is not an ISO 8601 date`);
  return found;
}
