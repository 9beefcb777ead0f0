/** Many short turns at once, of many agents or one: the host's other work runs between them. */
import { beforeAll, expect, test } from "vitest";
import { Agent, getAgentByName, type AgentNamespace } from "agents";
import { path, unsigned, webhook } from "agents/webhooks";
import { AgentWorkflow, type WorkflowEvent, type WorkflowStep } from "agents/workflows";
import { WorkflowRun } from "../../core/runtime/WorkflowRun.ts";
import type { WorkflowClass } from "../../core/workflow/WorkflowEntrypoint.ts";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";

const BURST = 60;
/** So long on any machine. Together they take over a second. */
const TURN_MS = 20;
/** Eight turns begin before the first has run. The watch below may miss a pass. */
const TURNS_A_PASS = 2 * 8;

/** Calls that are under way at once. */
const CALLS = 64;
/** Some 60 to 120 are made while a request waits; without slices 2,000 to 5,000. */
const CALLS_A_REQUEST = 8 * CALLS;

/** Turns that ran in this pass, and in all. */
let ran = 0;
let total = 0;

class Busy extends Agent {
  static override options = { http: "open" } as const;

  override onRequest = () => this.compute();
  onWebhook = () => this.compute();

  private async compute(): Promise<Response> {
    await Promise.resolve();
    const endMs = performance.now() + TURN_MS;
    while (performance.now() < endMs);
    ran++;
    total++;
    return new Response();
  }
}

/** Calls that the caller's code has made, and whether it makes more. */
let calls = 0;
let goesOn = false;

class Called extends Agent<{}, { readonly count: number }> {
  static override options = { http: "open" } as const;

  override initialState = { count: 0 };

  read(): number {
    return this.state.count;
  }

  override onRequest = () => new Response();
}

class Caller extends Agent<{ readonly Called: AgentNamespace<Called> }> {
  static override options = { http: "open" } as const;

  override async onRequest(): Promise<Response> {
    const called = await getAgentByName(this.env.Called, "called");
    const call = async (): Promise<void> => {
      for (; goesOn; calls++) await called.read();
    };
    await Promise.all(Array.from({ length: CALLS }, call));
    return new Response();
  }
}

/** Steps that one workflow begins together; each holds the thread for `STEP_MS`. */
const STEPS = 1_000;
const STEP_MS = 1;
let steps = 0;

class ParallelSteps extends AgentWorkflow {
  override async run(_event: WorkflowEvent<unknown>, step: WorkflowStep): Promise<void> {
    const work = async (): Promise<void> => {
      const endMs = performance.now() + STEP_MS;
      while (performance.now() < endMs);
      steps++;
    };
    await Promise.all(Array.from({ length: STEPS }, (_, n) => step.do(String(n), work)));
  }
}

class Parallel extends WorkflowRun {
  override readonly workflowClass = ParallelSteps as unknown as WorkflowClass;
}

class Starter extends Agent {
  static override options = { http: "open" } as const;

  override onRequest = async () => new Response(await this.runWorkflow("Parallel", {}));
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const to = { agent: Busy, verify: unsigned(), entity: path("name", { trust: true }) };
  const webhooks = [
    webhook("/webhooks/direct/:name", to),
    webhook("/webhooks/stored/:name", { ...to, answer: "stored" }),
  ];
  const agents = { Busy, Called, Caller, Starter, Parallel };
  system = await systems.start({ agents, webhooks }, { shards: 1 });
});

test.each([
  ["requests to many agents", (n: number) => ["GET", `/agents/busy/${n}`]],
  ["requests to one agent", () => ["GET", "/agents/busy/one"]],
  ["webhooks to many agents", (n: number) => ["POST", `/webhooks/direct/${n}`]],
  ["webhooks to one agent", () => ["POST", "/webhooks/direct/one"]],
  ["stored webhooks to many agents", (n: number) => ["POST", `/webhooks/stored/${n}`]],
])("a burst of %s is spread over passes of the event loop", async (_what, requestOf) => {
  const ask = async (n: number): Promise<void> => {
    const [method, target] = requestOf(n);
    expect((await fetch(system.url + target, { method: method! })).ok).toBe(true);
  };
  const askAll = async (): Promise<void> => {
    const before = total;
    await Promise.all(Array.from({ length: BURST }, (_, n) => ask(n)));
    await pollUntil("all have run", () => total >= before + BURST || { done: false, saw: total });
  };
  await askAll();
  let most = (ran = 0);
  const watch = setInterval(() => {
    most = Math.max(most, ran);
    ran = 0;
  }, 0);
  await askAll();
  clearInterval(watch);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(TURNS_A_PASS);
});

test("a neighbour of an agent with many long requests waits for some of them, not for all", async () => {
  const ask = (name: string): Promise<unknown> => fetch(`${system.url}/agents/busy/${name}`);
  await Promise.all([ask("slow"), ask("neighbour")]);
  let answered = 0;
  const slow = Array.from({ length: BURST }, () => ask("slow").then(() => answered++));
  await ask("neighbour");
  // Some have run before its request has arrived.
  expect(answered).toBeLessThan(BURST / 2);
  await Promise.all(slow);
});

test("a neighbour waits for few of the calls that code makes without end", async () => {
  const ask = async (name: string): Promise<void> => {
    expect((await fetch(`${system.url}/agents/${name}`)).ok).toBe(true);
  };
  await ask("called/neighbour");
  goesOn = true;
  const calling = ask("caller/endless");
  const seen: number[] = [];
  for (let n = 0; n < 10; n++) {
    const before = calls;
    await ask("called/neighbour");
    seen.push(calls - before);
  }
  goesOn = false;
  await calling;
  const median = seen.toSorted((a, b) => a - b)[seen.length / 2];
  expect(median).toBeLessThan(CALLS_A_REQUEST);
});

test("a neighbour waits for some of the steps that a workflow begins together, not for all", async () => {
  const ask = async (name: string): Promise<void> => {
    expect((await fetch(`${system.url}/agents/${name}`)).ok).toBe(true);
  };
  await ask("called/neighbour");
  await ask("starter/one");
  await pollUntil("the steps have begun", () => steps > 0 || { done: false, saw: steps });
  await ask("called/neighbour");
  expect(steps).toBeLessThan(STEPS / 2);
  await pollUntil("all have run", () => steps === STEPS || { done: false, saw: steps });
});
