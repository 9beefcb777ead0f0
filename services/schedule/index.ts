/**
 * `agents/schedule`: turns free text into a schedule with a language model's structured output
 * (`interface.md` §4.6, `protocol.md` §11). `getSchedulePrompt` instructs the model,
 * `scheduleSchema` checks its output, and an agent's `scheduleFrom(result, callback)` schedules the
 * result.
 */
import { z } from "zod";

/**
 * The model's output: the task, and when it is due. OpenAI's strict mode refuses a union like
 * `when`: pass `strictJsonSchema: false` there. `parse` throws a `ZodError` for any other output.
 */
export const scheduleSchema = z.object({
  description: z.string().describe("What is to be done, without the words that say when"),
  when: z.discriminatedUnion("type", [
    z.object({
      type: z.literal("scheduled"),
      date: z.string().describe("The instant, ISO 8601 in UTC, like 2030-01-31T09:00:00Z"),
    }),
    z.object({
      type: z.literal("delayed"),
      delayInSeconds: z.number().describe("Seconds from now"),
    }),
    z.object({
      type: z.literal("cron"),
      cron: z.string().describe("minute hour day-of-month month weekday, in UTC"),
    }),
    z.object({ type: z.literal("no-schedule") }),
  ]),
});

/** A schedule as the model describes it: output of `scheduleSchema`, argument of `scheduleFrom`. */
export type ParsedSchedule = z.infer<typeof scheduleSchema>;

/**
 * The reference's name for `ParsedSchedule`, kept for apps that import it.
 *
 * @deprecated Use `ParsedSchedule`: in `agents`, `Schedule` is a stored schedule.
 */
export type Schedule = ParsedSchedule;

/**
 * The instructions for the model; the user's text follows them. `date` is the current time, from
 * which "tomorrow" is counted.
 */
export const getSchedulePrompt = ({ date }: { readonly date: Date }): string =>
  `You turn a request in plain words into one schedule entry. The time now is ${date.toUTCString()}.

Give two fields:
- "description": the task itself, short, with every word about time left out.
- "when": when to do it, as exactly one of these four kinds:
  - {"type":"scheduled","date":…} for one moment that the text names by day or clock time. Work it out from the time now and write it in ISO 8601, in UTC.
  - {"type":"delayed","delayInSeconds":…} for one moment counted from now ("in 10 minutes", "two days from now"). Convert it to seconds.
  - {"type":"cron","cron":…} for what repeats ("every", "each", "daily", "on weekdays"). Five fields: minute hour day-of-month month weekday; * is any, */n is every n; weekdays are numbered 0 to 6 and 0 is Sunday.
  - {"type":"no-schedule"} if the text says nothing about when.

Examples:
"call the plumber next Friday at 14:30" gives {"description":"call the plumber","when":{"type":"scheduled","date":"<that Friday>T14:30:00Z"}}
"check the oven in half an hour" gives {"description":"check the oven","when":{"type":"delayed","delayInSeconds":1800}}
"post the weekly numbers every Monday at nine" gives {"description":"post the weekly numbers","when":{"type":"cron","cron":"0 9 * * 1"}}
`;

export {
  getSchedulePrompt as unstable_getSchedulePrompt,
  scheduleSchema as unstable_scheduleSchema,
};
