/** Steps of fibers: a recovery has the results of steps that were done, and the keys of others. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, type FetchOptions, type FiberRecoveryContext } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch } from "../system/kit.ts";
import { StepCalls } from "../step/StepCalls.ts";

type Work = (agent: Worker, step: (name: string) => Promise<string>) => Promise<unknown>;

/** Set by each test: what the fiber does, how often each step's function ran, by which keys. */
let work: Work = async () => undefined;
let goesOn = true;
let { calls, keys, latches, run: runStep } = new StepCalls();
let asked: Request[] = [];

class Worker extends Agent<{}, { told: ReadonlyArray<unknown> }> {
  static override options = { retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 10 } };
  override initialState = { told: [] as ReadonlyArray<unknown> };

  async begin(fiberId: string): Promise<void> {
    await this.startFiber("work", () => this.go(), { fiberId });
  }
  override async onFiberRecovered({ name }: FiberRecoveryContext): Promise<void> {
    if (goesOn) await this.startFiber(name, () => this.go());
  }
  async cancel(fiberId: string): Promise<boolean> {
    return this.cancelFiber(fiberId);
  }
  async forget(): Promise<void> {
    this.deleteFibers({ status: ["completed", "interrupted"] });
  }
  async kept(): Promise<number> {
    return this.sql`SELECT * FROM cf_agents_fiber_steps`.length;
  }
  async textOf(path: string, init?: FetchOptions): Promise<string> {
    return (await this.fetch(`https://api.example.com${path}`, init)).text();
  }

  private async go(): Promise<void> {
    const told = await work(this, (name) => this.step(name, (step) => runStep(name, step)));
    this.setState({ told: [...this.state.told, told] });
  }
}

let test: TestAgents;
beforeEach(async () => {
  [work, goesOn, asked] = [async () => undefined, true, []];
  ({ calls, keys, latches, run: runStep } = new StepCalls());
  test = await testAgents({
    agents: [Worker],
    outgoing: async (request) => {
      asked.push(request.clone());
      return new Response(`answer ${asked.length}`);
    },
  });
});
afterEach(() => test.close());

const agent = () => test.agent(Worker, "a");
const told = async (): Promise<unknown> => (await agent().state())?.told;
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await test.advance(1);
}
/** The host dies while the function of that step runs. */
async function crashIn(step: string): Promise<void> {
  latches[step] = makeLatch();
  await agent().begin("f");
  await until(() => calls.includes(step));
  await test.crash();
  delete latches[step];
  await test.revive();
  await agent().kept();
  await test.settled();
}

describe("a step of a fiber", () => {
  it("with a result is not run again by the successor, which gets the stored result", async () => {
    work = async (_worker, step) => [await step("one"), await step("one"), await step("two")];
    await crashIn("two");
    expect(await told()).toEqual([["one 1", "one 2", "two 2"]]);
    expect(calls).toEqual(["one", "one", "two", "two"]);
  });

  it("has one idempotency key in all runs, shared with no other step or fiber", async () => {
    work = async (_worker, step) => [await step("one"), await step("two")];
    await crashIn("one");
    expect(calls).toEqual(["one", "one", "two"]);
    expect(keys[0]).toBe(keys[1]);
    // The id of a fiber may be used again: that is other work.
    await agent().forget();
    await agent().begin("f");
    await test.settled();
    expect(calls).toHaveLength(5);
    expect(new Set(keys).size).toBe(4);
  });

  it("keeps its result until the fiber ends, however it ends", async () => {
    work = async (_worker, step) => [await step("one")];
    await agent().begin("done");
    await test.settled();
    expect(await agent().kept()).toBe(0);
    work = async (_worker, step) => {
      await step("one");
      throw new Error("it fails");
    };
    await agent().begin("failed");
    await test.settled();
    expect(await agent().kept()).toBe(0);
    work = async (_worker, step) => [await step("one"), await step("two")];
    goesOn = false;
    await crashIn("two");
    expect(await agent().kept()).toBe(0);
  });

  it("is retried by its policy, and can start other steps under any names", async () => {
    let attempts = 0;
    const names = ["a>1:b", "'; --", "__proto__", "\u0000\n", "\ud800", "\ud801"];
    work = async (worker, step) => {
      const results: unknown[] = [];
      for (const name of names)
        results.push(await worker.step(name, async () => worker.step("b", () => name)));
      const tried = await worker.step("tried", () => {
        if (++attempts < 3) throw new Error("not yet");
      });
      return [results, tried, await step("last")];
    };
    await crashIn("last");
    expect(await told()).toEqual([[names, null, "last 2"]]);
    expect(attempts).toBe(3);
  });

  it("can't write, and must return JSON", async () => {
    const failureOf = async (f: () => Promise<unknown>): Promise<string> =>
      f().then(String, String);
    work = async (worker) => [
      await failureOf(() => worker.step("writes", () => worker.setState({ told: [] }))),
      await failureOf(() => worker.step("no JSON", () => new Map())),
    ];
    await agent().begin("f");
    await test.settled();
    expect(await told()).toEqual([
      [
        expect.stringContaining('step "writes": the function of a step can\'t write'),
        expect.stringContaining('the result of step "no JSON"'),
      ],
    ]);
  });

  it("is refused after its fiber has ended", async () => {
    const ended = makeLatch();
    let late: Promise<unknown> = Promise.resolve();
    work = async (_worker, step) => {
      late = ended.opened.then(() => step("late")).catch(String);
    };
    await agent().begin("f");
    await test.settled();
    ended.open();
    expect(await late).toContain('step "late": its turn');
    expect(calls).toEqual([]);
  });

  it("that is running when its fiber is cancelled is aborted, and leaves nothing", async () => {
    let aborted = false;
    work = async (worker) =>
      worker.step("long", async ({ signal }) => {
        calls.push("long");
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        aborted = signal.aborted;
      });
    await agent().begin("f");
    await until(() => calls.includes("long"));
    expect(await agent().cancel("f")).toBe(true);
    await test.settled();
    expect(aborted).toBe(true);
    expect(await agent().kept()).toBe(0);
  });
});

it("this.fetch in a fiber is a step, and does not store the request", async () => {
  work = async (worker, step) => [
    await worker.textOf("/pay", { method: "POST" }),
    await worker.textOf("/pay", { record: true }).catch(String),
    await step("last"),
  ];
  await crashIn("last");
  expect(await told()).toEqual([
    ["answer 1", expect.stringContaining("which runs no fibers: leave it out"), "last 2"],
  ]);
  expect(asked).toHaveLength(1);
  expect(asked[0]!.headers.get("idempotency-key")).toMatch(/^Worker\/a\/fiber%20.*\/1%3APOST/);
});
