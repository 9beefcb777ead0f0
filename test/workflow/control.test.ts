/**
 * Control, listing, state, events and bindings of an agent's workflows.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { subscribe } from "agents/observability";
import { testAgents, type TestAgents } from "agents/testing";
import type { WorkflowBinding } from "agents/workflows";
import * as orders from "./orders.ts";
import { AnyWorkflow, Shop, world } from "./orders.ts";

let rig: TestAgents;
beforeEach(async () => {
  world.reset();
  rig = await testAgents({ module: orders });
});
afterEach(() => rig.close());

const shop = () => rig.agent(Shop, "s1");
const soon = () => rig.advance("1 s");
const statusOf = async (id: string) => (await shop().look("AnyWorkflow", id)).status;

/** Three steps; the first takes 10 s. */
const slowCode = async (_: AnyWorkflow, step: orders.Step): Promise<string> => {
  await step.do("one", async () => {
    world.act("one");
    await new Promise((resolve) => setTimeout(resolve, 10_000));
  });
  await step.do("two", () => world.act("two"));
  await step.do("three", () => world.act("three"));
  return "over";
};

describe("control", () => {
  test("lets a running step end on pause, and begins no other until resume", async () => {
    AnyWorkflow.code = slowCode;
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    expect(await statusOf(id)).toBe("running");
    await shop().control("pause", id);
    expect(await shop().row(id)).toMatchObject({ status: "waitingForPause" });
    await rig.advance("1 hour");
    expect(world.calls).toEqual(["one"]);
    expect(await statusOf(id)).toBe("paused");
    await rig.crash();
    await rig.revive();
    await rig.advance("1 hour");
    expect([await statusOf(id), world.calls]).toEqual(["paused", ["one"]]);
    await shop().control("resume", id);
    await soon();
    expect(world.calls).toEqual(["one", "two", "three"]);
    expect(await statusOf(id)).toBe("complete");
  });

  test("delivers a paused workflow's reports on resume", async () => {
    AnyWorkflow.code = async (_, step) => {
      await step.do("one", () => new Promise((resolve) => setTimeout(resolve, 10_000)));
      await step.reportComplete("done");
    };
    const heard = async () => (await shop().state())?.heard ?? [];
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    await shop().control("pause", id);
    await rig.advance("1 hour");
    expect([await statusOf(id), await heard()]).toEqual(["paused", []]);
    await rig.crash();
    await rig.revive();
    await rig.advance("1 hour");
    expect([await statusOf(id), await heard()]).toEqual(["paused", []]);
    await shop().control("resume", id);
    await soon();
    expect(await heard()).toEqual([{ hook: "complete", value: "done" }]);
    expect(await statusOf(id)).toBe("complete");
  });

  test("ends an elapsed sleep on resume", async () => {
    const id = await shop().start("SleepWorkflow", {});
    await soon();
    await shop().control("pause", id);
    await rig.advance("40 days");
    expect(world.calls).toEqual(["before"]);
    await shop().control("resume", id);
    await soon();
    expect(world.calls).toEqual(["before", "after"]);
  });

  test("runs no further step after terminate, which can't be repeated", async () => {
    AnyWorkflow.code = slowCode;
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    await shop().control("terminate", id);
    await rig.advance("1 min");
    expect(world.calls).toEqual(["one"]);
    expect(await shop().row(id)).toMatchObject({ status: "terminated", completed: true });
    await expect(shop().control("terminate", id)).rejects.toThrow(
      `Workflow ${id} can't be terminated: it is terminated`,
    );
    await expect(shop().control("pause", "none")).rejects.toThrow(
      "Workflow none not found in tracking table",
    );
  });

  test("runs all steps again after restart, under new keys", async () => {
    const id = await shop().start("RetryWorkflow", {});
    await soon();
    await shop().control("restart", id);
    expect(await shop().row(id)).toMatchObject({ status: "queued", completed: false });
    await soon();
    expect(world.keys.map((key) => key.replace(id, "id"))).toEqual([
      "RetryWorkflow/id/1:1:fragile 1",
      "RetryWorkflow/id/2:1:fragile 1",
    ]);
    expect((await shop().look("RetryWorkflow", id)).status).toBe("complete");
  });

  test("delays a call until the start has arrived", async () => {
    const id = await shop().start("SleepWorkflow", {}, "soon");
    await shop().control("terminate", id);
    await rig.advance("40 days");
    expect(await shop().row(id)).toMatchObject({ status: "terminated" });
  });
});

describe("listing", () => {
  test("pages by cursor and by offset, each workflow once, newest first", async () => {
    for (let n = 0; n < 25; n++) {
      await shop().start("WaitWorkflow", {}, `w${String(n).padStart(2, "0")}`, {
        even: n % 2 === 0,
      });
      if (n % 3 === 0) await soon();
    }
    const all = Array.from({ length: 25 }, (_, n) => `w${String(24 - n).padStart(2, "0")}`);
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: { ids: string[]; total: number; nextCursor: string | null } = await shop().page({
        limit: 10,
        cursor,
      });
      expect(page.total).toBe(25);
      seen.push(...page.ids);
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual(all);
    expect((await shop().page({ limit: 10, offset: 20 })).ids).toEqual(all.slice(20));
    expect((await shop().page({ orderBy: "asc", limit: 1 })).ids).toEqual(["w00"]);
    expect((await shop().page({ metadata: { even: true } })).total).toBe(13);
    expect((await shop().page({ status: ["complete", "errored"] })).total).toBe(0);
    expect((await shop().page({ status: "queued", workflowName: "WaitWorkflow" })).total).toBe(25);
    await expect(shop().page({ cursor: "???" })).rejects.toThrow(
      "Invalid pagination cursor. The cursor may be malformed or corrupted.",
    );
  });

  test("runs everything that one turn starts", async () => {
    await shop().startMany("OrderWorkflow", 30);
    await rig.advance("5 s");
    expect((await shop().page({ status: "complete" })).total).toBe(30);
    expect(world.calls).toHaveLength(90);
  });

  test("no longer follows a deleted workflow, and keeps workflows of a renamed binding", async () => {
    await shop().start("WaitWorkflow", {}, "a");
    await shop().start("WaitWorkflow", {}, "b");
    expect(await shop().migrate("WaitWorkflow", "WAIT_WORKFLOW")).toBe(2);
    expect((await shop().page({ workflowName: "WAIT_WORKFLOW" })).total).toBe(2);
    expect([await shop().drop("a"), await shop().drop("a")]).toEqual([true, false]);
    expect(await shop().dropAll({ workflowName: "WAIT_WORKFLOW" })).toBe(1);
    expect((await shop().page({})).total).toBe(0);
  });

  test("is not deleted by a criterion that does not exist, or a date that is none", async () => {
    await shop().start("WaitWorkflow", {}, "a");
    await expect(shop().dropAll({ workflow: "Other" })).rejects.toThrow(
      'deleteWorkflows: unknown option "workflow"; the options are workflowName',
    );
    await expect(shop().dropAll({ createdBefore: "2026-12-01" })).rejects.toThrow(
      "deleteWorkflows: createdBefore is a valid Date",
    );
    await expect(shop().page({ state: "complete" })).rejects.toThrow(
      'getWorkflows: unknown option "state"',
    );
    expect((await shop().page({ status: undefined })).total).toBe(1);
  });
});

describe("communication between an instance and its agent", () => {
  test("carries state, events and calls, each durable one once", async () => {
    AnyWorkflow.code = async (workflow, step) => {
      await step.updateAgentState({ heard: [], count: 1 });
      await step.mergeAgentState({ extra: true } as never);
      await step.sendEvent({ name: "half way" });
      const shopStub = workflow.agent;
      const greeting = await step.do("ask", () => shopStub.hello("Bob"));
      await step.sleep("a while", "1 minute");
      await step.reportComplete(greeting);
    };
    const client = await rig.connect(Shop, "s1");
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    await rig.crash();
    await rig.revive();
    await rig.advance("2 min");
    expect(await shop().state()).toEqual({
      count: 1,
      extra: true,
      heard: [
        { hook: "event", value: { name: "half way" } },
        { hook: "complete", value: "hello Bob, from s1" },
      ],
    });
    expect(await statusOf(id)).toBe("complete");
    await client.close();
  });

  test("does not repeat in a replay what was broadcast or reported", async () => {
    AnyWorkflow.code = async (workflow, step) => {
      await step.do("one", () => 1);
      await workflow.reportProgress({ percent: 0.5 });
      workflow.broadcastToClients({ told: "half" });
      await step.sleep("a day", "1 day");
      await step.resetAgentState();
      await step.sendEvent("end");
    };
    const client = await rig.connect(Shop, "s1");
    await shop().start("AnyWorkflow", {});
    await soon();
    expect((await shop().state())?.heard).toEqual([{ hook: "progress", value: { percent: 0.5 } }]);
    await rig.advance("25 hours");
    expect((await shop().state())?.heard).toEqual([{ hook: "event", value: "end" }]);
    expect(client.messages.filter((message) => JSON.stringify(message).includes("told"))).toEqual([
      { told: "half" },
    ]);
  });

  test("is not started, and leaves no row, with params or metadata that JSON can't carry", async () => {
    expect(await shop().startOdd()).toEqual([
      [
        "TypeError: runWorkflow: the params: .price is a bigint, which JSON can't represent",
        "TypeError: runWorkflow: the params must be JSON, not a function: pass its data",
        "TypeError: runWorkflow: the metadata: .self is part of itself, which JSON can't represent",
      ],
      0,
    ]);
  });

  test("has events that report exactly what the agent did", async () => {
    const seen: string[] = [];
    const stop = subscribe("workflow", ({ type, payload }) => {
      seen.push(`${type} ${JSON.stringify(payload)}`);
    });
    await shop().start("WaitWorkflow", {}, "w");
    await shop().send("WaitWorkflow", "w", "parcel", {});
    await shop().approve("w");
    await shop().reject("w", "no");
    stop();
    expect(seen).toEqual([
      'workflow:start {"workflowId":"w","workflowName":"WaitWorkflow"}',
      'workflow:event {"workflowId":"w","eventType":"parcel"}',
      'workflow:event {"workflowId":"w","eventType":"approval"}',
      'workflow:approved {"workflowId":"w"}',
      'workflow:event {"workflowId":"w","eventType":"approval"}',
      'workflow:rejected {"workflowId":"w","reason":"no"}',
    ]);
  });

  test("is optional: a handler starts an instance without an agent, by the binding", async () => {
    const binding = rig.env["WAIT_WORKFLOW"] as WorkflowBinding;
    const instance = await binding.create({ id: "mine", params: {} });
    await instance.sendEvent({ type: "parcel", payload: { n: 3 } });
    await soon();
    expect(await instance.status()).toEqual({ status: "complete", output: { n: 3 } });
    await expect(binding.create({ id: "mine" })).rejects.toThrow("already exists");
    expect(await (await binding.get("mine")).status()).toMatchObject({ status: "complete" });
    await expect(binding.get("other")).rejects.toThrow(
      'instance.not_found: Workflow WaitWorkflow "other" does not exist',
    );
    expect(await binding.instance("other").status()).toEqual({ status: "unknown" });
    const response = await rig.fetch("/agents/wait-workflow/mine");
    expect(response.status).toBe(400);
  });

  test("throws in an instance without an agent", async () => {
    AnyWorkflow.code = async (workflow) => workflow["agent"];
    const binding = rig.env["ANY_WORKFLOW"] as WorkflowBinding;
    const instance = await binding.create({ id: "alone" });
    await soon();
    const message = expect.stringMatching(
      /^this.agent: no agent started Workflow AnyWorkflow "alone": use runWorkflow/,
    );
    expect(await instance.status()).toMatchObject({ status: "errored", error: { message } });
  });
});
