/** The guarantees of `undo` in a fiber, in one process and in virtual time. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { Agent, type FiberInspection, type FiberRecoveryContext } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch, type Latch } from "../system/kit.ts";

type Recovery = "begins it again" | "begins it again and catches all" | "begins nothing" | "fails";

/** Set by each test: what was called, and under which keys; what fails; what waits. */
let calls: string[] = [];
let keys = new Map<string, Set<string>>();
let fails = (_call: string): boolean => false;
let latches: Record<string, Latch> = {};
let recovery: Recovery = "begins it again";

class Shop extends Agent {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 10 } };

  async begin(fiberId = "f"): Promise<void> {
    await this.startFiber("order", () => this.order(), { fiberId });
  }
  async run(): Promise<string> {
    return this.runFiber("order", () => this.order()).then(() => "OK", String);
  }
  async parallel(): Promise<void> {
    await this.startFiber("order", () => Promise.all([this.paid("charge"), this.send()]), { fiberId: "f" }); // prettier-ignore
  }
  override async onFiberRecovered({ id, name }: FiberRecoveryContext): Promise<void> {
    if (recovery === "fails") throw new Error("no recovery");
    if (recovery === "begins nothing") return;
    const order = (): Promise<void> =>
      recovery === "begins it again" ? this.order() : this.order().catch(() => undefined);
    await this.startFiber(name, order, { fiberId: `${id}+` });
  }
  async cancel(): Promise<boolean> {
    return this.cancelFiber("f");
  }
  async look(fiberId = "f"): Promise<FiberInspection | null> {
    return this.inspectFiber(fiberId);
  }
  async kept(): Promise<number> {
    return this.sql`SELECT * FROM cf_agents_fiber_steps`.length;
  }

  private async order(): Promise<void> {
    await this.paid("reserve");
    await this.paid("charge");
    await this.send();
  }
  private async paid(name: string): Promise<void> {
    await this.step(name, (step) => this.call(name, step.key), {
      undo: (result, step) => this.call(`undo ${result}`, step.key),
    });
  }
  private async send(): Promise<void> {
    await this.step("send", (step) => this.call("send", step.key), { retry: { maxAttempts: 1 } });
  }
  private async call(name: string, key: string): Promise<string> {
    calls.push(name);
    keys.set(name, (keys.get(name) ?? new Set()).add(key));
    await latches[name]?.opened;
    if (fails(name)) throw new Error(`${name} failed`);
    return `the ${name}`;
  }
}

let test: TestAgents;
beforeEach(async () => {
  [calls, keys, latches, recovery] = [[], new Map(), {}, "begins it again"];
  fails = (call) => call === "send";
  test = await testAgents({ agents: [Shop] });
});
afterEach(() => test.close());

const agent = () => test.agent(Shop, "a");
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await test.advance(1);
}
/** The host dies while that is called, and the next one finds the fiber. */
async function crashIn(call: string): Promise<void> {
  latches[call] = makeLatch();
  await agent().begin();
  await until(() => calls.includes(call));
  await test.crash();
  delete latches[call];
  await test.revive();
  await agent().look();
  await test.settled();
}
const DONE = ["reserve", "charge", "send"];
const UNDONE = ["undo the charge", "undo the reserve"];

it("a failed fiber undoes its steps in reverse order before its record says so", async () => {
  latches["undo the reserve"] = makeLatch();
  await agent().begin();
  await until(() => calls.includes("undo the reserve"));
  expect((await agent().look())?.status).toBe("running");
  latches["undo the reserve"].open();
  await test.settled();
  expect(calls).toEqual([...DONE, ...UNDONE]);
  expect(await agent().look()).toMatchObject({
    status: "error",
    error: "send failed (undone: charge, reserve)",
  });
  const all = [...keys.values()].flatMap((each) => [...each]);
  expect(new Set(all).size).toBe(calls.length);
  expect(await agent().kept()).toBe(0);
});

it("runFiber rejects with the error itself once all is undone", async () => {
  expect(await agent().run()).toBe("Error: send failed");
  expect(calls).toEqual([...DONE, ...UNDONE]);
});

it("a fiber that succeeds undoes nothing", async () => {
  fails = () => false;
  await agent().begin();
  await test.settled();
  expect(calls).toEqual(DONE);
});

it("an undo that fails is retried, then reported, and the others run", async () => {
  fails = (call) => call === "send" || call === "undo the charge";
  await agent().begin();
  await until(() => calls.includes("undo the reserve"));
  await test.settled();
  expect(calls.slice(DONE.length)).toEqual([UNDONE[0], ...UNDONE]);
  expect((await agent().look())?.error).toBe(
    "send failed (undone: reserve; the undo of charge failed: Error: undo the charge failed)",
  );
});

it.each(UNDONE)(
  "after a host ends in %s, the successor undoes each step once, or under one key",
  async (call) => {
    await crashIn(call);
    const own = UNDONE.indexOf(call);
    expect(calls).toEqual([...DONE, ...UNDONE.slice(0, own + 1), ...UNDONE.slice(own)]);
    for (const each of [...UNDONE, "send", "charge"]) expect(keys.get(each)?.size).toBe(1);
    expect(await agent().look("f+")).toMatchObject({
      status: "error",
      error: "send failed (undone: charge, reserve)",
    });
    expect(await agent().kept()).toBe(0);
  },
);

it("once undoing has begun, the fiber has failed, even if its code would succeed by now", async () => {
  latches["undo the charge"] = makeLatch();
  await agent().begin();
  await until(() => calls.includes("undo the charge"));
  await test.crash();
  [latches, fails, recovery] = [{}, () => false, "begins it again and catches all"];
  await test.revive();
  await agent().look();
  await test.settled();
  expect(calls).toEqual([...DONE, "undo the charge", ...UNDONE]);
  expect((await agent().look("f+"))?.error).toBe("send failed (undone: charge, reserve)");
});

it("a step that is still running when its fiber fails is awaited, and undone", async () => {
  latches["charge"] = makeLatch();
  await agent().parallel();
  await until(() => calls.length === 2);
  await test.advance(100);
  expect((await agent().look())?.status).toBe("running");
  latches["charge"].open();
  await test.settled();
  expect(calls).toEqual(["charge", "send", "undo the charge"]);
});

it("a cancelled fiber undoes nothing", async () => {
  latches["send"] = makeLatch();
  await agent().begin();
  await until(() => calls.includes("send"));
  expect(await agent().cancel()).toBe(true);
  latches["send"].open();
  await test.settled();
  expect(calls).toEqual(DONE);
  expect((await agent().look())?.status).toBe("aborted");
});

it("a fiber that is being undone can't be cancelled, since it has failed", async () => {
  latches["undo the charge"] = makeLatch();
  await agent().begin();
  await until(() => calls.includes("undo the charge"));
  expect(await agent().cancel()).toBe(false);
  latches["undo the charge"].open();
  await test.settled();
  expect(calls).toEqual([...DONE, ...UNDONE]);
  expect((await agent().look())?.status).toBe("error");
});

it("a fiber that is given up lists the completed steps that were not undone", async () => {
  recovery = "fails";
  await crashIn("send");
  expect((await agent().look())?.error).toBe(
    "no recovery (done, and not undone: 1:reserve, 1:charge)",
  );
  expect(await agent().kept()).toBe(0);
});

it("an undo that repeatedly ends its host is eventually completed", async () => {
  latches["undo the charge"] = makeLatch();
  await agent().begin();
  for (let death = 1; death <= 3; death++) {
    await until(() => calls.filter((call) => call === "undo the charge").length === death);
    await test.crash();
    await test.revive();
    await agent().kept();
  }
  latches["undo the charge"].open();
  await until(() => calls.includes("undo the reserve"));
  await test.settled();
  expect(keys.get("undo the charge")?.size).toBe(1);
  expect(calls.at(-1)).toBe("undo the reserve");
});

it("a recovery that restarts no fiber undoes nothing more", async () => {
  recovery = "begins nothing";
  await crashIn("undo the charge");
  expect(calls).toEqual([...DONE, "undo the charge"]);
  expect((await agent().look())?.status).toBe("interrupted");
  expect(await agent().kept()).toBe(0);
});
