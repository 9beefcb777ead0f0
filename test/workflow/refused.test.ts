/** Steps whose end the run's record must say, whatever a replay finds. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { RunSignals } from "../../core/workflow/RunSignals.ts";
import { RunTable } from "../../core/workflow/RunTable.ts";
import * as orders from "./orders.ts";
import { AnyWorkflow, Shop, world } from "./orders.ts";

let rig: TestAgents;
beforeEach(async () => {
  world.reset();
  rig = await testAgents({ module: orders, now: "2098-12-30" });
});
afterEach(() => rig.close());

const shop = () => rig.agent(Shop, "s1");

test("a sleep of more than a year is refused in a replay that finds it shorter, too", async () => {
  AnyWorkflow.code = async (_, step) => {
    let refused = "";
    try {
      await step.sleepUntil("the new year", new Date("2100-01-01"));
    } catch (error) {
      refused = String(error);
    }
    await step.sleep("pause", "3 days");
    return refused;
  };
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 s");
  await rig.crash();
  await rig.revive();
  await rig.advance("4 days");
  expect(await shop().look("AnyWorkflow", id)).toEqual({
    status: "complete",
    output: 'RangeError: step "the new year" waits longer than a year',
  });
});

test("a result that does not fit into the database fails its step, which ran once", async () => {
  const { put } = RunTable.prototype;
  using _ = vi.spyOn(RunTable.prototype, "put").mockImplementation(function (this: RunTable, step) {
    if (step.result !== null) throw new Error("database or disk is full");
    put.call(this, step);
  });
  AnyWorkflow.code = async (_workflow, step) => {
    const big = step.do("big", async () => world.act("big"));
    return big.catch((error: unknown) => String(error));
  };
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 hour");
  expect(world.calls).toEqual(["big"]);
  expect(await shop().look("AnyWorkflow", id)).toEqual({
    status: "complete",
    output: "Error: database or disk is full",
  });
});

test.each<[string, object, string]>([
  ["retry", { retry: { limit: 1 } }, 'unknown option "retry"; the options are retries, timeout'],
  ["attempts", { retries: { attempts: 1 } }, 'retries: unknown option "attempts"; the options are limit'],
])("an unknown option of a step is refused, and its function does not run (%s)", async (_name, config, why) => {
  AnyWorkflow.code = async (_, step) =>
    step.do("pay", config as never, async () => world.act("pay")).catch(String);
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 s");
  const { output } = (await shop().look("AnyWorkflow", id)) as { output: string };
  expect(output).toContain(`TypeError: step "pay": ${why}`);
  expect(world.calls).toEqual([]);
}); // prettier-ignore

test("an unknown option is refused: of a wait, of a start, of an answer, of a list", async () => {
  AnyWorkflow.code = async (_, step) =>
    step.waitForEvent("go", { type: "go", timeOut: "1 s" } as never).catch(String);
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 s");
  const { output } = (await shop().look("AnyWorkflow", id)) as { output: string };
  expect(output).toContain('step.waitForEvent("go", …): unknown option "timeOut"');
  expect(await shop().misspelt(id)).toEqual([
    'TypeError: runWorkflow: unknown option "ids"; the options are id, metadata, agentBinding, retention',
    'TypeError: approveWorkflow: unknown option "approve"; the options are approval, by',
    'TypeError: rejectWorkflow: unknown option "approve"; the options are approval, by',
    'TypeError: getApprovals: unknown option "state"; the options are id, name, status',
  ]);
});

test.each(["sendEvent", "reportComplete", "updateAgentState"] as const)(
  "a report of more than 16 Mi characters is refused (%s), and the run goes on",
  async (method) => {
    AnyWorkflow.code = async (_, step) => step[method]("x".repeat(16 * 1024 * 1024)).catch(String);
    const id = await shop().start("AnyWorkflow", {});
    await rig.advance("1 s");
    const { output } = (await shop().look("AnyWorkflow", id)) as { output: string };
    expect(output).toMatch(
      new RegExp(`^RangeError: step.${method}: the reported value is 16777218 characters of JSON`),
    );
  },
);

test("a report that does not fit into the database fails its step, and the run goes on", async () => {
  using _ = vi.spyOn(RunSignals.prototype, "report").mockImplementation(() => {
    throw new Error("database or disk is full");
  });
  AnyWorkflow.code = async (_workflow, step) => {
    world.act("run");
    return step.sendEvent("much").catch(String);
  };
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 hour");
  expect(await shop().look("AnyWorkflow", id)).toEqual({
    status: "complete",
    output: "Error: database or disk is full",
  });
  expect(world.calls).toEqual(["run"]);
});

test("a result of more than 16 Mi characters ends the workflow with an error", async () => {
  AnyWorkflow.code = async () => {
    world.act("run");
    return "x".repeat(16 * 1024 * 1024);
  };
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 s");
  expect(await shop().look("AnyWorkflow", id)).toEqual({
    status: "errored",
    error: {
      name: "RangeError",
      message: expect.stringMatching(/^the result of the workflow is 16777218 characters of JSON/),
    },
  });
  expect(world.calls).toEqual(["run"]);
});

test("an error that can't be looked at ends the workflow at once", async () => {
  AnyWorkflow.code = async () => {
    world.act("run");
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    throw proxy;
  };
  const id = await shop().start("AnyWorkflow", {});
  await rig.advance("1 hour");
  expect(await shop().look("AnyWorkflow", id)).toEqual({
    status: "errored",
    error: { name: "Error", message: "a value that can't be read as text" },
  });
  expect(world.calls).toEqual(["run"]);
});
