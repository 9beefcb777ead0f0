/** How the steps of a workflow that fails for good are undone, in memory and in virtual time. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import type { StepUndoOptions, WorkflowBinding, WorkflowRollbackContext } from "agents/workflows";
import { CRASHES_MAX } from "../../core/workflow/stepFacts.ts";
import { makeLatch, type Latch } from "../system/kit.ts";
import * as orders from "./orders.ts";
import { AnyWorkflow, Shop, world, type Step } from "./orders.ts";

let latches: Record<string, Latch> = {};
let rig: TestAgents;
beforeEach(async () => {
  world.reset();
  latches = {};
  rig = await testAgents({ module: orders });
  AnyWorkflow.code = (_, step) => order(step);
});
afterEach(() => rig.close());

const RETRIES = { limit: 1, delay: "1 second", backoff: "constant" } as const;
const DONE = ["reserve", "charge", "ship", "ship"];
const UNDONE = ["undo charge done", "undo reserve done"];

async function act(what: string, key: string): Promise<string> {
  world.keys.push(`${what} ${key}`);
  const done = world.act(what);
  await latches[what]?.opened;
  return done;
}
const paid = (step: Step, name: string): Promise<string> =>
  step.do(name, { retries: RETRIES }, ({ key }) => act(name, key), {
    undo: (result, { key }) => act(`undo ${result}`, key),
  });
async function order(step: Step): Promise<void> {
  await paid(step, "reserve");
  await paid(step, "charge");
  await step.do("ship", { retries: RETRIES }, () => world.act("ship"));
}
const failing = (...acts: string[]) => acts.forEach((what) => world.failures.set(what, 99));
const binding = () => (rig.env as { ANY_WORKFLOW: WorkflowBinding }).ANY_WORKFLOW;
const begin = () => binding().create({ id: "w" });
const status = () => binding().instance("w").status();
const keysOf = (what: string): ReadonlyArray<string> =>
  world.keys.filter((each) => each.startsWith(`${what} `));
/** Up to the next call of that, whose host then ends. */
async function crashIn(what: string, begins?: () => Promise<unknown>): Promise<void> {
  const before = world.calls.length;
  latches[what] = makeLatch();
  await begins?.();
  while (!world.calls.slice(before).includes(what)) await rig.advance(100);
  await rig.crash();
  delete latches[what];
  await rig.revive();
}

describe("a workflow that fails", () => {
  test("undoes its steps in reverse order before it is errored", async () => {
    failing("ship");
    latches["undo charge done"] = makeLatch();
    await begin();
    await rig.advance("2 s");
    expect((await status()).status).toBe("running");
    latches["undo charge done"].open();
    await rig.advance("1 s");
    expect(world.calls).toEqual([...DONE, ...UNDONE]);
    expect(await status()).toEqual({
      status: "errored",
      error: { name: "Error", message: "ship failed (undone: charge, reserve)" },
      rollback: { outcome: "complete", error: null },
    });
    expect(new Set(world.keys).size).toBe(world.keys.length);
  });

  test("notifies its agent once, after the undos", async () => {
    failing("ship");
    const id = await rig.agent(Shop, "s").start("AnyWorkflow", {});
    await rig.advance("3 s");
    expect((await rig.agent(Shop, "s").state())?.heard).toEqual([
      {
        hook: "error",
        value: `AnyWorkflow ${id}: ship failed (undone: charge, reserve)`,
      },
    ]);
  });

  test("undoes nothing if it succeeds", async () => {
    await begin();
    await rig.advance("3 s");
    expect(world.calls).toEqual(["reserve", "charge", "ship"]);
    expect(await status()).toEqual({ status: "complete" });
  });

  test("reports an undo whose retries are exhausted, and the others run", async () => {
    failing("ship", "undo charge done");
    await begin();
    await rig.advance("5 s");
    expect(world.calls).toEqual([...DONE, UNDONE[0], ...UNDONE]);
    expect(await status()).toMatchObject({
      error: {
        message:
          "ship failed (undone: reserve; the undo of charge failed: Error: undo charge done failed)",
      },
      rollback: {
        outcome: "failed",
        error: { name: "Error", message: "undo charge done failed" },
      },
    });
  });

  test("hibernates between two attempts of an undo", async () => {
    AnyWorkflow.code = async (_, step) => {
      await step.do("once", () => "done", {
        undo: () => world.act("undo"),
        rollbackConfig: { retries: { limit: 1, delay: "1 day" } },
      });
      throw new Error("no");
    };
    world.failures.set("undo", 1);
    await begin();
    await rig.advance("23 hours");
    expect(rig.agent(AnyWorkflow as never, "w").isActive()).toBe(false);
    expect(await status()).toEqual({ status: "waiting" });
    await rig.crash();
    await rig.revive();
    await rig.advance("2 hours");
    expect(world.calls).toEqual(["undo", "undo"]);
    expect((await status()).error?.message).toBe("no (undone: once)");
  });
});

describe("a host that ends", () => {
  test.each(UNDONE)("in %s leaves each step undone once, or under one key", async (what) => {
    failing("ship");
    await begin();
    await crashIn(what);
    await rig.advance("1 s");
    const own = UNDONE.indexOf(what);
    expect(world.calls).toEqual([...DONE, ...UNDONE.slice(0, own + 1), ...UNDONE.slice(own)]);
    expect(new Set(keysOf(what)).size).toBe(1);
    expect((await status()).error?.message).toBe("ship failed (undone: charge, reserve)");
  });

  test("in the same undo repeatedly makes that undo fail, and the next one runs", async () => {
    failing("ship");
    await begin();
    for (let death = 1; death <= CRASHES_MAX; death++) await crashIn("undo charge done");
    await rig.advance("1 s");
    expect(keysOf("undo charge done")).toHaveLength(CRASHES_MAX);
    expect(world.calls.at(-1)).toBe("undo reserve done");
    expect((await status()).error?.message).toMatch(
      /undone: reserve; the undo of charge failed: .*"undo charge" was interrupted 20 times/,
    );
  });

  test("after undoing has begun leaves it failed, whatever the code does by now", async () => {
    failing("ship");
    await begin();
    await crashIn("undo charge done");
    // A release that has other steps, and ends well.
    AnyWorkflow.code = async (_, step) => {
      await paid(step, "charge").catch(() => undefined);
      await step.do("another", () => world.act("another")).catch(() => undefined);
      return "well";
    };
    await rig.advance("1 s");
    expect(world.calls.slice(DONE.length)).toEqual(Array(2).fill("undo charge done"));
    expect(await status()).toMatchObject({
      status: "errored",
      error: {
        message: "ship failed (undone: charge; done, but not reached by its last run: 1:reserve)",
      },
    });
  });
});

test("a running step is awaited and undone; one waiting for its retry is not retried", async () => {
  latches["slow"] = makeLatch();
  failing("fragile");
  AnyWorkflow.code = (_, step) =>
    Promise.all([
      paid(step, "slow"),
      step.do("fragile", { retries: { limit: 5, delay: "1 hour" } }, () => world.act("fragile")),
      step.sleep("a year", "365 days"),
      step.do("fails", { retries: { limit: 0, delay: 0 } }, async () => {
        await latches["fails"]?.opened;
        throw new Error("no");
      }),
    ]);
  latches["fails"] = makeLatch();
  await begin();
  await rig.advance("1 s");
  latches["fails"].open();
  await rig.advance("1 s");
  expect((await status()).status).not.toBe("errored");
  latches["slow"].open();
  await rig.advance("1 s");
  expect(world.calls).toEqual(["slow", "fragile", "undo slow done"]);
  expect((await status()).error?.message).toBe("no (undone: slow)");
  await rig.advance("2 days");
  expect(world.calls).toHaveLength(3);
});

test("code that repeats a refused step without end is left, and the steps are undone", async () => {
  let loops = 0;
  AnyWorkflow.code = async (_, step) => {
    await paid(step, "reserve");
    for (;;) {
      if (++loops > 1_000) return; // the loop would hold the test's thread
      await step.do("poll", { retries: RETRIES }, () => world.act("poll")).catch(() => undefined);
    }
  };
  failing("poll");
  await begin();
  await rig.advance("10 s");
  await binding().instance("w").terminate({ rollback: true });
  await rig.advance("1 minute");
  expect(loops).toBeLessThan(200);
  expect(world.calls.at(-1)).toBe("undo reserve done");
  expect((await status()).status).toBe("terminated");
});

test("a step that waits for its retry when the workflow is complete is not tried again", async () => {
  failing("charge");
  AnyWorkflow.code = (_, step) => {
    const retries = { limit: 5, delay: "5 seconds", backoff: "constant" } as const;
    const charged = step.do("charge", { retries }, () => world.act("charge"));
    return Promise.race([charged, step.sleep("timeout", "8 seconds")]);
  };
  await begin();
  await rig.advance("1 hour");
  expect((await status()).status).toBe("complete");
  expect(world.calls).toEqual(["charge", "charge"]);
});

test("a step's name may be a text that was cut in the middle of an emoji", async () => {
  AnyWorkflow.code = async (_, step) => {
    await step.do("notify \ud83d", () => world.act("notify"));
    await step.sleep("a day", "1 day");
    failing("ship");
    await step.do("ship", { retries: { limit: 0, delay: 0 } }, () => world.act("ship"));
  };
  await begin();
  await rig.advance("1 hour");
  await rig.crash();
  await rig.revive();
  await rig.advance("2 days");
  expect((await status()).error?.message).toBe("ship failed");
  expect(world.calls).toEqual(["notify", "ship"]);
});

test.each([0, 1])(
  "an event's type may begin like those of answers (waits first: %i)",
  async (first) => {
    const type = "approval received";
    AnyWorkflow.code = async (_, step) => {
      await step.sleep("a while", "10 minutes");
      return (await step.waitForEvent("finance", { type })).payload;
    };
    await begin();
    await rig.advance(first === 1 ? "1 hour" : "1 s");
    await binding()
      .instance("w")
      .sendEvent({ type, payload: { ok: true } });
    await rig.advance("1 hour");
    expect(await status()).toMatchObject({ status: "complete", output: { ok: true } });
  },
);

test("a paused workflow undoes nothing until it is resumed", async () => {
  const fails = makeLatch();
  AnyWorkflow.code = async (_, step) => {
    await paid(step, "reserve");
    await step.do("ship", { retries: { limit: 0, delay: 0 } }, async () => {
      await fails.opened;
      throw new Error("no");
    });
  };
  await begin();
  await rig.advance("1 s");
  await binding().instance("w").pause();
  fails.open();
  await rig.advance("1 s");
  expect(world.calls).toEqual(["reserve"]);
  expect((await status()).status).toBe("paused");
  await binding().instance("w").resume();
  await rig.advance("1 s");
  expect(world.calls).toEqual(["reserve", "undo reserve done"]);
});

describe("rollback, as the reference has it", () => {
  const told: Array<WorkflowRollbackContext> = [];
  beforeEach(() => void (told.length = 0));
  const rollback = (context: WorkflowRollbackContext): void => {
    told.push(context);
    world.act(`roll back ${context.ctx.step.name}`);
  };

  test("runs for steps that failed, too, with the step's context", async () => {
    AnyWorkflow.code = async (_, step) => {
      await step.do("first", () => world.act("first"), { rollback });
      await step.do("second", { retries: RETRIES }, () => world.act("second"), { rollback });
    };
    failing("second");
    await begin();
    await rig.advance("3 s");
    expect(world.calls.slice(3)).toEqual(["roll back second", "roll back first"]);
    const [second, first] = told;
    expect(second).toMatchObject({
      ctx: { step: { name: "second", count: 1 }, attempt: 2 },
      output: undefined,
    });
    expect(first).toMatchObject({ output: "first done", error: new Error("second failed") });
    expect(first!.key).not.toBe(first!.ctx.key);
  });

  test("does not run for an error that run catches", async () => {
    AnyWorkflow.code = async (_, step) =>
      step.do("first", { retries: { limit: 0, delay: 0 } }, () => world.act("first"), { rollback }).catch(() => "well"); // prettier-ignore
    failing("first");
    await begin();
    await rig.advance("3 s");
    expect(world.calls).toEqual(["first"]);
    expect(await status()).toEqual({ status: "complete", output: "well" });
  });

  test("has its own retries", async () => {
    AnyWorkflow.code = async (_, step) => {
      const rollbackConfig = { retries: { limit: 2, delay: 10, backoff: "constant" } } as const;
      await step.do("first", () => world.act("first"), { rollback, rollbackConfig });
      throw new Error("no");
    };
    failing("roll back first");
    await begin();
    await rig.advance("1 s");
    expect(world.calls.slice(1)).toEqual(Array(3).fill("roll back first"));
  });
});

describe("terminate", () => {
  test.each([false, true])("undoes the steps if requested (%s)", async (asked) => {
    AnyWorkflow.code = async (_, step) => {
      await paid(step, "reserve");
      await step.sleep("a day", "1 day");
      await paid(step, "charge");
    };
    await begin();
    await rig.advance("1 s");
    await binding().instance("w").terminate({ rollback: asked });
    await rig.advance("2 days");
    expect(world.calls).toEqual(["reserve", ...(asked ? ["undo reserve done"] : [])]);
    expect(await status()).toEqual({
      status: "terminated",
      ...(asked && { rollback: { outcome: "complete", error: null } }),
    });
  });

  test("resumes an undo that a host's end interrupted", async () => {
    AnyWorkflow.code = async (_, step) => {
      await paid(step, "reserve");
      await step.sleep("a day", "1 day");
    };
    await begin();
    await rig.advance("1 s");
    await crashIn("undo reserve done", () => binding().instance("w").terminate({ rollback: true }));
    await rig.advance("1 s");
    expect((await status()).status).toBe("terminated");
    expect(new Set(keysOf("undo reserve done")).size).toBe(1);
  });
});

test("changed code undoes nothing before undoing has begun", async () => {
  AnyWorkflow.code = async (_, step) => {
    await paid(step, "reserve");
    await step.sleep("a day", "1 day");
  };
  await begin();
  await rig.advance("1 s");
  await rig.crash();
  AnyWorkflow.code = async (_, step) => {
    await paid(step, "reserve");
    await paid(step, "charge");
  };
  await rig.revive();
  await rig.advance("2 days");
  expect(world.calls).toEqual(["reserve"]);
  expect((await status()).error?.name).toBe("WorkflowCodeChanged");
});

test.each<[object, StepUndoOptions | object, RegExp]>([
  [{ undo: () => 1 }, {}, /undo comes after the function/],
  [{}, { undo: () => 1, rollback: () => 1 }, /two ways to say one thing/],
  [{}, { undo: "x" }, /undo must be a function/],
  [{}, { compensate: () => 1 }, /unknown option "compensate"/],
  [{}, { undo: () => 1, rollbackConfig: { retries: { limit: -1, delay: 0 } } }, /retries.limit/],
])("a step refuses %o, %o", async (config, undo, error) => {
  AnyWorkflow.code = (_, step) => step.do("s", config, () => world.act("s"), undo);
  await begin();
  await rig.advance("1 s");
  expect((await status()).error?.message).toMatch(error);
  expect(world.calls).toEqual([]);
});
