/** What `schedule` and `scheduleEvery` take, give, and call: all kinds, both call shapes. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { Schedule } from "../../core/schedule/Schedule.ts";
import { JobRig } from "../queue/JobRig.ts";

const START_MS = Date.UTC(2025, 0, 1, 12, 0, 0, 250);
const DAY_MS = 86_400_000;

interface Ran {
  readonly payload: unknown;
  readonly args: number;
  readonly schedule: Schedule;
  readonly atMs: number;
}

let rig: JobRig;
let ran: Ran[];

class Worker extends Agent<unknown, { readonly ticks: number }> {
  override initialState = { ticks: 0 };
  tick(...args: [payload?: unknown, schedule?: Schedule]): void {
    const [payload, schedule] = args;
    ran.push({ payload, args: args.length, schedule: schedule!, atMs: rig.time.nowMs() });
    this.setState({ ticks: this.state.ticks + 1 });
  }
  other(): void {}
  /** Any call of `schedule`, with dates as they come: JSON has none. */
  plan(...args: unknown[]): Promise<unknown> {
    return this.schedule(...(args.map(revive) as [never, never]));
  }
  every(...args: [number, string, unknown?, object?]): Promise<unknown> {
    return this.scheduleEvery(...(args as [number, "plan"]));
  }
  planTwice(...args: unknown[]): Promise<unknown[]> {
    return Promise.all([this.plan(...args), this.plan(...args)]);
  }
  withNothing(options?: { idempotent: boolean }): Promise<unknown> {
    return this.schedule(60, "tick", undefined, options);
  }
  rows(): unknown[] {
    return this.sql`SELECT * FROM svc_agents_schedules ORDER BY rowid`;
  }
  find(criteria?: object): unknown[] {
    return this.getSchedules(revive(criteria) as object);
  }
  get(id: string): unknown {
    return this.getSchedule(id) ?? null;
  }
  async getLater(id: string): Promise<unknown> {
    return (await this.getScheduleById(id)) ?? null;
  }
  list(): Promise<unknown[]> {
    return this.listSchedules();
  }
  cancel(id: string): Promise<boolean> {
    return this.cancelSchedule(id);
  }
  async planNaN(): Promise<string> {
    const failures: string[] = [];
    for (const when of [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      new Date(Number.NaN),
      new Date(8.64e15),
    ])
      await this.schedule(when, "tick").catch((error: Error) => failures.push(error.message));
    return failures.join("; ");
  }
}

/** `{ $date: ms }` is a Date, at any depth. */
function revive(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(revive);
  if ("$date" in value) return new Date(value.$date as number);
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, revive(entry)]));
}
const date = (ms: number) => ({ $date: ms });

beforeEach(async () => {
  ran = [];
  rig = await JobRig.make({ Worker }, { startMs: START_MS });
});

const plan = <A = Schedule>(...args: unknown[]) => rig.call<A>("a", "plan", ...args);
const rows = () => rig.call<Array<Record<string, unknown>>>("a", "rows");

describe("the interface's signature: schedule(callback, options) returns the id", () => {
  test.each([
    ["time", { time: date(START_MS + 5_000) }, "scheduled"],
    ["delayInSeconds", { delayInSeconds: 5 }, "delayed"],
    ["cron", { cron: "*/5 * * * *" }, "cron"],
    ["intervalSeconds", { intervalSeconds: 5 }, "interval"],
  ])("stores %s as its type, with the returned id", async (_name, options, type) => {
    const id = await plan<string>("tick", { ...options, payload: { a: 1 } });
    expect(id).toMatch(/^[0-9a-f]{18}$/);
    expect(await rows()).toMatchObject([
      { id, type, callback: "tick", payload: '{"a":1}', running: 0 },
    ]);
  });

  test.each([
    [
      "none of the four",
      {},
      /exactly one of time, delayInSeconds, cron and intervalSeconds; got none/,
    ],
    ["two of the four", { delayInSeconds: 1, cron: "* * * * *" }, /got delayInSeconds and cron/],
  ])("rejects %s by name", async (_name, options, message) => {
    await expect(plan("tick", options)).rejects.toThrow(message);
  });
});

describe("the reference's signature: schedule(when, callback, payload, options) returns the schedule", () => {
  test("accepts a date", async () => {
    const schedule = await plan(date(START_MS + 5_000), "tick", { a: 1 });
    expect(schedule).toEqual({
      id: schedule.id, callback: "tick", payload: { a: 1 }, type: "scheduled",
      time: Math.ceil((START_MS + 5_000) / 1000),
    }); // prettier-ignore
  });

  test("accepts seconds", async () => {
    const schedule = await plan(1.5, "tick", "p", { retry: { maxAttempts: 2 } });
    expect(schedule).toMatchObject({
      type: "delayed", delayInSeconds: 1.5, payload: "p", retry: { maxAttempts: 2 },
    }); // prettier-ignore
    expect(await rig.call("a", "withNothing")).not.toHaveProperty("payload");
  });

  test("accepts a cron expression", async () => {
    const schedule = await plan("0 13 * * *", "tick");
    expect(schedule).toEqual({
      id: schedule.id, callback: "tick", type: "cron", cron: "0 13 * * *",
      time: Date.UTC(2025, 0, 1, 13) / 1000,
    }); // prettier-ignore
  });

  test("runs scheduleEvery first after one interval", async () => {
    const schedule = await rig.call<Schedule>("a", "every", 10, "tick", "p");
    expect(schedule).toMatchObject({ type: "interval", intervalSeconds: 10, payload: "p" });
    await rig.pass(9_900);
    expect(ran).toEqual([]);
    await rig.pass(200);
    expect(ran).toHaveLength(1);
  });
});

test("an interval is a new one each time under either name of the option", async () => {
  for (const options of [undefined, { idempotent: false }, { _idempotent: false }, undefined])
    await rig.call("a", "every", 10, "tick", "p", options);
  expect(await rows()).toHaveLength(3);
});

describe("a schedule is rejected at the call for", () => {
  test.each<[string, unknown[], string | RegExp]>([
    ["the class itself", [5, "constructor"], 'Unknown scheduled callback "constructor": not registered on this Scheduler'],
    ["an unknown method", [5, "nope"], 'Unknown scheduled callback "nope": not registered on this Scheduler'],
    ["a property that is no method", [5, "initialState"], 'Unknown scheduled callback "initialState"'],
    ["a bad cron expression", ["a b c d e", "tick"], '"a b c d e" is not a cron expression'],
    ["a cron expression with a field too few", ["* * * *", "tick"], "is not a cron expression"],
    ["a cron date that never comes", ["0 0 30 2 *", "tick"], '"0 0 30 2 *" is not a cron expression'],
    ["an unknown time zone", ["tick", { cron: "0 0 * * *", timezone: "Mars/Base" }], '"Mars/Base" is not a time zone'],
    ["a time zone of a delay", ["tick", { delayInSeconds: 5, timezone: "Europe/Berlin" }], 'schedule("tick", …): timezone is the zone of a cron expression, and this schedule has none'],
    ["a time zone of a delay in the reference's shape", [5, "tick", null, { timezone: "Europe/Berlin" }], 'schedule(…, "tick"): timezone is'],
    ["an unknown misfire policy", ["tick", { cron: "0 0 * * *", misfire: "sometimes" }], "misfire"],
    ["an interval as text", ["tick", { intervalSeconds: "5" }], 'not the text "5"'],
    ["an interval of 0", ["tick", { intervalSeconds: 0 }], "intervalSeconds must be more than 0 and at most 2592000 (30 days)"],
    ["an interval of more than 30 days", ["tick", { intervalSeconds: 2_592_001 }], "not 2592001"],
    ["an interval that is no number", ["tick", { intervalSeconds: "5" }], "intervalSeconds must be"],
    ["a time in milliseconds", ["tick", { time: 1_900_000_000_000 }], "time must be a Date, like new Date(ms), not a number"],
    ["a time in seconds, which would be a delay of decades", ["tick", { time: 1_900_000_000 }], "time must be a Date"],
    ["a time as text, which would be a cron expression", ["tick", { time: "2030-01-01" }], "time must be a Date, like new Date(ms), not a string"],
    ["a delay as text", ["tick", { delayInSeconds: "5" }], "delayInSeconds must be a number, not a string"],
    ["a cron expression that is a number", ["tick", { cron: 5 }], 'cron must be text like "0 9 * * 1", not a number'],
    ["a delay that is null", ["tick", { delayInSeconds: null }], "delayInSeconds must be a number, not null"],
    ["an unknown option", ["tick", { cron: "0 9 * * 1", timeZone: "Europe/Berlin" }], 'schedule("tick", …): unknown option "timeZone"; the options are time, delayInSeconds, cron'],
    ["an unknown option of the reference's shape", [5, "tick", null, { retries: 5 }], 'schedule(…, "tick"): unknown option "retries"; the options are payload, retry'],
    ["an unknown retry option", [5, "tick", null, { retry: { attempts: 5 } }], 'schedule(…, "tick"): retry: unknown option "attempts"'],
    ["retry options out of range", [5, "tick", null, { retry: { maxAttempts: 0 } }], "retry.maxAttempts must be >= 1"],
    ["a fraction of an attempt", [5, "tick", null, { retry: { maxAttempts: 1.5 } }], "retry.maxAttempts must be an integer"],
    ["no base delay", [5, "tick", null, { retry: { baseDelayMs: 0 } }], "retry.baseDelayMs must be > 0"],
    ["no delay at most", [5, "tick", null, { retry: { maxDelayMs: 0 } }], "retry.maxDelayMs must be > 0"],
    ["a base delay above the default maximum", [5, "tick", null, { retry: { baseDelayMs: 5_000 } }], "retry.baseDelayMs must be <= retry.maxDelayMs"],
    ["a time that is nothing of the kind", [true, "tick"], "`when` must be a Date, a number of seconds or a cron expression"],
    ["no callback", [5], "the callback must be the name of a method"],
  ])("%s", async (_name, args, message) => {
    await expect(plan(...args)).rejects.toThrow(message);
    expect(await rows()).toEqual([]);
  }); // prettier-ignore

  test("an unknown option of an interval", async () => {
    await expect(rig.call("a", "every", 5, "tick", 1, { idempotant: false })).rejects.toThrow(
      'scheduleEvery(…, "tick"): unknown option "idempotant"',
    );
    await expect(rig.call("a", "every", 5, "tick", 1, { timezone: "UTC" })).rejects.toThrow(
      'scheduleEvery(…, "tick"): timezone is',
    );
    expect(await rows()).toEqual([]);
  });

  test("invalid times, with the reason", async () => {
    const texts = [
      "Invalid job time: NaN. schedule: the delay must be a finite number of seconds",
      "Invalid job time: Infinity. schedule: the delay must be a finite number of seconds",
      "Invalid job time: NaN. schedule: the time must be a valid Date",
      "Invalid job time: 8640000000000000. schedule: the latest time is the end of the year 9999",
    ];
    expect(await rig.call("a", "planNaN")).toBe(texts.join("; "));
  });

  test("nothing within the bounds: 30 days, and a tenth of a second", async () => {
    await plan("tick", { intervalSeconds: 2_592_000 });
    await plan("tick", { intervalSeconds: 0.1 });
    await rig.pass(100);
    expect(ran).toHaveLength(1);
  });
});

describe("the callback receives", () => {
  test("its payload, and the schedule as the methods return it", async () => {
    const schedule = await plan(2, "tick", { deep: [1, { x: null }] });
    await rig.pass(2_000);
    expect(ran).toEqual([
      { payload: { deep: [1, { x: null }] }, args: 2, schedule, atMs: START_MS + 2_000 },
    ]);
  });

  test("undefined for a missing payload, null for null, and false, 0 and the empty string as they are", async () => {
    await rig.call("a", "withNothing");
    for (const payload of [null, false, 0, ""]) await plan("tick", { delayInSeconds: 60, payload });
    await rig.pass(60_000);
    expect(ran.map(({ payload }) => payload)).toEqual([undefined, null, false, 0, ""]);
  });

  test("no payload that JSON can't represent: it is rejected", async () => {
    class Odd extends Worker {
      async odd(): Promise<string[]> {
        const tries = [() => undefined, Symbol("s"), 1n].map((payload) =>
          this.schedule(1, "tick", payload).then(
            () => "scheduled",
            (error: Error) => `${error.name}: ${error.message}`,
          ),
        );
        return Promise.all(tries);
      }
    }
    rig = await JobRig.make({ Odd }, { startMs: START_MS });
    const refusal = (kind: string) =>
      `TypeError: schedule: the payload must be JSON, not a ${kind}: pass its data`;
    const bigint = expect.stringContaining("TypeError: ");
    expect(await rig.call("a", "odd")).toEqual([refusal("function"), refusal("symbol"), bigint]);
  });
});

describe("timing", () => {
  test.each([
    ["a date in the past", [date(START_MS - DAY_MS), "tick"]],
    ["a date long before the epoch", [date(-DAY_MS * 400_000), "tick"]],
    ["a negative delay", [-5, "tick"]],
    ["a delay of 0", [0, "tick"]],
    ["now", [date(START_MS), "tick"]],
  ])("makes %s due at once, after the scheduling turn", async (_name, args) => {
    await plan(...args);
    expect(ran).toEqual([]);
    await rig.pass(0);
    expect(ran).toHaveLength(1);
    expect(await rows()).toEqual([]);
  });

  test("rounds `time` up to a second not before the due time, whatever the kind", async () => {
    for (const options of [
      { time: date(START_MS + 5_001) },
      { delayInSeconds: 5.2 },
      { intervalSeconds: 5.1 },
    ])
      await plan("tick", options);
    const stored = await rows();
    for (const { time, due_ms: dueMs } of stored as Array<{ time: number; due_ms: number }>)
      expect(time).toBe(Math.ceil(dueMs / 1000));
    expect(stored[0]).toMatchObject({ due_ms: START_MS + 5_001 });
  });

  test("is to the millisecond for an agent in memory, and never early", async () => {
    await plan(date(START_MS + 5_001), "tick");
    await rig.pass(5_000);
    expect(ran).toEqual([]);
    await rig.pass(1);
    expect(ran.map(({ atMs }) => atMs)).toEqual([START_MS + 5_001]);
  });

  test("wakes a hibernating agent, once", async () => {
    await plan(date(START_MS + DAY_MS * 40), "tick");
    await rig.hibernate();
    expect(rig.activeAgents).toBe(0);
    await rig.passTo(START_MS + DAY_MS * 40 - 1);
    expect(ran).toEqual([]);
    await rig.pass(1);
    expect(ran.map(({ atMs }) => atMs)).toEqual([START_MS + DAY_MS * 40]);
    await rig.pass(DAY_MS * 40);
    expect(ran).toHaveLength(1);
  });

  test("waits on a host whose clock is behind the broker's: never early by its own clock", async () => {
    await plan(date(START_MS + 100_000), "tick");
    await rig.hibernate();
    rig.time.jump(-5_000);
    await rig.passTo(START_MS + 95_000);
    expect(ran).toEqual([]);
    await rig.passTo(START_MS + 99_999);
    expect(ran).toEqual([]);
    await rig.pass(1);
    expect(ran.map(({ atMs }) => atMs)).toEqual([START_MS + 100_000]);
  });

  test("keeps an agent in memory waiting when the clock is set back", async () => {
    await plan(date(START_MS + 10_000), "tick");
    rig.time.jump(-3_000);
    await rig.pass(12_999);
    expect(ran).toEqual([]);
    await rig.pass(1);
    expect(ran.map(({ atMs }) => atMs)).toEqual([START_MS + 10_000]);
  });
});

describe("repeating a call", () => {
  test.each([
    ["cron", ["*/5 * * * *", "tick", { a: 1 }], true],
    ["cron in the interface's shape", ["tick", { cron: "*/5 * * * *", payload: { a: 1 } }], true],
    ["interval", ["tick", { intervalSeconds: 30 }], true],
    ["interval with idempotent: false", ["tick", { intervalSeconds: 30, idempotent: false }], false],
    ["delay", [30, "tick", { a: 1 }], false],
    ["delay with idempotent: true", [30, "tick", { a: 1 }, { idempotent: true }], true],
    ["date", [date(START_MS + DAY_MS), "tick"], false],
    ["date with idempotent: true", ["tick", { time: date(START_MS + DAY_MS), idempotent: true }], true],
    ["cron with idempotent: false", ["tick", { cron: "*/5 * * * *", idempotent: false }], false],
  ])("%s", async (_name, args, same) => {
    const [first, second] = await rig.call<[unknown, unknown]>("a", "planTwice", ...args);
    const third = await plan(...args);
    expect(await rows()).toHaveLength(same ? 1 : 3);
    if (same) expect([second, third]).toEqual([first, first]);
    expect(rig.jobEvents.filter((type) => type === "schedule:create")).toHaveLength(same ? 1 : 3);
  }); // prettier-ignore

  test.each<[string, unknown[], unknown[]]>([
    ["another callback", ["*/5 * * * *", "tick"], ["*/5 * * * *", "other"]],
    ["another expression", ["*/5 * * * *", "tick"], ["*/6 * * * *", "tick"]],
    ["another payload", ["*/5 * * * *", "tick", 1], ["*/5 * * * *", "tick", 2]],
    ["no payload and null", ["*/5 * * * *", "tick"], ["*/5 * * * *", "tick", null]],
    ["another time zone", ["tick", { cron: "0 5 * * *" }], ["tick", { cron: "0 5 * * *", timezone: "Europe/Berlin" }]],
    ["another interval", ["tick", { intervalSeconds: 5 }], ["tick", { intervalSeconds: 6 }]],
    ["another kind", [30, "tick", 1, { idempotent: true }], [date(START_MS + 30_000), "tick", 1, { idempotent: true }]],
  ])("with %s makes another schedule", async (_name, one, two) => {
    await plan(...one);
    await plan(...two);
    expect(await rows()).toHaveLength(2);
  }); // prettier-ignore

  test("with another due time does not change a one-shot: the first due time is kept", async () => {
    const first = await plan(30, "tick", 1, { idempotent: true });
    expect(await plan(90, "tick", 1, { idempotent: true })).toEqual(first);
    await rig.pass(30_000);
    expect(ran).toHaveLength(1);
  });

  test("after a hibernation, and on another host, finds the existing schedule", async () => {
    const first = await plan("*/5 * * * *", "tick");
    await rig.handOver();
    await rig.startHost();
    expect(await plan("*/5 * * * *", "tick")).toEqual(first);
  });

  test("in a running one-shot's callback creates the next one", async () => {
    class Chain extends Worker {
      override tick(): void {
        ran.push({ payload: undefined, args: 0, schedule: {} as Schedule, atMs: rig.time.nowMs() });
        void this.schedule(10, "tick", undefined, { idempotent: true });
      }
    }
    rig = await JobRig.make({ Chain }, { startMs: START_MS });
    await rig.call("a", "plan", 10, "tick", undefined, { idempotent: true });
    await rig.pass(30_500);
    expect(ran.map(({ atMs }) => atMs - START_MS)).toEqual([10_000, 20_000, 30_000]);
  });

  test("for a single run in onStart without the flag logs one warning", async () => {
    class Eager extends Worker {
      override async onStart(): Promise<void> {
        await this.schedule(3600, "tick");
        await this.schedule(7200, "tick");
        await this.schedule(60, "other", undefined, { idempotent: true });
      }
    }
    rig = await JobRig.make({ Eager }, { startMs: START_MS });
    await rig.call("a", "rows");
    expect(rig.log.lines.filter(({ message }) => message.includes("onStart"))).toHaveLength(1);
  });
});

describe("reading and cancelling schedules", () => {
  test("finds them by id, by type and by time, synchronously and asynchronously", async () => {
    const soon = await plan(date(START_MS + 10_000), "tick");
    const cron = await plan("0 13 * * *", "tick");
    const far = await plan(date(START_MS + DAY_MS), "other");
    expect(await rig.call("a", "get", soon.id)).toEqual(soon);
    expect(await rig.call("a", "getLater", cron.id)).toEqual(cron);
    expect(await rig.call("a", "get", "nothing")).toBeNull();
    expect(await rig.call("a", "list")).toEqual([soon, cron, far]);
    expect(await rig.call("a", "find", { type: "scheduled" })).toEqual([soon, far]);
    expect(await rig.call("a", "find", { id: cron.id })).toEqual([cron]);
    const timeRange = { start: date(START_MS + 20_000), end: date(START_MS + 7_200_000) };
    expect(await rig.call("a", "find", { timeRange })).toEqual([cron]);
    for (const wrong of ["2026-12-01", 0, null, new Date(NaN)])
      await expect(rig.call("a", "find", { timeRange: { end: wrong } })).rejects.toThrow(
        "timeRange.end is a valid Date",
      );
    for (const [criteria, why] of [
      [
        { kind: "cron" },
        'getSchedules: unknown option "kind"; the options are id, type, timeRange',
      ],
      [{ timeRange: { from: date(START_MS) } }, 'getSchedules: timeRange: unknown option "from"'],
    ] as const)
      await expect(rig.call("a", "find", criteria)).rejects.toThrow(why);
  });

  test("does not find all of them by a criterion that is none", async () => {
    await plan(10, "tick");
    await expect(rig.call("a", "find", { callback: "other" })).rejects.toThrow(
      'getSchedules: unknown option "callback"; the options are id, type, timeRange',
    );
  });

  test("never runs a cancelled one, and says whether there was one", async () => {
    const { id } = await plan(10, "tick");
    expect(await rig.call("a", "cancel", id)).toBe(true);
    expect(await rig.call("a", "cancel", id)).toBe(false);
    await rig.pass(DAY_MS);
    expect(ran).toEqual([]);
    expect(rig.broker.timers.size).toBe(0);
    expect(rig.jobEvents).toEqual(["schedule:create", "schedule:cancel"]);
  });

  test("creates no database for an agent that uses neither SQL nor schedules", async () => {
    class Plain extends Agent<unknown, { readonly n: number }> {
      override initialState = { n: 0 };
      look(): number {
        this.setState({ n: 1 });
        return this.getSchedules().length;
      }
      async cancel(): Promise<unknown[]> {
        return [
          await this.cancelSchedule("x"),
          await this.cancelSchedule(undefined as never).catch(String),
          await this.dequeueAll(),
          await this.getQueues("a", 1),
        ];
      }
    }
    rig = await JobRig.make({ Plain });
    expect(await rig.call("a", "look")).toBe(0);
    expect(await rig.call("a", "cancel")).toEqual([
      false,
      "TypeError: cancelSchedule(id): the id must be the id of a schedule, not undefined",
      0,
      [],
    ]);
    expect(rig.journal("a").filter(({ pages }) => pages !== undefined)).toEqual([]);
  });
});
