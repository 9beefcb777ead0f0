/** The record of a fiber and its run, in odd moments, in virtual time. */
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  Agent,
  type FiberContext,
  type FiberRecoveryContext,
  type StartFiberOptions,
} from "agents";
import { checkAnswer } from "../../core/approval/checkAnswer.ts";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch } from "../system/kit.ts";

type Latch = ReturnType<typeof makeLatch>;

/** What a fiber of each name does; others wait until the test ends. */
let bodies: Record<string, (agent: Worker, context: FiberContext) => Promise<unknown>> = {};
let recover: (agent: Worker, context: FiberRecoveryContext) => Promise<void> = async () =>
  undefined;
let recovered: string[] = [];
let never: Latch;
let slow: Latch;

class Worker extends Agent {
  async start(name: string, options: StartFiberOptions = {}) {
    const body = bodies[name] ?? (() => never.opened);
    return this.startFiber(name, (context) => body(this, context), options);
  }
  async startLost() {
    return this.start("work", { metadata: { seen: new Set(["a"]) } }).then(String, String);
  }
  async cancel(fiberId: string) {
    return this.cancelFiber(fiberId, "no need");
  }
  async inspect(fiberId: string) {
    return this.inspectFiber(fiberId);
  }
  async forget() {
    return this.deleteFibers({ status: "aborted" });
  }
  async steps() {
    return this.sql<{ result: string }>`SELECT result FROM cf_agents_fiber_steps WHERE key <> ''`;
  }
  async startRolledBack(fiberId: string) {
    try {
      this.ctx.storage.transactionSync(() => {
        void this.start("work", { fiberId });
        throw new Error("rolled back");
      });
    } catch {
      // The turn continues.
    }
  }
  async runRolledBack(name: string) {
    const runs: Promise<unknown>[] = [];
    try {
      this.ctx.storage.transactionSync(() => {
        runs.push(this.runFiber(name, (context) => bodies[name]!(this, context)));
        throw new Error("rolled back");
      });
    } catch {
      // The turn continues.
    }
    return runs[0]!.then(String, String);
  }
  async enqueue() {
    await this.queue("job");
  }
  async job() {
    await this.start("work");
    await this.step("slow", () => slow.opened);
  }
  override async onFiberRecovered(context: FiberRecoveryContext) {
    recovered.push(context.id);
    await recover(this, context);
  }
}

let test: TestAgents;
beforeEach(async () => {
  [bodies, recover, recovered] = [{}, async () => undefined, []];
  [never, slow] = [makeLatch(), makeLatch()];
  test = await testAgents({ agents: [Worker] });
});
afterEach(async () => {
  never.open();
  await test.close();
});

const agent = () => test.agent(Worker, "a");
async function crash(): Promise<void> {
  await test.crash();
  await test.revive();
}

it("a fiber keeps its record, stash and steps when a cancelled one of its id goes on and ends", async () => {
  const gate = makeLatch();
  const ends: string[] = [];
  let runs = 0;
  bodies["sync"] = async (worker, { stash }) => {
    const run = ++runs;
    stash({ run });
    await worker.step("one", () => run);
    await (run === 1 ? gate : never).opened;
    stash({ run, late: true });
    ends.push(await worker.step("two", () => run).then(String, String));
  };
  await agent().start("sync", { fiberId: "f" });
  await test.settled();
  expect(await agent().steps()).toEqual([{ result: "1" }]);
  expect(await agent().cancel("f")).toBe(true);
  expect(await agent().steps()).toEqual([]);
  expect(await agent().forget()).toBe(1);
  expect(await agent().start("sync", { fiberId: "f" })).toMatchObject({ accepted: true });
  await test.settled();
  gate.open();
  await test.settled();
  expect(ends).toEqual([expect.stringContaining('step "two": its turn')]);
  expect(await agent().steps()).toEqual([{ result: "2" }]);
  expect(await agent().inspect("f")).toMatchObject({ status: "running", snapshot: { run: 2 } });
  // It is still owed: a host's death interrupts it.
  await crash();
  await test.advance("1 min");
  expect(recovered).toEqual(["f"]);
});

it("a step that is about to begin when its fiber is cancelled gets a fired signal", async () => {
  const seen: unknown[] = [];
  bodies["hasty"] = async (worker, { id }) => {
    const step = worker.step("one", ({ signal }) => seen.push(signal.reason));
    await worker.cancel(id);
    await step.catch((error: unknown) => seen.push(error));
  };
  await agent().start("hasty");
  await test.settled();
  expect(seen).toEqual(["no need"]);
});

it("a fiber that is cancelled while another one is recovered stays cancelled", async () => {
  const gate = makeLatch();
  bodies["second"] = async (worker) => {
    await worker.step("one", () => 1);
    await never.opened;
  };
  await agent().start("first", { fiberId: "1" });
  await test.advance(1_000);
  await agent().start("second", { fiberId: "2" });
  await test.settled();
  recover = () => gate.opened;
  await crash();
  await test.advance("1 min");
  expect(recovered).toEqual(["1"]);
  expect(await agent().cancel("2")).toBe(true);
  expect(await agent().steps()).toEqual([]);
  gate.open();
  await test.advance("1 min");
  expect(recovered).toEqual(["1"]);
  expect(await agent().inspect("2")).toMatchObject({ status: "aborted", error: "no need" });
});

it("of several fibers that a recovery begins, only the first inherits stash and metadata", async () => {
  bodies["work"] = async (_worker, { stash }) => {
    stash({ at: 1 });
    await never.opened;
  };
  await agent().start("work", { metadata: { m: 1 } });
  await test.settled();
  recover = async (worker) => {
    await worker.start("next", { fiberId: "1" });
    await worker.start("next", { fiberId: "2" });
  };
  await crash();
  await test.advance("1 min");
  expect(await agent().inspect("1")).toMatchObject({ snapshot: { at: 1 }, metadata: { m: 1 } });
  const second = await agent().inspect("2");
  expect(second).toMatchObject({ status: "running" });
  expect(second).not.toHaveProperty("snapshot");
  expect(second).not.toHaveProperty("metadata");
});

it("a fiber whose row was rolled back does not run, and its id is free", async () => {
  let runs = 0;
  bodies["work"] = async () => void runs++;
  await agent().startRolledBack("f");
  await test.advance("1 min");
  expect(runs).toBe(0);
  expect(await agent().inspect("f")).toBeNull();
  expect(await agent().start("work", { fiberId: "f" })).toMatchObject({ accepted: true });
  await test.settled();
  expect(runs).toBe(1);
});

it("a fiber does not begin while a step of its turn runs, and runs once if the host dies there", async () => {
  let runs = 0;
  bodies["work"] = async () => void runs++;
  await agent().enqueue();
  await test.advance("1 min");
  expect(runs).toBe(0);
  await test.crash();
  slow.open();
  await test.revive();
  await test.advance("1 min");
  expect(runs).toBe(1);
  expect(recovered).toEqual([]);
});

it.each(["fiberId", "idempotencyKey"])("a %s that SQLite can't store is refused", async (key) => {
  await expect(agent().start("work", { [key]: "job caf\ud83d" })).rejects.toThrow(
    `${key} must not contain an unpaired surrogate`,
  );
});

it("a function does not run if the transaction that its runFiber was called in is undone", async () => {
  const run: string[] = [];
  bodies["work"] = async () => run.push("ran");
  expect(await agent().runRolledBack("work")).toContain(
    'runFiber("work", …): the transaction that it was called in is undone',
  );
  expect(run).toEqual([]);
});

it("metadata that JSON would lose is refused, with its place: of fibers and of decisions", async () => {
  const why = ": .seen is a Set, which JSON can't represent";
  expect(await agent().startLost()).toBe(`TypeError: the metadata of the fiber "work"${why}`);
  const decision = { approved: true, metadata: { seen: new Set(["a"]) } };
  expect(() => checkAnswer(decision)).toThrow(`the metadata of a decision${why}`);
});

it("has an id and a key that are text: a number is refused, and no key is none", async () => {
  for (const option of ["fiberId", "idempotencyKey"])
    await expect(agent().start("work", { [option]: 5 })).rejects.toThrow(
      `startFiber: ${option} must be text, not number`,
    );
  expect(await agent().start("work", { idempotencyKey: null as never })).toMatchObject({
    accepted: true,
  });
});
