/** Workflows end to end, in memory and in virtual time: steps, waits, reports, crashes. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as orders from "./orders.ts";
import { AnyWorkflow, Shop, world, type Step } from "./orders.ts";

let rig: TestAgents;
beforeEach(async () => {
  world.reset();
  rig = await testAgents({ module: orders });
});
afterEach(() => rig.close());

const shop = () => rig.agent(Shop, "s1");
const heard = async () => (await shop().state())?.heard;
/** Each of three steps, before and after a commit. */
const CRASHES = 6;
/** Lets everything happen that waits for no time. */
const soon = () => rig.advance("1 s");

async function crashed(): Promise<void> {
  await rig.crash();
  await rig.revive();
  await soon();
}

describe("an order, a saga of three steps", () => {
  test("runs its steps once, in order, and reports its end", async () => {
    const id = await shop().start("OrderWorkflow", { item: "hat" });
    await soon();
    expect(id).toMatch(/^wf_/);
    expect(world.calls).toEqual(["reserve", "charge", "ship"]);
    expect(await heard()).toEqual([
      { hook: "progress", value: { step: "reserve", percent: 0.3 } },
      {
        hook: "complete",
        value: { item: "hat", reserved: "reserve done", paid: "charge done", shipped: "ship done" },
      },
    ]);
    expect(await shop().row(id)).toMatchObject({ status: "complete", completed: true });
    expect(await shop().look("ORDER_WORKFLOW", id)).toEqual({
      status: "complete",
      output: "ship done",
    });
  });

  test("undoes its work when a step finally fails, and notifies the agent once", async () => {
    world.failures.set("ship", 2);
    const id = await shop().start("OrderWorkflow", { item: "hat" });
    await rig.advance("10 s");
    expect(world.calls).toEqual(["reserve", "charge", "ship", "ship", "refund", "release"]);
    expect((await heard())?.slice(1)).toEqual([
      { hook: "error", value: `OrderWorkflow ${id}: ship failed` },
    ]);
    expect(await shop().row(id)).toMatchObject({
      status: "errored",
      error: { name: "WorkflowError", message: "ship failed" },
    });
  });
});

describe("approval", () => {
  test("arrives after the host has died, and the instance continues where it was", async () => {
    const id = await shop().start("ApprovalWorkflow", {});
    await soon();
    expect(await shop().look("ApprovalWorkflow", id)).toEqual({ status: "waiting" });
    await crashed();
    await rig.advance("3 days");
    await crashed();
    await shop().approve(id, { by: "Ann" });
    await soon();
    expect(world.calls).toEqual(["prepare", "carry out"]);
    expect(await heard()).toEqual([{ hook: "complete", value: { by: "Ann" } }]);
  });

  test("that arrives before the workflow waits for it counts", async () => {
    const id = await shop().start("ApprovalWorkflow", {}, "early");
    await shop().approve(id, { reason: "fine", metadata: 7 });
    await soon();
    expect(await heard()).toEqual([{ hook: "complete", value: 7 }]);
  });

  test("that is refused ends it, with one report", async () => {
    const id = await shop().start("ApprovalWorkflow", {});
    await soon();
    await shop().reject(id, "too dear");
    await soon();
    expect(world.calls).toEqual(["prepare"]);
    expect(await heard()).toEqual([{ hook: "error", value: `ApprovalWorkflow ${id}: too dear` }]);
    expect(await shop().look("ApprovalWorkflow", id)).toEqual({
      status: "errored",
      error: { name: "WorkflowRejectedError", message: "Workflow rejected: too dear" },
    });
  });

  test("for a workflow that the agent does not follow is refused", async () => {
    await expect(shop().approve("nobody")).rejects.toThrow(
      "Workflow nobody not found in tracking table",
    );
    await expect(shop().start("Nothing", {})).rejects.toThrow(
      "Workflow binding 'Nothing' not found in environment",
    );
  });
});

describe("a wait", () => {
  test("of a month ends after a month, on any host, with no agent in memory", async () => {
    const id = await shop().start("SleepWorkflow", {});
    await rig.advance("29 days");
    expect(world.calls).toEqual(["before"]);
    expect(rig.agent(orders.SleepWorkflow as never, id).isActive()).toBe(false);
    await crashed();
    await rig.advance("1 day");
    await soon();
    expect(world.calls).toEqual(["before", "after"]);
    expect(await shop().look("SleepWorkflow", id)).toEqual({
      status: "complete",
      output: "slept",
    });
  });

  test("that times out is a clear error", async () => {
    const id = await shop().start("WaitWorkflow", {});
    await rig.advance("61 min");
    expect(await shop().look("WaitWorkflow", id)).toMatchObject({
      status: "errored",
      error: {
        name: "WorkflowTimeoutError",
        message: 'step "the parcel" waited 1 hour for an event of type "parcel", but none arrived',
      },
    });
  });

  test("keeps an event of another type for a step that waits for it", async () => {
    const id = await shop().start("WaitWorkflow", {});
    await shop().send("WaitWorkflow", id, "letter", 1);
    await shop().send("WAIT_WORKFLOW", id, "parcel", { n: 2 });
    await soon();
    expect(await shop().look("WaitWorkflow", id)).toEqual({
      status: "complete",
      output: { n: 2 },
    });
  });

  test("in parallel branches is concurrent, and results stay with their branches", async () => {
    const id = await shop().start("ParallelWorkflow", {});
    await soon();
    await crashed();
    await rig.advance("10 s");
    expect(world.calls.slice(0, 3)).toEqual(["a1", "b1", "c1"]);
    expect(world.calls.toSorted()).toEqual(["a1", "a2", "b1", "b2", "c1", "c2"]);
    expect(await shop().look("ParallelWorkflow", id)).toEqual({
      status: "complete",
      output: [
        ["a1 done", "a2 done"],
        ["b1 done", "b2 done"],
        ["c1 done", "c2 done"],
      ],
    });
  });
});

describe("retries", () => {
  test("follow the policy's delays, under one key, and end with the last error", async () => {
    world.failures.set("fragile", 100);
    const id = await shop().start("RetryWorkflow", {}, "r1");
    await soon();
    expect(world.keys).toEqual(["RetryWorkflow/r1/1:1:fragile 1"]);
    expect((await shop().look("RetryWorkflow", id)).status).toBe("waiting");
    // 10, 20, 40, 80 and 160 seconds.
    await rig.advance("30 s");
    expect(world.keys).toHaveLength(3);
    await crashed();
    await rig.advance("280 s");
    expect(world.keys).toHaveLength(6);
    expect(new Set(world.keys.map((key) => key.split(" ")[0])).size).toBe(1);
    expect(await shop().look("RetryWorkflow", id)).toMatchObject({
      status: "errored",
      error: { message: "fragile failed" },
    });
  });

  test("end at the first success", async () => {
    world.failures.set("fragile", 2);
    const id = await shop().start("RetryWorkflow", {});
    await rig.advance("40 s");
    expect(await shop().look("RetryWorkflow", id)).toMatchObject({ output: "fragile done" });
  });

  test("are skipped for errors marked as not retryable", async () => {
    const id = await shop().start("RetryWorkflow", { final: true });
    await soon();
    expect(world.keys).toHaveLength(1);
    expect(await shop().look("RetryWorkflow", id)).toMatchObject({
      status: "errored",
      error: { name: "NonRetryableError", message: "pointless" },
    });
  });
});

describe("failures", () => {
  test("with a thrown string are a clear error", async () => {
    AnyWorkflow.code = async () => {
      throw "boom";
    };
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    expect(await shop().row(id)).toMatchObject({
      status: "errored",
      error: { message: 'the string "boom" was thrown; throw an Error instead' },
    });
  });

  test("with nothing thrown from a step are a clear error to run, after its retries", async () => {
    AnyWorkflow.code = (_, step) =>
      step
        .do("odd", { retries: { limit: 0, delay: 1 } }, () => Promise.reject(undefined))
        .catch((error: unknown) => (error as Error).message);
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    expect(await shop().look("AnyWorkflow", id)).toMatchObject({
      output: "undefined was thrown; throw an Error instead",
    });
  });

  test("name the step whose result is not JSON, which is not retried", async () => {
    AnyWorkflow.code = (_, step) => step.do("count", () => world.act("count") && 10n);
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    expect(world.calls).toEqual(["count"]);
    expect((await shop().row(id)).error?.message).toBe(
      'the result of step "count" is a bigint, which JSON can\'t represent',
    );
  });

  test("name a step that takes too long", async () => {
    AnyWorkflow.code = (_, step) =>
      step.do(
        "endless",
        { retries: { limit: 0, delay: 0 }, timeout: "5 seconds" },
        () => new Promise(() => undefined),
      );
    const id = await shop().start("AnyWorkflow", {});
    await rig.advance("6 s");
    expect(await shop().look("AnyWorkflow", id)).toMatchObject({
      error: { name: "WorkflowTimeoutError", message: 'step "endless" took more than 5000 ms' },
    });
  });

  test.each<[string, (step: orders.Step) => Promise<unknown>, string]>([
    [
      "a step of another name",
      (step) => step.do("bill", () => 1),
      'recorded step.do "charge", but the code now calls step.do "bill"',
    ],
    [
      "a step of another kind",
      (step) => step.sleep("charge", 1),
      'recorded step.do "charge", but it is now step.sleep "charge"',
    ],
    ["no step", async () => 1, 'recorded step.do "charge", but the code now ends without it'],
    [
      "another order",
      async (step) => {
        await step.sleep("wait", "1 day");
        await step.do("charge", () => 1);
      },
      'recorded step.do "charge", but the code now calls step.sleep "wait" first',
    ],
  ])("end the instance if its code now has %s, and run nothing", async (_what, code, message) => {
    AnyWorkflow.code = async (_, step) => {
      await step.do("charge", () => world.act("charge"));
      await step.sleep("wait", "1 day");
      await step.do("ship", () => world.act("ship"));
    };
    const id = await shop().start("AnyWorkflow", {});
    await soon();
    AnyWorkflow.code = (_workflow, step) => code(step);
    await crashed();
    await rig.advance("1 day");
    expect(world.calls).toEqual(["charge"]);
    const { status, error } = await shop().look("AnyWorkflow", id);
    expect([status, error?.name]).toEqual(["errored", "WorkflowCodeChanged"]);
    expect(error?.message).toContain(message);
    expect(await heard()).toMatchObject([{ hook: "error" }]);
  });

  test.each([
    ["that has ended", "kept"],
    ["that is tried again", "retried"],
  ])(
    "end the instance if its code no longer calls a step beside one %s, too",
    async (_what, name) => {
      let isDown = name === "retried";
      const kept = (step: Step): Promise<unknown> =>
        step.do(name, { retries: { limit: 9, delay: "1 day", backoff: "constant" } }, () => {
          if (isDown) throw new Error("down");
          world.act(name);
        });
      AnyWorkflow.code = async (_, step) => {
        const gone = step.do("gone", () => world.act("gone"));
        await Promise.all([gone, kept(step)]);
        await step.sleep("wait", "1 day");
      };
      const id = await shop().start("AnyWorkflow", {});
      await soon();
      AnyWorkflow.code = async (_, step) => {
        await kept(step);
        await step.sleep("wait", "1 day");
      };
      isDown = false;
      await crashed();
      await rig.advance("1 day");
      expect((await shop().look("AnyWorkflow", id)).status).not.toBe("errored");
      await rig.advance("11 minutes");
      const { status, error } = await shop().look("AnyWorkflow", id);
      expect([status, error?.name]).toEqual(["errored", "WorkflowCodeChanged"]);
      expect(error?.message).toContain('recorded step.do "gone", but the code now waits for other');
      expect(world.calls.toSorted()).toEqual(["gone", name]);
    },
  );

  test("include an id in use by another agent: an id belongs to one instance", async () => {
    await shop().start("SleepWorkflow", {}, "one");
    await soon();
    await expect(shop().start("SleepWorkflow", {}, "one")).rejects.toThrow(
      'Workflow with ID "one" is already being tracked',
    );
    const other = rig.agent(Shop, "s2");
    await other.start("SleepWorkflow", {}, "one");
    await soon();
    expect(await other.row("one")).toMatchObject({
      status: "errored",
      error: { message: 'Workflow SleepWorkflow "one" already exists' },
    });
    expect(await shop().row("one")).toMatchObject({ status: "queued" });
  });
});

describe("a host that dies", () => {
  test("with the start stored and nothing sent leaves an instance that starts", async () => {
    const died = rig.crashAt("after commit", Shop, "s1");
    const started = shop().start("OrderWorkflow", { item: "hat" }, "o1");
    started.catch(() => undefined);
    await died;
    expect(world.calls).toEqual([]);
    await rig.revive();
    await rig.advance("5 s");
    expect(world.calls).toEqual(["reserve", "charge", "ship"]);
  });

  test("around the end of each step causes at most that step to run again, and one report", async () => {
    const crashes: string[] = [];
    let died: Promise<void> | undefined;
    world.onAct = (what) => {
      for (const point of ["before commit", "after commit"] as const) {
        if (crashes.includes(`${what} ${point}`)) continue;
        crashes.push(`${what} ${point}`);
        died = rig.crashAt(point, orders.OrderWorkflow as never, "o1");
        return;
      }
    };
    await shop().start("OrderWorkflow", { item: "hat" }, "o1");
    for (let n = 0; n <= CRASHES; n++) {
      await rig.advance("5 s");
      if (died === undefined) break;
      await died;
      died = undefined;
      await rig.revive();
    }
    expect(crashes).toHaveLength(CRASHES);
    await rig.advance("20 s");
    expect([...new Set(world.calls)]).toEqual(["reserve", "charge", "ship"]);
    expect((await heard())?.filter(({ hook }) => hook === "complete")).toHaveLength(1);
    expect(await shop().look("OrderWorkflow", "o1")).toMatchObject({ status: "complete" });
    expect(await rig.deadLetters()).toEqual([]);
  });
});
