/** Attempts: how many, how far apart, who hears of them, and where what never works ends up. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { RetryOptions } from "../../core/retry/RetryOptions.ts";
import { backoffMs, resolveRetry } from "../../core/retry/retryPolicy.ts";
import { JobRig } from "./JobRig.ts";

let rig: JobRig;
/** When attempts began, in virtual milliseconds since the first. */
let attempts: number[];
let errors: string[];
/** Attempts that fail, from the first; the next one works. */
let failures: number;

/** `Infinity` in place of its name: arguments of calls are JSON. */
const uncapped = (value: unknown): unknown =>
  value === undefined
    ? value
    : (JSON.parse(JSON.stringify(value), (_, part: unknown) => (part === "Infinity" ? Infinity : part)) as unknown); // prettier-ignore

class Worker extends Agent<unknown, { readonly done: number; readonly tried: number }> {
  override initialState = { done: 0, tried: 0 };
  work(): void {
    attempts.push(rig.time.nowMs());
    this.setState({ ...this.state, tried: this.state.tried + 1 });
    if (attempts.length <= failures) throw new Error(`failure ${attempts.length}`);
    this.setState({ ...this.state, done: this.state.done + 1 });
  }
  plan(...args: unknown[]): Promise<unknown> {
    return this.schedule(...(args.map(uncapped) as [never, never]));
  }
  push(callback: string, payload?: unknown, options?: object): Promise<string> {
    return this.queue(callback as "work", payload, uncapped(options) as object);
  }
  look(): unknown {
    return { ...this.state, schedules: this.getSchedules() };
  }
  cancel(): unknown {
    return this.sql`DELETE FROM svc_agents_schedules`;
  }
  /** As releases that did not know better stored an infinite delay. */
  nullDelays(table: string): void {
    const retry = JSON.stringify(Uncapped.options.retry);
    this.ctx.storage.sql.exec(`UPDATE ${table} SET retry_options = ?`, retry);
  }
  drop(): Promise<number> {
    return this.dequeueAll();
  }
  async again(times: number, options?: RetryOptions): Promise<number[]> {
    const seen: number[] = [];
    await this.retry(async (attempt) => {
      seen.push(attempt);
      attempts.push(rig.time.nowMs());
      if (attempt <= times) throw new Error(`failure ${attempt}`);
    }, options).catch((error: Error) => errors.push(error.message));
    return seen;
  }
  async picky(): Promise<unknown> {
    const asked: unknown[] = [];
    const failed = await this.retry(() => Promise.reject(new Error("fatal")), {
      maxAttempts: 5,
      shouldRetry: (error, nextAttempt) => {
        asked.push([(error as Error).message, nextAttempt]);
        return nextAttempt < 3;
      },
    }).catch((error: Error) => error.message);
    return { asked, failed };
  }
  /** What is no function is not tried. */
  async nothing(): Promise<unknown> {
    return this.retry(5 as never, { baseDelayMs: 60_000 }).catch(String);
  }
  override onError(error: unknown): void {
    errors.push((error as Error).message);
  }
}

class Patient extends Worker {
  static override options = { retry: { maxAttempts: 5, baseDelayMs: 1_000, maxDelayMs: 60_000 } };
}
class Uncapped extends Worker {
  static override options = { retry: { maxAttempts: 4, baseDelayMs: 1_000, maxDelayMs: Infinity } };
}
class Broken extends Worker {
  static override options = { retry: { maxAttempts: 0 } };
}

const fresh = async (agents: Record<string, unknown> = { Worker }, seed = 1): Promise<void> => {
  attempts = [];
  errors = [];
  failures = Infinity;
  rig = await JobRig.make(agents, { seed });
};
beforeEach(() => fresh());

const call = <A = unknown>(method: string, ...args: unknown[]) => rig.call<A>("a", method, ...args);
/** How each kind of job is asked for. */
const JOBS: ReadonlyArray<[string, (options?: object) => Promise<unknown>]> = [
  ["a schedule", (retry) => call("plan", "work", { delayInSeconds: 1, payload: { p: 1 }, ...(retry ? { retry } : {}) })],
  ["a queue item", (retry) => call("push", "work", { p: 1 }, retry ?? {})],
]; // prettier-ignore
const gaps = (): number[] => attempts.slice(1).map((at, i) => at - attempts[i]!);

describe.each(JOBS)("%s", (name, start) => {
  test("is tried three times by default, with full jitter below 200 and 400 ms", async () => {
    await start();
    await rig.pass(10_000);
    expect(attempts).toHaveLength(3);
    const [first, second] = gaps();
    expect(first).toBeLessThan(200);
    expect(second).toBeLessThan(400);
  });

  test("that finally succeeds is done once, without a reported error", async () => {
    failures = 2;
    await start();
    await rig.pass(10_000);
    expect(await call("look")).toEqual({ done: 1, tried: 3, schedules: [] });
    expect([errors, rig.dead]).toEqual([[], []]);
  });

  test("that exhausts its attempts calls onError once with the last error, becomes a dead letter with payload and error, and is removed", async () => {
    await start();
    await rig.pass(10_000);
    expect(errors).toEqual(["failure 3"]);
    expect(rig.dead).toMatchObject([
      { callback: "work", payload: { p: 1 }, reason: "Error: failure 3" },
    ]);
    await rig.pass(100_000);
    expect(attempts).toHaveLength(3);
    expect(await call("look")).toEqual({ done: 0, tried: 3, schedules: [] });
  });

  test("has errors that onError throws swallowed, and keeps what it writes", async () => {
    class Thrower extends Worker {
      override onError(error: unknown): void {
        super.onError(error);
        this.setState({ ...this.state, done: 100 });
        throw new Error("again");
      }
    }
    await fresh({ Thrower });
    await start();
    await rig.pass(10_000);
    expect(errors).toEqual(["failure 3"]);
    rig.kill();
    await rig.startHost();
    expect(await call("look")).toMatchObject({ done: 100 });
    await rig.pass(100_000);
    expect(errors).toHaveLength(1);
  });

  test("uses the call's options first, then the class's, then the defaults", async () => {
    await fresh({ Patient });
    await start({ maxAttempts: 2 });
    await rig.pass(10 * 60_000);
    expect(attempts).toHaveLength(2);
    expect(gaps()[0]).toBeLessThan(2_000);

    let most = 0;
    for (let seed = 1; seed <= 5; seed++) {
      await fresh({ Patient }, seed);
      await start();
      await rig.pass(10 * 60_000);
      expect(attempts).toHaveLength(5);
      gaps().forEach((gap, i) => expect(gap).toBeLessThan(Math.min(1_000 * 2 ** (i + 1), 60_000)));
      most = Math.max(most, ...gaps());
    }
    // Not the defaults' 3,000 ms at most.
    expect(most).toBeGreaterThan(3_000);
  });

  test.each([
    ["its own options", false],
    ["the class's options", true],
  ])("waits longer each time where maxDelayMs is Infinity, by %s", async (_by, isClass) => {
    await fresh(isClass ? { Uncapped } : { Worker });
    await start(isClass ? undefined : { ...Uncapped.options.retry, maxDelayMs: "Infinity" });
    expect(JSON.stringify(await call("look"))).not.toContain("null");
    await rig.pass(60_000);
    expect(attempts).toHaveLength(4);
    // Three waits at one instant have a chance of 1 in 10^10.
    expect(Math.max(...gaps())).toBeGreaterThan(0);
    // The letter can be read, so that it can be redriven.
    expect(rig.dead).toMatchObject([{ payload: { p: 1 }, reason: "Error: failure 4" }]);
  });

  test("has no cap where its stored one is null", async () => {
    await start({ maxAttempts: 4, baseDelayMs: 60_000, maxDelayMs: 60_000 });
    await call("nullDelays", name === "a schedule" ? "svc_agents_schedules" : "svc_agents_queue");
    rig.kill();
    await rig.startHost();
    await rig.pass(120_000);
    expect(attempts).toHaveLength(4);
    expect(rig.dead).toMatchObject([{ payload: { p: 1 }, reason: "Error: failure 4" }]);
  });

  test("keeps its failed attempts on the next host", async () => {
    await start({ maxAttempts: 4, baseDelayMs: 5_000, maxDelayMs: 60_000 });
    for (let n = 0; attempts.length < 2; n++) {
      expect(n).toBeLessThan(1_000);
      await rig.pass(100);
    }
    rig.kill();
    await rig.startHost();
    await rig.pass(10 * 60_000);
    expect(attempts).toHaveLength(4);
    expect(rig.dead).toHaveLength(1);
    expect(await call("look")).toMatchObject({ tried: 4 });
  });

  test("that kills its host is given up after its attempts and one", async () => {
    class Killer extends Worker {
      override work(): void {
        attempts.push(rig.time.nowMs());
        rig.kill();
      }
    }
    await fresh({ Killer });
    // The answer may die with the host.
    start().catch(() => undefined);
    await rig.pass(2_000);
    for (let host = 2; host < 10; host++) {
      await rig.pass(10_000);
      await rig.startHost();
      await rig.pass(10_000);
    }
    // The first run of a job that has not waited is not announced; four that are follow it.
    expect(attempts).toHaveLength(5);
    expect(rig.dead).toMatchObject([
      { reason: "Error: its attempts are exhausted, and the last one did not end" },
    ]);
    expect(errors).toEqual(["its attempts are exhausted, and the last one did not end"]);
  });

  test("cancelled between two attempts is not retried", async () => {
    await start({ maxAttempts: 10, baseDelayMs: 10_000, maxDelayMs: 60_000 });
    await rig.pass(1_001);
    const before = attempts.length;
    expect(before).toBeGreaterThan(0);
    await call(name === "a schedule" ? "cancel" : "drop");
    const told = attempts.length;
    await rig.pass(10 * 60_000);
    expect(attempts).toHaveLength(told);
    expect([errors, rig.dead]).toEqual([[], []]);
  });

  test("of a class with invalid retry options fails at each run", async () => {
    await fresh({ Broken });
    await start().catch((error: Error) => errors.push(error.message));
    await rig.pass(10_000);
    expect(errors).toEqual(["retry.maxAttempts must be >= 1"]);
    expect(attempts).toEqual([]);
  });

  test("emits an event when it is created and when it begins, then one for each retry, then the error", async () => {
    await start();
    await rig.pass(10_000);
    const kind = name === "a schedule" ? "schedule" : "queue";
    const begins = kind === "schedule" ? ["schedule:execute"] : [];
    expect(rig.jobEvents).toEqual([
      `${kind}:create`, ...begins, `${kind}:retry`, `${kind}:retry`, `${kind}:error`,
    ]); // prettier-ignore
    const told = rig.events.filter(({ type }) => rig.jobEvents.includes(type));
    const made = told[0]!.payload;
    expect(told.map(({ payload }) => payload).slice(-3)).toEqual([
      { callback: "work", id: made["id"], attempt: 2, maxAttempts: 3 },
      { callback: "work", id: made["id"], attempt: 3, maxAttempts: 3 },
      { callback: "work", id: made["id"], error: "failure 3", attempts: 3 },
    ]);
  });
});

describe("jobs that waited together when one of them kills the host", () => {
  test("are retried except the killing one, which is given up", async () => {
    const ran: string[] = [];
    class Mixed extends Worker {
      override work(payload?: unknown): void {
        ran.push(String(payload));
        if (payload === "bad") rig.kill();
      }
    }
    await fresh({ Mixed });
    for (const payload of ["good 1", "bad", "good 2"])
      await call("plan", "work", { delayInSeconds: 60, payload });
    rig.kill();
    await rig.pass(100_000);
    for (let host = 2; host < 12; host++) {
      await rig.startHost();
      await rig.pass(10_000);
    }
    expect(rig.dead.map(({ payload }) => payload)).toEqual(["bad"]);
    expect(ran.filter((payload) => payload === "good 2")).not.toEqual([]);
    expect(await call("look")).toMatchObject({ schedules: [] });
  });
});

describe("a recurring schedule", () => {
  test("that fails continues at its next time, each run with its own attempts", async () => {
    await call("plan", "work", { cron: "*/10 * * * *" });
    await rig.pass(25 * 60_000);
    expect(attempts).toHaveLength(6);
    expect(errors).toEqual(["failure 3", "failure 6"]);
    expect(rig.dead).toHaveLength(2);
    expect(await call<{ schedules: unknown[] }>("look")).toMatchObject({
      schedules: [{ type: "cron" }],
    });
  });
});

describe("retry()", () => {
  test("counts attempts from 1, and stops at the first success", async () => {
    expect(await call("again", 2)).toEqual([1, 2, 3]);
    expect(errors).toEqual([]);
  });

  test("rejects with the last error when its attempts are exhausted", async () => {
    expect(await call("again", 9)).toEqual([1, 2, 3]);
    expect(errors).toEqual(["failure 3"]);
  });

  test("uses the call's options before the class's", async () => {
    await fresh({ Patient });
    expect(await call("again", 9)).toHaveLength(5);
    await fresh({ Patient });
    expect(await call("again", 9, { maxAttempts: 2 })).toHaveLength(2);
  });

  test("calls shouldRetry with the error and the next attempt, and stops at false", async () => {
    expect(await call("nothing")).toBe("TypeError: retry(f, …): f must be a function, not number");
    expect(await call("picky")).toEqual({ asked: [["fatal", 2], ["fatal", 3]], failed: "fatal" }); // prettier-ignore
  });

  test("refuses an unknown option before anything runs", async () => {
    expect(await call("again", 0, { attempts: 5 })).toEqual([]);
    expect(errors).toEqual([
      'retry(f, …): unknown option "attempts"; the options are maxAttempts, baseDelayMs, maxDelayMs, shouldRetry',
    ]);
  });

  test("validates the options merged with the class's before anything runs", async () => {
    expect(await call("again", 0, { baseDelayMs: 5_000 })).toEqual([]);
    expect(errors).toEqual(["retry.baseDelayMs must be <= retry.maxDelayMs"]);
  });
});

describe("the backoff", () => {
  const policy = resolveRetry();
  test("ignores options that are undefined, as a caller passes on what it was not given", () => {
    const given = { maxAttempts: undefined, baseDelayMs: undefined } as unknown as RetryOptions;
    expect(resolveRetry(given)).toEqual(policy);
    expect(resolveRetry({ maxAttempts: 5 }, given)).toEqual({ ...policy, maxAttempts: 5 });
  });
  test("after failed attempt n is below base times 2 to the n, and below the maximum", () => {
    for (let attempt = 1; attempt <= 20; attempt++) {
      const limit = Math.min(100 * 2 ** attempt, 3_000);
      expect(backoffMs(policy, attempt, 0)).toBe(0);
      expect(backoffMs(policy, attempt, 1 - Number.EPSILON)).toBe(limit - 1);
      expect(backoffMs(policy, attempt, 0.5)).toBe(Math.floor(limit / 2));
    }
  });

  test("defaults to 3 attempts, 100 ms and 3,000 ms", () => {
    expect(policy).toEqual({ maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3_000 });
  });
});
