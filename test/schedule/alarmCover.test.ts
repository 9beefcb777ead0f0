/** What is due first always has a timer at the broker, and no more timers than needed. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import { JobRig } from "../queue/JobRig.ts";

const START_MS = Date.UTC(2025, 0, 1, 12);

let rig: JobRig;
let ran: Array<readonly [name: string, second: number]>;
let slowMs = 0;

class Worker extends Agent {
  async ring(name: string): Promise<void> {
    ran.push([name, (rig.time.nowMs() - START_MS) / 1000]);
    if (slowMs > 0 && name.startsWith("slow"))
      await new Promise<void>((resolve) => rig.time.after(slowMs, resolve));
  }
  /** Without an await in between: one commit. */
  async plan(...seconds: number[]): Promise<string[]> {
    const made = await Promise.all(
      seconds.map((second) =>
        this.schedule(new Date(START_MS + second * 1000), "ring", `at ${second}`, {
          idempotent: false,
        }),
      ),
    );
    return made.map(({ id }) => id);
  }
  async planNamed(second: number, ...names: string[]): Promise<void> {
    const at = new Date(START_MS + second * 1000);
    await Promise.all(names.map((name) => this.schedule(at, "ring", name, { idempotent: false })));
  }
  async every(seconds: number, name: string): Promise<void> {
    await this.scheduleEvery(seconds, "ring", name);
  }
  async cancel(...ids: string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.cancelSchedule(id)));
  }
  async end(): Promise<void> {
    await this.destroy();
  }
}

beforeEach(async () => {
  ran = [];
  slowMs = 0;
  rig = await JobRig.make({ Worker }, { startMs: START_MS });
});

const plan = (...seconds: number[]) => rig.call<string[]>("a", "plan", ...seconds);
const passTo = (second: number) => rig.passTo(START_MS + second * 1000);
const timers = () => rig.broker.timers.size;
/** Broker operations of a kind from now on. */
function counting(...kinds: ReadonlyArray<string>): () => number {
  let count = 0;
  rig.broker.intercept = ({ kind }) => void (kinds.includes(kind) && count++);
  return () => count;
}
/** The same again on a host that has nothing in memory. */
const elsewhere = async () => {
  rig.kill();
  await rig.startHost();
};

const FIVE = [100, 200, 300, 400, 500];
const RAN = FIVE.map((second) => [`at ${second}`, second]);

test("schedules created in one commit share one timer", async () => {
  const armed = counting("arm");
  await plan(...FIVE.toReversed());
  expect([armed(), timers()]).toEqual([1, 1]);
});

test("a schedule that is due later than another arms no timer, one due sooner arms its own", async () => {
  await plan(100);
  const armed = counting("arm");
  await plan(200);
  await plan(300, 150);
  expect([armed(), timers()]).toEqual([0, 1]);
  await plan(50);
  expect([armed(), timers()]).toEqual([1, 2]);
});

test("an agent that wakes assumes that its schedules are armed, and arms what is due sooner", async () => {
  await plan(1_000, 2_000);
  await elsewhere();
  const armed = counting("arm");
  await plan(1_500);
  expect([armed(), timers()]).toEqual([0, 1]);
  await plan(500);
  expect([armed(), timers()]).toEqual([1, 2]);
  await elsewhere();
  await passTo(2_500);
  expect(ran.map(([name]) => name)).toEqual(["at 500", "at 1000", "at 1500", "at 2000"]);
});

describe.each([
  ["stays in memory", async () => undefined],
  ["sleeps in between", () => rig.sweep()],
  ["is killed in between", elsewhere],
])("all schedules run when they are due, for an agent that %s", (_how, between) => {
  test("at different instants", async () => {
    await plan(...FIVE);
    for (const second of FIVE) {
      await passTo(second - 50);
      await between();
      await passTo(second + 1);
    }
    await passTo(1_000);
    expect(ran).toEqual(RAN);
    expect(timers()).toBe(0);
    expect(rig.broker.inbox.depth).toBe(0);
  });

  test("at one instant, which takes one timer", async () => {
    await rig.call("a", "planNamed", 100, "b", "c", "d");
    expect(timers()).toBe(1);
    await between();
    await passTo(150);
    expect(ran.toSorted()).toEqual([["b", 100], ["c", 100], ["d", 100]]); // prettier-ignore
    expect([timers(), rig.broker.inbox.depth]).toEqual([0, 0]);
  });

  test("when the first one is cancelled, and the next takes its place", async () => {
    const [first] = await plan(100, 200, 300);
    await between();
    await rig.call("a", "cancel", first);
    await rig.settled();
    expect(timers()).toBe(1);
    await between();
    await passTo(400);
    expect(ran).toEqual([["at 200", 200], ["at 300", 300]]); // prettier-ignore
    expect(timers()).toBe(0);
  });

  test("none, when all are cancelled, and no timer is left", async () => {
    const ids = await plan(100, 200, 300);
    await plan(50);
    await between();
    await rig.call("a", "cancel", ...ids);
    await rig.settled();
    expect(timers()).toBe(1);
    await passTo(400);
    expect(ran).toEqual([["at 50", 50]]);
    expect(timers()).toBe(0);
  });

  test("beside a recurring one", async () => {
    await rig.call("a", "every", 60, "often");
    await plan(100, 130);
    for (let second = 10; second <= 250; second += 10) {
      await passTo(second - 5);
      await between();
      await passTo(second);
    }
    expect(ran.map(([name, second]) => [name, Math.round(second)])).toEqual([
      ["often", 60],
      ["at 100", 100],
      ["often", 120],
      ["at 130", 130],
      ["often", 180],
      ["often", 240],
    ]);
    expect(timers()).toBe(1);
  });
});

test("a host that dies before it arms the next timer leaves the fired timer to its successor", async () => {
  await plan(100, 200);
  // The first has run, and that is stored; nothing is armed for the second any more.
  rig.broker.intercept = ({ kind }) => {
    if (kind === "arm") return new Promise<void>(() => undefined);
    return undefined;
  };
  await passTo(110);
  expect(ran).toEqual([["at 100", 100]]);
  expect([timers(), rig.broker.inbox.depth]).toEqual([0, 1]);
  rig.broker.intercept = undefined;
  await elsewhere();
  await rig.settled();
  expect([timers(), rig.broker.inbox.depth]).toEqual([1, 0]);
  await passTo(300);
  expect(ran).toEqual([["at 100", 100], ["at 200", 200]]); // prettier-ignore
});

test("a timer that can't be stored is retried, and the fired timer covers it meanwhile", async () => {
  await plan(100, 200);
  rig.broker.intercept = ({ kind }) => {
    if (kind === "arm") throw new Error("the name is refused");
  };
  await passTo(170);
  rig.broker.intercept = undefined;
  expect([timers(), rig.broker.inbox.depth]).toEqual([0, 1]);
  await passTo(195);
  expect([timers(), rig.broker.inbox.depth]).toEqual([1, 0]);
  await elsewhere();
  await passTo(300);
  expect(ran).toEqual([["at 100", 100], ["at 200", 200]]); // prettier-ignore
  expect(rig.log.lines.map(({ message }) => message)).toContain(
    "the timer of the next schedule can't be stored; trying again",
  );
});

test("a cancellation undone by a crash leaves the timer that covers other schedules", async () => {
  const [first] = await plan(100, 200);
  rig.broker.intercept = ({ kind }) => {
    if (kind === "append") throw new Error("the host is gone");
  };
  rig.call("a", "cancel", first).catch(() => undefined);
  await rig.pass(10);
  expect(timers()).toBe(2);
  rig.broker.intercept = undefined;
  await elsewhere();
  await passTo(300);
  expect(ran).toEqual([["at 100", 100], ["at 200", 200]]); // prettier-ignore
});

test("a long-running schedule holds one delivery, and blocks nothing else", async () => {
  slowMs = 300_000;
  await rig.call("a", "planNamed", 100, "slow", "quick");
  await plan(150, 200);
  await passTo(250);
  expect(ran.map(([name]) => name).toSorted()).toEqual(["at 150", "at 200", "quick", "slow"]);
  expect(rig.broker.inbox.depth).toBe(1);
  await passTo(500);
  expect([timers(), rig.broker.inbox.depth]).toEqual([0, 0]);
});

test("an agent that stays in memory for days still runs everything due at one instant", async () => {
  slowMs = 100_000;
  const twoDays = 2 * 86_400;
  await rig.call("a", "planNamed", twoDays, "slow", "slow too", "quick");
  await passTo(twoDays + 10);
  expect(ran.map(([name]) => name).toSorted()).toEqual(["quick", "slow", "slow too"]);
});

test("a due timer is not cancelled: its delivery covers the rest", async () => {
  await plan(...FIVE);
  const disarmed = counting("disarm");
  // The commits of these are stored in the very millisecond in which they are due.
  await passTo(450);
  expect([ran.length, disarmed()]).toEqual([4, 0]);
});

test("a destroyed agent leaves no timer", async () => {
  await plan(100, 200);
  await plan(50);
  expect(timers()).toBe(2);
  await rig.call("a", "end").catch(() => undefined);
  await rig.settled();
  expect(timers()).toBe(0);
});
