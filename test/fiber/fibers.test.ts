/** Fibers: their records, and their recovery when a host dies or hands over, in virtual time. */
import { beforeEach, describe, expect, test } from "vitest";
import {
  Agent,
  type FiberContext,
  type FiberInspection,
  type FiberRecoveryContext,
  type FiberRecoveryResult,
  type StartFiberOptions,
  type StartFiberResult,
} from "agents";
import { RECOVERIES_MAX } from "../../core/fiber/FiberRecovery.ts";
import { JobRig } from "../queue/JobRig.ts";

/** Longer than the alarm's time. */
const ALARM_MS = 31_000;

type Body = (context: FiberContext, agent: Worker) => Promise<unknown> | unknown;
/** What a fiber of each name does, and what its agent does about an interrupted one. */
let bodies: Record<string, Body> = {};
let recover: (
  context: FiberRecoveryContext,
  agent: Worker,
) => Promise<void | FiberRecoveryResult> | void | FiberRecoveryResult = () => undefined;
let recovered: FiberRecoveryContext[] = [];
let started: string[] = [];

class Worker extends Agent<unknown, { readonly done: ReadonlyArray<unknown> }> {
  override initialState = { done: [] };

  override onStart() {
    started.push(`start after ${recovered.length}`);
  }
  run(name: string) {
    return this.runFiber(name, (context) => bodies[name]!(context, this));
  }
  /** As `void this.runFiber(…)`. */
  begin(name: string) {
    this.run(name).catch(() => undefined);
  }
  start(name: string, options?: StartFiberOptions) {
    return this.startFiber(name, (context) => bodies[name]!(context, this), options);
  }
  /** Any method of the base class, which nobody calls from outside. */
  ask(method: string, ...args: unknown[]) {
    return (this as unknown as Record<string, (...all: unknown[]) => unknown>)[method]!(...args);
  }
  done(what: unknown) {
    this.setState({ done: [...this.state.done, what] });
  }
  told() {
    return this.state.done;
  }
  rows() {
    return this.sql<{ name: string }>`SELECT name FROM cf_agents_fibers`.map(({ name }) => name);
  }
  schedules() {
    return { shown: this.getSchedules().length, all: this.sql`SELECT * FROM svc_agents_schedules`.length }; // prettier-ignore
  }
  override onFiberRecovered(context: FiberRecoveryContext) {
    recovered.push(context);
    return recover(context, this);
  }
}

let rig: JobRig;
beforeEach(async () => {
  bodies = {};
  recover = () => undefined;
  recovered = [];
  started = [];
  rig = await JobRig.make({ Worker });
});
const sleep = (ms: number): Promise<void> => new Promise((resolve) => rig.time.after(ms, resolve));
const types = (): string[] =>
  rig.events.map(({ type }) => type).filter((type) => type.startsWith("fiber:"));
const kill = async (): Promise<void> => {
  rig.kill();
  await rig.startHost();
};

describe("runFiber", () => {
  test("returns what its function returns, and leaves no record", async () => {
    bodies["add"] = async ({ stash, id, snapshot, signal }, agent) => {
      stash({ step: 1 });
      await sleep(10);
      agent.done("added");
      return [typeof id, snapshot, signal.aborted];
    };
    expect(await rig.call("w", "run", "add")).toEqual(["string", null, false]);
    expect(await rig.call("w", "told")).toEqual(["added"]);
    expect(await rig.call("w", "rows")).toEqual([]);
    expect(await rig.call("w", "schedules")).toEqual({ shown: 0, all: 0 });
    expect(types()).toEqual(["fiber:run:started", "fiber:run:completed"]);
    const causes = rig.journal("w").flatMap(({ turns }) => turns.map(({ cause }) => cause));
    expect(causes.filter(({ type }) => type === "fiber add")).not.toEqual([]);
  });

  test("rejects with what its function throws, and leaves no record", async () => {
    bodies["fail"] = () => {
      throw new RangeError("no such thing");
    };
    await expect(rig.call("w", "run", "fail")).rejects.toThrow("no such thing");
    expect(await rig.call("w", "rows")).toEqual([]);
    expect(rig.events.at(-1)?.payload).toMatchObject({ fiberName: "fail", managed: false });
  });

  test("keeps its agent in memory, and no schedule is visible", async () => {
    bodies["slow"] = async (_context, agent) => {
      await sleep(100_000);
      agent.done("slow");
    };
    await rig.call("w", "begin", "slow");
    await rig.hibernate();
    expect(rig.activeAgents).toBe(1);
    expect(await rig.call("w", "schedules")).toEqual({ shown: 0, all: 1 });
    await rig.pass(100_000);
    expect(await rig.call("w", "told")).toEqual(["slow"]);
    expect(recovered).toEqual([]);
    await rig.hibernate();
    expect(rig.activeAgents).toBe(0);
  });

  test("is recovered after its host is killed, with its last stash, before onStart and without a call", async () => {
    bodies["research"] = async ({ stash }) => {
      stash({ step: 1 });
      await sleep(1_000);
      stash({ step: 2 });
      await sleep(1_000_000);
    };
    await rig.call("w", "begin", "research");
    await rig.pass(2_000);
    await kill();
    expect(recovered).toEqual([]);
    await rig.pass(ALARM_MS);
    expect(recovered).toMatchObject([
      { name: "research", snapshot: { step: 2 }, recoveryReason: "interrupted" },
    ]);
    expect(recovered[0]).not.toHaveProperty("status");
    expect(started).toEqual(["start after 0", "start after 1"]);
    expect(await rig.call("w", "rows")).toEqual([]);
    await rig.pass(ALARM_MS * 3);
    expect(recovered).toHaveLength(1);
    expect(types().slice(1)).toEqual([
      "fiber:recovery:detected", "fiber:run:interrupted", "fiber:recovery:attempt", "fiber:recovery:handled",
    ]); // prettier-ignore
  });

  test("is recovered at the next call at the latest, and may be started again there", async () => {
    const steps = (from: number): Body => async ({ stash }, agent) => {
      for (let step = from; step < 4; step++) {
        await sleep(1_000);
        agent.done(step);
        stash(step + 1);
      }
    }; // prettier-ignore
    bodies["steps"] = steps(0);
    recover = ({ name, snapshot }, agent) => {
      bodies["steps"] = steps(Number(snapshot));
      agent.begin(name);
    };
    await rig.call("w", "begin", "steps");
    await rig.pass(1_500);
    await kill();
    expect(await rig.call("w", "told")).toEqual([0]);
    await rig.pass(1_500);
    await kill();
    expect(await rig.call("w", "told")).toEqual([0, 1]);
    await rig.pass(10_000);
    expect(await rig.call("w", "told")).toEqual([0, 1, 2, 3]);
    expect(recovered.map(({ snapshot }) => snapshot)).toEqual([1, 2]);
    expect(await rig.call("w", "rows")).toEqual([]);
  });

  test("started in a recovery, replaces the interrupted fiber in one commit, and inherits its stash", async () => {
    bodies["long"] = async ({ stash }) => {
      stash({ at: 7 });
      await sleep(1_000_000);
    };
    bodies["again"] = () => sleep(1_000_000);
    recover = async (_context, agent) => {
      agent.begin("again");
      await agent.run("again");
    };
    await rig.call("w", "begin", "long");
    await rig.pass(1_000);
    await kill();
    await rig.pass(ALARM_MS);
    expect(await rig.call("w", "rows")).toEqual(["again", "again"]);
    const texts = rig.journal("w").map(({ turns }) => turns.flatMap(({ sql = [] }) => sql));
    const both = texts.filter((sql) => sql.some((text) => text.startsWith("DELETE FROM cf_agents_fibers"))); // prettier-ignore
    expect(both).toHaveLength(1);
    expect(both[0]!.filter((text) => text.startsWith("INSERT INTO cf_agents_fibers"))).toHaveLength(2); // prettier-ignore
    // Neither has stashed anything when its host is gone too.
    recover = () => undefined;
    await kill();
    await rig.pass(ALARM_MS);
    expect(recovered.map(({ name, snapshot }) => [name, snapshot])).toEqual([
      ["long", { at: 7 }],
      ["again", { at: 7 }],
      ["again", null],
    ]);
  });

  test("is interrupted by a hand-over without delaying it: its signal fires, and later writes are refused", async () => {
    const saw: unknown[] = [];
    bodies["long"] = async ({ signal }, agent) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      saw.push(signal.aborted);
      agent.done("too late");
    };
    await rig.call("w", "begin", "long");
    const startMs = rig.time.monotonicMs();
    await rig.handOver();
    expect(rig.time.monotonicMs() - startMs).toBeLessThan(1_000);
    await rig.startHost();
    await rig.pass(ALARM_MS);
    expect(saw).toEqual([true]);
    expect(recovered.map(({ name }) => name)).toEqual(["long"]);
    expect(await rig.call("w", "told")).toEqual([]);
  });

  test("runs twice at once with separate stashes, through this.stash too, in nested functions", async () => {
    const body: Body = async (_context, agent) => {
      for (let n = 0; n < 3; n++) {
        await sleep(10);
        agent.stash({ n, of: _context.id });
      }
      await sleep(1_000_000);
    };
    bodies = { one: body, two: body };
    await rig.call("w", "begin", "one");
    await rig.call("w", "begin", "two");
    await rig.pass(1_000);
    await kill();
    await rig.pass(ALARM_MS);
    expect(recovered.map(({ name }) => name)).toEqual(["one", "two"]);
    for (const { id, snapshot } of recovered) expect(snapshot).toEqual({ n: 2, of: id });
    await expect(rig.call("w", "ask", "stash", 1)).rejects.toThrow(
      "stash() called outside a fiber",
    );
  });

  test("retries a recovery that throws, with growing delays, until the fiber is a day old", async () => {
    bodies["long"] = () => sleep(10_000_000);
    recover = () => {
      throw new Error("not yet");
    };
    await rig.call("w", "begin", "long");
    await kill();
    await rig.pass(ALARM_MS * 8);
    const soon = recovered.length;
    expect(soon).toBeGreaterThanOrEqual(2);
    expect(soon).toBeLessThanOrEqual(4);
    await rig.pass(2 * 3600 * 1000);
    // Every 5 minutes by then.
    expect(recovered.length - soon).toBeGreaterThan(20);
    expect(recovered.length - soon).toBeLessThan(26);
    await rig.pass(24 * 3600 * 1000);
    expect(await rig.call("w", "rows")).toEqual([]);
    const all = recovered.length;
    await rig.pass(3600 * 1000);
    expect(recovered).toHaveLength(all);
    expect(await rig.call("w", "schedules")).toEqual({ shown: 0, all: 0 });
  });

  test("replaces an alarm interval of zero by the default, and logs it", async () => {
    class Hasty extends Worker {
      static override options = { keepAliveIntervalMs: 0 };
    }
    bodies = { wait: () => sleep(60_000) };
    rig = await JobRig.make({ Hasty });
    await rig.call("w", "begin", "wait");
    const before = rig.journal("w").length;
    await rig.pass(20_000);
    expect(rig.journal("w").length).toBe(before);
    expect(rig.log.lines.map(({ message }) => message).join()).toContain("is 0, but must be at least 100"); // prettier-ignore
  });

  test("gives up a recovery that repeatedly ends its host", async () => {
    bodies["poison"] = () => sleep(10_000_000);
    recover = async () => sleep(10_000_000);
    await rig.call("w", "begin", "poison");
    for (let n = 0; n < RECOVERIES_MAX + 3; n++) {
      await kill();
      await rig.pass(ALARM_MS * 2);
    }
    expect(recovered).toHaveLength(RECOVERIES_MAX);
    expect(await rig.call("w", "rows")).toEqual([]);
    expect(types().at(-1)).toBe("fiber:recovery:skipped");
  });

  test("does not let a slow recovery block its agent's start indefinitely", async () => {
    bodies["long"] = () => sleep(10_000_000);
    recover = async (_context, agent) => {
      await sleep(60_000);
      agent.done("recovered");
    };
    await rig.call("w", "begin", "long");
    await kill();
    const startMs = rig.time.monotonicMs();
    expect(await rig.call("w", "told")).toEqual([]);
    expect(rig.time.monotonicMs() - startMs).toBeGreaterThanOrEqual(10_000);
    expect(rig.time.monotonicMs() - startMs).toBeLessThan(11_000);
    await rig.pass(60_000);
    expect(await rig.call("w", "told")).toEqual(["recovered"]);
    expect(recovered).toHaveLength(1);
  });

  test("rejects an invalid name or value by naming it", async () => {
    bodies["loop"] = ({ stash }) => {
      const loop: { me?: unknown } = {};
      loop.me = loop;
      stash(loop);
    };
    await expect(rig.call("w", "run", "loop")).rejects.toThrow(/^stash: the data: .me is part of/);
    await expect(rig.call("w", "run", "")).rejects.toThrow("A fiber needs a name");
    expect(await rig.call("w", "rows")).toEqual([]);
  });
});

describe("startFiber", () => {
  test("passes its metadata to the successor until that sets its own", async () => {
    bodies["work"] = () => sleep(1_000_000);
    recover = ({ name }, agent) => agent.begin(name);
    await start("work", { metadata: { order: 7 } });
    for (let n = 0; n < 2; n++) {
      await kill();
      await rig.pass(ALARM_MS);
    }
    expect(recovered.map(({ metadata, snapshot }) => [metadata, snapshot])).toEqual([
      [{ order: 7 }, null],
      [{ order: 7 }, null],
    ]);
  });

  const start = (name: string, options?: StartFiberOptions) =>
    rig.call<StartFiberResult>("w", "start", name, options);

  test("returns at once, and keeps the record of how it ended", async () => {
    bodies["reply"] = async ({ stash }, agent) => {
      await sleep(5_000);
      stash({ sent: true });
      agent.done("replied");
    };
    const told = await start("reply", { metadata: { thread: 7 }, idempotencyKey: "hook:1" });
    expect(told).toMatchObject({
      name: "reply",
      status: "pending",
      accepted: true,
      metadata: { thread: 7 },
      idempotencyKey: "hook:1",
    });
    await rig.pass(1_000);
    expect(await rig.call("w", "ask", "inspectFiber", told.fiberId)).toMatchObject({
      status: "running",
    });
    await rig.pass(5_000);
    const ended = await rig.call<FiberInspection>("w", "ask", "inspectFiberByKey", "hook:1");
    expect(ended).toMatchObject({ status: "completed", snapshot: { sent: true } });
    expect(ended.settledAt! - ended.startedAt!).toBe(5_000);
    expect(await rig.call("w", "told")).toEqual(["replied"]);
    expect(await rig.call("w", "ask", "inspectFiber", "nobody")).toBeNull();
    expect(await rig.call("w", "schedules")).toEqual({ shown: 0, all: 0 });
  });

  test("begins once the whole turn that requested it is stored", async () => {
    const turns = () => rig.journal("w").flatMap((event) => event.turns);
    let before: ReturnType<typeof turns> = [];
    bodies["behind"] = () => void (before = turns());
    class Queued extends Worker {
      async job() {
        await this.start("behind");
        await sleep(20);
        this.done("job");
      }
      enqueue() {
        return this.queue("job");
      }
    }
    rig = await JobRig.make({ Queued });
    await rig.call("w", "enqueue");
    await rig.pass(1_000);
    const [job] = before.filter(({ cause }) => cause.kind === "queue");
    expect(job).toMatchObject({ state: { set: { done: ["job"] } } });
    expect(job).not.toHaveProperty("begun");
    const behind = turns().filter(({ cause }) => cause.type === "fiber behind");
    expect(behind.length).toBeGreaterThan(0);
  });

  test("runs once for a key or an id, however often it is requested", async () => {
    let runs = 0;
    bodies["once"] = async () => {
      runs++;
      await sleep(1_000);
    };
    const first = await start("once", { idempotencyKey: "k", fiberId: "f" });
    const again = await Promise.all([
      start("once", { idempotencyKey: "k" }),
      start("once", { fiberId: "f", waitForCompletion: true }),
    ]);
    expect([first, ...again].map(({ fiberId, accepted }) => [fiberId, accepted])).toEqual([
      ["f", true],
      ["f", false],
      ["f", false],
    ]);
    expect(again[1]!.status).toBe("completed");
    expect(runs).toBe(1);
    await expect(start("once", { idempotencyKey: "k", fiberId: "g" })).rejects.toThrow(
      "fiberId and idempotencyKey refer to different fibers",
    );
    await expect(start("once", { idempotencyKey: " " })).rejects.toThrow(/must not be blank/);
    await expect(start("once", { fiberId: "" })).rejects.toThrow(/must not be blank/);
  });

  test("waits for its end with waitForCompletion; a failure is recorded, not thrown", async () => {
    bodies["fail"] = async () => {
      await sleep(1_000);
      throw new Error("the provider is away");
    };
    const ended = await start("fail", { waitForCompletion: true });
    expect(ended).toMatchObject({ status: "error", error: "the provider is away", accepted: true });
  });

  test("can be cancelled: its signal fires and the record says so, whatever the function does", async () => {
    const saw: unknown[] = [];
    bodies["stubborn"] = async ({ signal }) => {
      await sleep(2_000);
      saw.push(signal.aborted, signal.reason);
    };
    const { fiberId } = await start("stubborn", { idempotencyKey: "s" });
    await rig.pass(100);
    const waiting = start("stubborn", { fiberId, waitForCompletion: true });
    expect(await rig.call("w", "ask", "cancelFiberByKey", "s", "no need")).toBe(true);
    expect(await waiting).toMatchObject({ status: "aborted", error: "no need", accepted: false });
    expect(await rig.call("w", "ask", "cancelFiber", fiberId)).toBe(false);
    await rig.pass(3_000);
    expect(saw).toEqual([true, "no need"]);
    expect(await rig.call("w", "ask", "inspectFiber", fiberId)).toMatchObject({
      status: "aborted",
    });
  });

  test("never begins if it is cancelled first", async () => {
    let ran = false;
    bodies["never"] = () => void (ran = true);
    class Hasty extends Worker {
      async hasty() {
        const { fiberId } = await this.start("never");
        await this.cancelFiber(fiberId);
        return fiberId;
      }
    }
    const hasty = await JobRig.make({ Hasty });
    const id = await hasty.call("w", "hasty");
    await hasty.pass(1_000);
    expect(ran).toBe(false);
    expect(await hasty.call("w", "ask", "inspectFiber", id)).toMatchObject({ status: "aborted" });
    expect(await rig.call("w", "ask", "listFibers")).toEqual([]);
  });

  test("takes the outcome that onFiberRecovered returns after an interruption", async () => {
    const results: Record<string, FiberRecoveryResult | undefined> = {
      nothing: undefined,
      completed: { status: "completed", snapshot: { recovered: true }, metadata: { by: "hook" } },
      aborted: { status: "aborted", reason: "too old" },
      error: { status: "error", error: new Error("can't be") },
    };
    recover = ({ name }) => {
      if (name === "throws") throw new Error("broken");
      return results[name];
    };
    for (const name of [...Object.keys(results), "throws"]) {
      bodies[name] = async ({ stash }) => {
        stash({ name });
        await sleep(1_000_000);
      };
      await start(name, { idempotencyKey: name, metadata: { m: 1 } });
    }
    await rig.pass(1_000);
    await kill();
    await rig.pass(ALARM_MS);
    expect(recovered[0]).toMatchObject({
      status: "interrupted",
      idempotencyKey: "nothing",
      metadata: { m: 1 },
      snapshot: { name: "nothing" },
    });
    const all = await rig.call<FiberInspection[]>("w", "ask", "listFibers");
    const byName = new Map(all.map((fiber) => [fiber.name, fiber]));
    expect(byName.get("nothing")).toMatchObject({ status: "interrupted", snapshot: { name: "nothing" } }); // prettier-ignore
    expect(byName.get("completed")).toMatchObject({ status: "completed", snapshot: { recovered: true }, metadata: { by: "hook" } }); // prettier-ignore
    expect(byName.get("aborted")).toMatchObject({ status: "aborted", error: "too old" });
    expect(byName.get("error")).toMatchObject({ status: "error", error: "can't be" });
    expect(byName.get("throws")).toMatchObject({ status: "error", error: "broken" });
    const { fiberId } = byName.get("nothing")!;
    expect(await rig.call("w", "ask", "resolveFiber", fiberId, { status: "completed" })).toBe(true);
    expect(await rig.call("w", "ask", "resolveFiber", fiberId, { status: "aborted" })).toBe(false);
    expect(await rig.call("w", "schedules")).toEqual({ shown: 0, all: 0 });
  });

  test("lists records newest first, by status and name, and deletes ended ones", async () => {
    bodies = {
      fine: () => 1,
      bad: () => Promise.reject(new Error("x")),
      long: () => sleep(1e9),
    };
    for (const name of ["fine", "bad", "fine", "long"]) {
      await start(name);
      await rig.pass(10);
    }
    const list = async (options?: object) =>
      (await rig.call<FiberInspection[]>("w", "ask", "listFibers", options)).map(
        ({ name }) => name,
      );
    expect(await list()).toEqual(["long", "fine", "bad", "fine"]);
    expect(await list({ name: "fine" })).toEqual(["fine", "fine"]);
    expect(await list({ status: ["error", "running"] })).toEqual(["long", "bad"]);
    expect(await list({ limit: 1 })).toEqual(["long"]);
    expect(await rig.call("w", "ask", "deleteFibers", { status: "error" })).toBe(1);
    expect(await rig.call("w", "ask", "deleteFibers", { limit: 1 })).toBe(1);
    expect(await rig.call("w", "ask", "deleteFibers", { status: "running" })).toBe(0);
    expect(await rig.call("w", "ask", "deleteFibers", {})).toBe(1);
    expect(await list()).toEqual(["long"]);
  });
});
