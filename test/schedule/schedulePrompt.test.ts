/** `agents/schedule` by the `ai` package's structured output: free text in, a schedule out. */
import { generateObject } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent, getAgentByName, type AgentNamespace } from "agents";
import { getSchedulePrompt, scheduleSchema, type Schedule } from "agents/schedule";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";

interface Env {
  readonly ReminderAgent: AgentNamespace<ReminderAgent>;
  readonly log: string[];
}

/** Prompts that the mock model got. */
const asked: string[] = [];
/** A model that gives this text, whatever it is asked. */
const modelThatGives = (text: string) =>
  new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      asked.push(JSON.stringify(prompt));
      return {
        content: [{ type: "text", text }],
        finishReason: { unified: "stop", raw: "stop" },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        },
        warnings: [],
      };
    },
  });

class ReminderAgent extends Agent<Env> {
  async remind(text: string, answer: unknown) {
    const { object } = await generateObject({
      model: modelThatGives(JSON.stringify(answer)),
      schema: scheduleSchema,
      prompt: `${getSchedulePrompt({ date: new Date("2030-01-02T03:04:05Z") })}\n${text}`,
    });
    const id = await this.scheduleFrom(object, "notify");
    return id === null ? null : this.getSchedule(id)!;
  }
  from(result: Schedule, callback?: string) {
    return this.scheduleFrom(result, callback);
  }
  withSettings(result: Schedule) {
    return this.scheduleFrom(result, "notify", { payload: { mine: 1 }, timezone: "Europe/Prague" });
  }
  get(id: string) {
    return this.getSchedule(id);
  }
  notify(payload: unknown) {
    this.env.log.push(JSON.stringify(payload));
  }
  onSchedule(payload: unknown) {
    this.env.log.push(`default ${JSON.stringify(payload)}`);
  }
}

const systems = useSystems();
const log: string[] = [];
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { ReminderAgent }, env: { log } });
});
afterAll(() => system.stop());
const reminder = () => getAgentByName((system.gateway.env as unknown as Env).ReminderAgent, "r");
const seconds = (iso: string) => Date.parse(iso) / 1000;

describe("free text becomes", () => {
  test("a schedule at an instant", async () => {
    const when = { type: "scheduled", date: "2040-01-31T09:00:00Z" };
    expect(
      await (
        await reminder()
      ).remind("call Ann on January 31st 2040", { description: "call Ann", when }),
    ).toMatchObject({
      type: "scheduled",
      callback: "notify",
      payload: "call Ann",
      time: seconds("2040-01-31T09:00:00Z"),
    });
    expect(asked.at(-1)).toContain("call Ann on January 31st 2040");
    expect(asked.at(-1)).toContain("Wed, 02 Jan 2030 03:04:05 GMT");
  });
  test("a delay", async () => {
    const answer = { description: "check", when: { type: "delayed", delayInSeconds: 600 } };
    expect(await (await reminder()).remind("check in ten minutes", answer)).toMatchObject({
      type: "delayed",
      delayInSeconds: 600,
    });
  });
  test("a cron schedule", async () => {
    const answer = { description: "report", when: { type: "cron", cron: "0 9 * * 1" } };
    expect(await (await reminder()).remind("report every Monday", answer)).toMatchObject({
      type: "cron",
      cron: "0 9 * * 1",
    });
  });
  test("nothing, if it names no time", async () => {
    const answer = { description: "think", when: { type: "no-schedule" } };
    expect(await (await reminder()).remind("think", answer)).toBeNull();
  });
  test("an error, if the model returns no schedule", async () => {
    const answer = { description: "x", when: { type: "cron" } };
    await expect((await reminder()).remind("x", answer)).rejects.toThrow("schema");
  });
});

describe("scheduleFrom", () => {
  test("runs the callback with the description; onSchedule unless another is named", async () => {
    const when = { type: "delayed", delayInSeconds: 0 } as const;
    await (await reminder()).from({ description: "water the plants", when });
    await (await reminder()).from({ description: "feed the cat", when }, "notify");
    await pollUntil("both ran", () => log.length === 2);
    expect(log.toSorted()).toEqual(['"feed the cat"', 'default "water the plants"']);
  });
  test("says what to pass for what no model made for the schema", async () => {
    for (const wrong of ["in an hour", {}, null, { when: "soon" }])
      await expect((await reminder()).from(wrong as never)).rejects.toThrow(
        "scheduleFrom: the result has no `when`",
      );
  });
  test("accepts a payload and a time zone", async () => {
    const agent = await reminder();
    const id = await agent.withSettings({
      description: "noon",
      when: { type: "cron", cron: "0 12 * * *" },
    });
    const schedule = await agent.get(id!);
    expect(schedule).toMatchObject({ payload: { mine: 1 } });
    expect([10, 11]).toContain(new Date(schedule!.time * 1000).getUTCHours());
  });
  test.each([
    ["2040-05-06T07:08:09Z", "2040-05-06T07:08:09Z"],
    ["2040-05-06T07:08:09+02:00", "2040-05-06T05:08:09Z"],
    ["2040-05-06T07:08", "2040-05-06T07:08:00Z"],
    ["2040-05-06T07:08:09.5", "2040-05-06T07:08:10Z"],
    ["2040-05-06", "2040-05-06T00:00:00Z"],
    ["2040-05-06 07:08", "2040-05-06T07:08:00Z"],
    ["2040-05-06 07:08:09 UTC", "2040-05-06T07:08:09Z"],
    ["2040-05-06t07:08:09z", "2040-05-06T07:08:09Z"],
    ["2040-05-06 07:08:09-0330", "2040-05-06T10:38:09Z"],
    ["2040-05-06T07:08+02", "2040-05-06T05:08:00Z"],
    ["Sun, 06 May 2040 07:08:09 GMT", "2040-05-06T07:08:09Z"],
  ])("reads the date %s as UTC unless it has a zone", async (date, instant) => {
    const agent = await reminder();
    const id = await agent.from({ description: "x", when: { type: "scheduled", date } }, "notify");
    expect((await agent.get(id!))!.time).toBe(seconds(instant));
  });
  test("refuses an invalid date and a missing callback", async () => {
    const agent = await reminder();
    const of = (date: string) => ({ description: "x", when: { type: "scheduled", date } }) as const;
    for (const date of ["soon", "5", "foo 5", "tomorrow at 5", "next Friday 17", "2040-02-30", "Jan 31 2040 09:00"])
      await expect(agent.from(of(date))).rejects.toThrow(`"${date}" is not an ISO 8601 date`); // prettier-ignore
    await expect(agent.from(of("2040-01-01T00:00:00Z"), "missing")).rejects.toThrow(
      'Unknown scheduled callback "missing"',
    );
  });
});

describe("scheduleSchema", () => {
  test.each([
    { type: "scheduled", date: "2030-01-01" },
    { type: "delayed", delayInSeconds: 5 },
    { type: "cron", cron: "* * * * *" },
    { type: "no-schedule" },
  ])("accepts $type, and drops other fields", (when) => {
    const given = { description: "x", when: { ...when, more: 1 }, extra: true };
    expect(scheduleSchema.parse(given)).toEqual({ description: "x", when });
  });
  test.each([
    { when: { type: "no-schedule" } },
    { description: "x" },
    { description: "x", when: { type: "interval", intervalSeconds: 5 } },
    { description: "x", when: { type: "delayed", delayInSeconds: "5" } },
    { description: "x", when: { type: "scheduled" } },
  ])("refuses %j", (given) => {
    expect(scheduleSchema.safeParse(given).success).toBe(false);
  });
});

test("the prompt contains the time in UTC, the four kinds and how weekdays count", () => {
  const prompt = getSchedulePrompt({ date: new Date("2030-05-06T07:08:09Z") });
  expect(prompt).toContain("Mon, 06 May 2030 07:08:09 GMT");
  for (const word of ['"scheduled"', '"delayed"', '"cron"', '"no-schedule"', "0 is Sunday"])
    expect(prompt).toContain(word);
});
