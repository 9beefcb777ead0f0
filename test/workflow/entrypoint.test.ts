/**
 * Classes that extend `WorkflowEntrypoint` of `cloudflare:workers`, by their binding: in memory and
 * in virtual time.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { getCurrentAgent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import type { WorkflowBinding, WorkflowEvent, WorkflowStep } from "agents/workflows";
import { WorkflowEntrypoint } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";

interface Env {
  readonly REMINDER: WorkflowBinding;
}
type Run = (event: WorkflowEvent, step: WorkflowStep, own: Reminder) => Promise<unknown>;

const calls: string[] = [];
const act = (what: string): string => {
  calls.push(what);
  return `${what} done`;
};

/** Its code is what the test says. */
class Reminder extends WorkflowEntrypoint<Env> {
  static code: Run = async () => null;
  /** What the platform's class has. */
  readonly given = { ctx: this.ctx, env: this.env };
  override run(event: WorkflowEvent, step: WorkflowStep): Promise<unknown> {
    return Reminder.code(event, step, this);
  }
}

let rig: TestAgents;
beforeEach(async () => {
  calls.length = 0;
  rig = await testAgents({ module: { Reminder, default: { fetch: () => new Response() } } });
});
afterEach(() => rig.close());

const reminders = (): WorkflowBinding => (rig.env as unknown as Env).REMINDER;
/** Lets everything happen that waits for no time. */
const soon = () => rig.advance("1 s");
const crashed = async () => {
  await rig.crash();
  await rig.revive();
  await soon();
};

describe("an instance that a binding starts", () => {
  test("has its params, context and bindings, and ends with the result of run", async () => {
    let given: unknown;
    let ctx: unknown;
    Reminder.code = async (event, step, own) => {
      given = [event, own.given.env.REMINDER.className, typeof own.given.ctx.waitUntil];
      own.given.ctx.passThroughOnException();
      await step.do("one", (context) => void (ctx = context));
      await step.do("one", (context) => void (ctx = context));
      return { over: true };
    };
    const instance = await reminders().create({ id: "a", params: { at: "noon" } });
    await soon();
    expect(given).toMatchObject([
      { payload: { at: "noon" }, instanceId: "a", workflowName: "Reminder" },
      "Reminder",
      "function",
    ]);
    expect(ctx).toEqual({
      key: "Reminder/a/1:2:one",
      attempt: 1,
      step: { name: "one", count: 2 },
    });
    expect(await instance.status()).toEqual({ status: "complete", output: { over: true } });
  });

  test("is no agent to getCurrentAgent, in run and in its steps", async () => {
    Reminder.code = async (_, step) => {
      const current = () => [String(getCurrentAgent().agent), getCurrentAgent().signal?.aborted];
      return [current(), await step.do("one", async () => current())];
    };
    const instance = await reminders().create();
    await soon();
    const none = ["undefined", false];
    expect(await instance.status()).toEqual({ status: "complete", output: [none, none] });
  });

  test("continues after its host is lost, from its last recorded step", async () => {
    Reminder.code = async (_, step) => {
      const first = await step.do("first", () => act("first"));
      await step.sleep("a day", "1 day");
      const { payload } = await step.waitForEvent("go", { type: "go" });
      return [first, await step.do("second", () => act("second")), payload];
    };
    const instance = await reminders().create();
    expect(instance.id).toMatch(/^wf_[\w-]{22}$/);
    await soon();
    await crashed();
    await rig.advance("1 day");
    await crashed();
    expect([calls, await instance.status()]).toEqual([["first"], { status: "waiting" }]);
    await instance.sendEvent({ type: "go", payload: 7 });
    await soon();
    expect(calls).toEqual(["first", "second"]);
    expect(await instance.status()).toEqual({
      status: "complete",
      output: ["first done", "second done", 7],
    });
  });

  test("can be paused, resumed, restarted and ended by its handle", async () => {
    Reminder.code = async (_, step) => {
      await step.sleep("an hour", "1 hour");
      act("woke");
    };
    const instance = await reminders().create({ id: "p" });
    await soon();
    await instance.pause();
    await rig.advance("2 hours");
    expect([calls, (await instance.status()).status]).toEqual([[], "paused"]);
    await instance.resume();
    await soon();
    expect(calls).toEqual(["woke"]);
    await instance.restart();
    await soon();
    await instance.terminate();
    await rig.advance("2 hours");
    expect([calls, (await instance.status()).status]).toEqual([["woke"], "terminated"]);
    await expect(instance.terminate()).rejects.toThrow(/is terminated/);
    await expect(instance.restart({ from: { name: "an hour" } })).rejects.toThrow(/starts at the first step/); // prettier-ignore
  });
});

describe("a binding", () => {
  test("starts one instance per id", async () => {
    Reminder.code = async () => void act("ran");
    await reminders().create({ id: "one" });
    await expect(reminders().create({ id: "one" })).rejects.toThrow(
      'Workflow Reminder "one" already exists',
    );
    const batch = await reminders().createBatch([{ id: "one" }, { id: "two" }, {}]);
    await soon();
    expect(batch.map(({ id }) => id)).toEqual(["two", expect.stringMatching(/^wf_/)]);
    expect(calls).toHaveLength(3);
    await expect(reminders().createBatch({ count: 2 } as never)).rejects.toThrow(/takes an array/);
  });
});

describe("a step", () => {
  test("that fails with the platform's NonRetryableError is not retried", async () => {
    Reminder.code = (_, step) =>
      step.do("once", () => {
        act("once");
        throw new NonRetryableError("pointless");
      });
    const instance = await reminders().create();
    await rig.advance("1 hour");
    expect(calls).toEqual(["once"]);
    expect(await instance.status()).toEqual({
      status: "errored",
      error: { name: "NonRetryableError", message: "pointless" },
    });
  });
});
