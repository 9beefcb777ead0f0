/** What recurs: intervals, cron, instants that pass unused, runs that hang. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentStaticOptions } from "../../core/agent/AgentStaticOptions.ts";
import { JobRig } from "../queue/JobRig.ts";

const START_MS = Date.UTC(2025, 0, 1, 12);
const HOUR_MS = 3_600_000;

let rig: JobRig;
/** Seconds since the start at which runs began and ended. */
let began: number[];
let ended: number[];
/** What the callback does; each test sets it. */
let onTick: (agent: Worker) => unknown;

class Worker extends Agent<unknown, { readonly n: number }> {
  static override options: AgentStaticOptions = { retry: { maxAttempts: 1 } };
  override initialState = { n: 0 };
  async tick(): Promise<void> {
    began.push(seconds());
    this.setState({ n: this.state.n + 1 });
    await onTick(this);
    ended.push(seconds());
  }
  other(): void {
    began.push(-seconds());
  }
  plan(...args: unknown[]): Promise<unknown> {
    return this.schedule(...(args as [never, never]));
  }
  run(sql: string): unknown[] {
    return this.ctx.storage.sql.exec(sql).toArray();
  }
  block(ms: number): Promise<void> {
    return this.ctx.blockConcurrencyWhile(() => wait(ms));
  }
  override onError(): void {}
}

const seconds = (): number => Math.round(rig.time.nowMs() - START_MS) / 1000;
const wait = (ms: number) => new Promise<void>((resolve) => rig.time.after(ms, resolve));

beforeEach(async () => {
  began = [];
  ended = [];
  onTick = () => undefined;
  rig = await JobRig.make({ Worker }, { startMs: START_MS });
});

const plan = (...args: unknown[]) => rig.call("a", "plan", ...args);
const sql = (text: string) => rig.call<Array<Record<string, unknown>>>("a", "run", text);
const passTo = (s: number) => rig.passTo(START_MS + s * 1000);

describe("an interval", () => {
  test("is due one interval after its run ends: it neither drifts nor overlaps", async () => {
    onTick = () => wait(4_000);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(60);
    expect(began).toEqual([10, 24, 38, 52]);
  });

  test("that takes longer than its interval runs once at a time", async () => {
    let running = 0;
    let most = 0;
    onTick = async () => {
      most = Math.max(most, ++running);
      await wait(25_000);
      running--;
    };
    await plan("tick", { intervalSeconds: 10 });
    await passTo(150);
    expect(most).toBe(1);
    expect(began).toEqual([10, 45, 80, 115, 150]);
  });

  test("that is made due while it runs runs again when it ends, and not concurrently", async () => {
    onTick = () => wait(8_000);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(12);
    await sql(`UPDATE svc_agents_schedules SET time = ${START_MS / 1000 + 14}`);
    await passTo(30);
    expect(began).toEqual([10, 18]);
    expect(ended).toEqual([18, 26]);
  });

  test("continues after a failed run, counted from its end", async () => {
    onTick = () => {
      throw new Error("no");
    };
    await plan("tick", { intervalSeconds: 10 });
    await passTo(35);
    expect(began).toEqual([10, 20, 30]);
    expect(rig.dead).toHaveLength(3);
  });

  test("keeps its rhythm across hand-over and hibernation", async () => {
    await plan("tick", { intervalSeconds: 100 });
    await passTo(150);
    await rig.handOver();
    await rig.startHost();
    await passTo(250);
    await rig.hibernate();
    await passTo(450);
    expect(began).toEqual([100, 200, 300, 400]);
  });

  test("whose next time can't be stored is not reported as one that has none", async () => {
    await plan("tick", { intervalSeconds: 10 });
    await sql(`CREATE TRIGGER refusing BEFORE UPDATE OF due_ms ON svc_agents_schedules
      BEGIN SELECT RAISE(ABORT, 'not now'); END`);
    await passTo(12);
    expect(began[0]).toBe(10);
    const said = rig.log.lines.filter(({ level }) => level === "error");
    expect(JSON.stringify(said)).not.toContain("no next time");
  });

  test("that cancels itself in its callback is gone", async () => {
    onTick = (agent) => void agent.run("DELETE FROM svc_agents_schedules");
    await plan("tick", { intervalSeconds: 10 });
    await passTo(60);
    expect(began).toEqual([10]);
    expect(await sql("SELECT * FROM svc_agents_schedules")).toEqual([]);
  });

  test("that reschedules itself in its callback is due then", async () => {
    onTick = (agent) =>
      void agent.run(`UPDATE svc_agents_schedules SET time = ${START_MS / 1000 + 45}`);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(46);
    expect(began).toEqual([10, 45]);
  });

  test("whose interval changes in its callback counts the new one from its end", async () => {
    onTick = (agent) => void agent.run("UPDATE svc_agents_schedules SET intervalSeconds = 30");
    await plan("tick", { intervalSeconds: 10 });
    await passTo(75);
    expect(began).toEqual([10, 40, 70]);
  });

  test("delays only itself when it is slow", async () => {
    onTick = () => wait(20_000);
    await plan("tick", { intervalSeconds: 10 });
    await plan("other", { intervalSeconds: 10 });
    await passTo(45);
    expect(began).toEqual([10, -10, -20, -30, 40, -40]);
  });
});

describe("a hung interval", () => {
  test("is declared hung at the timeout: its mark is cleared, and it is due one interval later", async () => {
    onTick = () => (began.length === 1 ? wait(HOUR_MS) : undefined);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(39);
    expect(rig.jobEvents).toEqual(["schedule:create", "schedule:execute"]);
    await passTo(41);
    expect(rig.jobEvents.slice(2)).toEqual(["schedule:hung"]);
    expect(await sql("SELECT running FROM svc_agents_schedules")).toEqual([{ running: 0 }]);
    await passTo(75);
    expect(began).toEqual([10, 50, 60, 70]);
  });

  test("ignores the end, or failure, of the old run", async () => {
    onTick = async () => {
      if (began.length > 1) return;
      await wait(45_000);
      throw new Error("too late");
    };
    await plan("tick", { intervalSeconds: 100 });
    await passTo(400);
    // Hung at 130, due at 230 and 330; the old run failed at 145.
    expect(began).toEqual([100, 230, 330]);
    expect(rig.dead).toHaveLength(1);
    expect(await sql("SELECT time FROM svc_agents_schedules")).toEqual([
      { time: START_MS / 1000 + 430 },
    ]);
  });

  test("uses the class's timeout, or 30 s by default", async () => {
    class Quick extends Worker {
      static override options = { hungScheduleTimeoutSeconds: 2, retry: { maxAttempts: 1 } };
    }
    rig = await JobRig.make({ Quick }, { startMs: START_MS });
    onTick = () => wait(HOUR_MS);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(40);
    expect(began).toEqual([10, 22, 34]);
  });

  test("is never declared hung with a timeout of 0", async () => {
    class Patient extends Worker {
      static override options = { hungScheduleTimeoutSeconds: 0 };
    }
    rig = await JobRig.make({ Patient }, { startMs: START_MS });
    onTick = () => wait(60_000);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(150);
    expect(began).toEqual([10, 80, 150]);
    expect(rig.jobEvents).not.toContain("schedule:hung");
  });

  test("keeps what it wrote before it hung, and a later run's failure does not undo it", async () => {
    onTick = () => (began.length === 1 ? wait(HOUR_MS) : undefined);
    await plan("tick", { intervalSeconds: 10 });
    await passTo(55);
    rig.kill();
    await rig.startHost();
    expect(await rig.call("a", "run", "SELECT time FROM svc_agents_schedules")).toEqual([
      { time: START_MS / 1000 + 60 },
    ]);
    await passTo(61);
    expect(began).toEqual([10, 50, 60]);
  });
});

describe("cron", () => {
  test.each(["latest", "all", "skip"])(
    "does not run an instant twice when the clock is set back during its run (%s)",
    async (misfire) => {
      onTick = async () => {
        await wait(1_000);
        if (began.length === 1) rig.time.jump(-10_000);
      };
      await plan("tick", { cron: "*/5 * * * *", misfire });
      await passTo(500);
      await passTo(900);
      expect(began).toEqual([300, 600, 900]);
    },
  );

  test("runs once at each instant", async () => {
    await plan("*/10 * * * *", "tick");
    await passTo(3000);
    expect(began).toEqual([600, 1200, 1800, 2400, 3000]);
  });

  test("has seconds first when it has six fields", async () => {
    await plan("*/20 * * * * *", "tick");
    await passTo(70);
    expect(began).toEqual([20, 40, 60]);
  });

  test("continues from now after a long run: missed instants are skipped", async () => {
    onTick = () => wait(25 * 60_000);
    await plan("*/10 * * * *", "tick");
    await passTo(4800);
    expect(began).toEqual([600, 2400, 4200]);
  });

  test("follows its time zone's clock across a change", async () => {
    rig = await JobRig.make({ Worker }, { startMs: Date.UTC(2025, 2, 29, 12) });
    await plan("tick", { cron: "30 2 * * *", timezone: "Europe/Berlin" });
    const at: string[] = [];
    onTick = () => void at.push(new Date(rig.time.nowMs()).toISOString());
    await rig.passTo(Date.UTC(2025, 2, 31, 12));
    // 02:30 is skipped on the 30th: the first instant after the gap is 03:00 there.
    expect(at).toEqual(["2025-03-30T01:00:00.000Z", "2025-03-31T00:30:00.000Z"]);
  });
});

describe("schedules that were due while everything was down", () => {
  const outage = async (seconds_: number) => {
    rig.kill();
    await passTo(seconds_);
    await rig.startHost();
    await rig.pass(1_000);
  };

  test.each([
    ["cron by default: one run, for the latest", {}, [2400, 3000]],
    ["cron with latest", { misfire: "latest" }, [2400, 3000]],
    ["cron with all: a run for each instant, one after another", { misfire: "all" }, [2400, 2400, 2400, 2400, 3000]],
    ["cron with skip: none", { misfire: "skip" }, [3000]],
  ])("%s", async (_name, options, expected) => {
    await plan("tick", { cron: "*/10 * * * *", ...options });
    await outage(2450);
    await passTo(3050);
    expect(began.map((s) => (s < 3000 ? 2400 : s))).toEqual(expected);
    if (JSON.stringify(options).includes("skip")) expect(rig.jobEvents).toContain("schedule:misfire");
  }); // prettier-ignore

  test.each([
    ["a one-shot runs late", { delayInSeconds: 600 }, 1],
    ["a one-shot with skip does not run, and is gone", { delayInSeconds: 600, misfire: "skip" }, 0],
    ["an interval runs once", { intervalSeconds: 600 }, 1],
    ["an interval with skip waits for its next time", { intervalSeconds: 600, misfire: "skip" }, 0],
  ])("%s", async (_name, options, count) => {
    await plan("tick", options);
    await outage(2450);
    expect(began).toHaveLength(count);
    const left = await sql("SELECT time FROM svc_agents_schedules");
    expect(left).toHaveLength("intervalSeconds" in options ? 1 : 0);
    await passTo(3100);
    expect(began).toHaveLength("intervalSeconds" in options ? count + 1 : count);
  });

  test("skip keeps a run that began in time", async () => {
    onTick = () => {
      throw new Error("no");
    };
    await plan("tick", {
      cron: "0 13 * * *",
      misfire: "skip",
      retry: { maxAttempts: 2, baseDelayMs: 100_000, maxDelayMs: 100_000 },
    });
    await passTo(3600);
    expect(began).toEqual([3600]);
    await outage(3700);
    expect(began).toHaveLength(2);
    expect(rig.dead).toHaveLength(1);
  });
});

describe("a clock that is set", () => {
  const DAY_MS = 24 * HOUR_MS;

  test("forwards, or a machine that sleeps, makes no schedule late in an agent in memory", async () => {
    await plan("tick", { delayInSeconds: 8 * 3600 });
    await passTo(10);
    rig.time.jump(8 * HOUR_MS);
    await rig.pass(60_000);
    expect(began).toHaveLength(1);
  });

  test("back does not stop an interval", async () => {
    await plan("tick", { intervalSeconds: 10 });
    await passTo(35);
    rig.time.jump(-HOUR_MS);
    await passTo(75 - 3600);
    expect(began).toEqual([10, 20, 30, 50 - 3600, 60 - 3600, 70 - 3600]);
  });

  test.each([
    ["an interval", { intervalSeconds: 600 }, 600],
    ["a cron", { cron: "*/10 * * * *" }, 600],
  ])("back by a day is followed by %s when its agent wakes", async (_name, when, first) => {
    rig.time.jump(300 * DAY_MS);
    await plan("tick", when);
    await rig.hibernate();
    rig.time.jump(-300 * DAY_MS);
    await sql("SELECT 1");
    await passTo(2 * first + 100);
    expect(began).toHaveLength(2);
    expect(JSON.stringify(rig.log.lines)).toContain("the clock was set back");
  });

  test("back by an hour repeats no time of a cron, and moves no time that users' SQL set", async () => {
    await plan("tick", { cron: "0 * * * *" });
    await plan("other", { intervalSeconds: 10 });
    await sql(`UPDATE svc_agents_schedules SET time = time + 86400 WHERE callback = 'other'`);
    await passTo(3601);
    rig.time.jump(-HOUR_MS);
    await rig.handOver();
    await rig.startHost();
    await sql("SELECT 1");
    await passTo(7200);
    expect(began).toEqual([3600, 7200]);
  });
});

describe("blockConcurrencyWhile", () => {
  test("blocks due schedules like any other turn", async () => {
    await plan(1, "tick");
    const blocked = rig.call("a", "block", 5_000);
    await blocked;
    await rig.pass(100);
    expect(began).toEqual([5]);
  });

  test("never runs a schedule that is cancelled while it is blocked", async () => {
    class Blocker extends Worker {
      async cancelWhileBlocked(): Promise<void> {
        await this.schedule(1, "tick");
        await this.ctx.blockConcurrencyWhile(async () => {
          await wait(5_000);
          this.run("DELETE FROM svc_agents_schedules");
        });
      }
    }
    rig = await JobRig.make({ Blocker }, { startMs: START_MS });
    await rig.call("a", "cancelWhileBlocked");
    await rig.pass(HOUR_MS);
    expect(began).toEqual([]);
  });
});
