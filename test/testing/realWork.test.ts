/** Virtual time stands still while code of agents waits for the machine. */
import { scrypt } from "node:crypto";
import { execFile } from "node:child_process";
import { setTimeout as nap } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, expect, it } from "vitest";
import { Agent, callable } from "agents";
import { constant, unsigned, webhook } from "agents/webhooks";
import { testAgents, type TestAgents } from "agents/testing";

const START = "2025-01-01T00:00:00.000Z";
/** Real time, longer than the grace that every turn gets. */
const LONG_MS = 100;

class WorkingAgent extends Agent<{}, { done: number }> {
  override initialState = { done: 0 };

  async hash(): Promise<string> {
    const key = await promisify(scrypt)("password", "salt", 64);
    return typeof key;
  }

  async spawn(): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, ["-p", "6 * 7"]);
    return stdout.trim();
  }

  @callable()
  async work(): Promise<number> {
    for (let part = 0; part < 3; part++) await nap(LONG_MS);
    this.setState({ done: this.state.done + 1 });
    return this.state.done;
  }

  async workWithin(ms: number): Promise<string> {
    const late = new Promise<string>((resolve) => setTimeout(() => resolve("late"), ms));
    return Promise.race([this.work().then(() => "in time"), late]);
  }

  async other(name: string): Promise<number> {
    const { WorkingAgent: others } = this.env as unknown as {
      WorkingAgent: { getByName(name: string): { work(): Promise<number> } };
    };
    return others.getByName(name).work();
  }

  async workLater(): Promise<void> {
    await this.schedule(5, "work");
  }

  watch(): void {
    const watching = setInterval(() => undefined, 1_000);
    void nap(60_000, undefined, { ref: false }).then(() => clearInterval(watching));
  }

  async sleep(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms));
  }

  override async onRequest(): Promise<Response> {
    return new Response(`done ${await this.work()}`);
  }
}

const open: TestAgents[] = [];
async function start(outgoing?: () => Promise<Response>): Promise<TestAgents> {
  const test = await testAgents({
    agents: [WorkingAgent],
    webhooks: [
      webhook("/hook", { agent: WorkingAgent, verify: unsigned({}), entity: constant("a") }),
    ],
    ...(outgoing && { outgoing }),
  });
  open.push(test);
  return test;
}
afterEach(async () => {
  for (const test of open.splice(0)) await test.close();
});

const passedMs = (test: TestAgents): number => test.now.getTime() - Date.parse(START);

it("a stub's call ends although its turn works for longer than the machine's grace", async () => {
  const test = await start();
  const agent = test.agent(WorkingAgent, "a");
  expect(await agent.hash()).toBe("object");
  expect(await agent.spawn()).toBe("42");
  expect(await agent.work()).toBe(1);
  expect(await (await agent.fetch("http://a/")).text()).toBe("done 2");
  expect(await agent.other("b")).toBe(1);
  expect(passedMs(test)).toBeLessThan(2_000);
});

it("a webhook is answered by its turn, before its provider's deadline", async () => {
  const test = await start();
  const answer = await test.webhook("/hook", "{}");
  expect([answer.status, await answer.text()]).toEqual([200, "done 1"]);
});

it("a timeout that the code sets itself does not pass during the work", async () => {
  const test = await start();
  expect(await test.agent(WorkingAgent, "a").workWithin(1_000)).toBe("in time");
});

it("work of a schedule ends within the span in which it is due", async () => {
  const test = await start();
  const agent = test.agent(WorkingAgent, "a");
  await agent.workLater();
  await test.advance("1 day");
  expect(await agent.state()).toEqual({ done: 1 });
  const ends = (await agent.events()).filter(({ cause }) => cause.kind === "schedule");
  expect(ends.map(({ time }) => Date.parse(time) - Date.parse(START))).toEqual([5_000]);
});

it("a sleep takes no real time, also beside work that nothing waits for", async () => {
  const test = await start();
  const agent = test.agent(WorkingAgent, "a");
  await agent.watch();
  const realMs = performance.now();
  for (let n = 0; n < 20; n++) await agent.sleep(40_000);
  expect(performance.now() - realMs).toBeLessThan(20 * 500);
  expect(passedMs(test)).toBeGreaterThanOrEqual(20 * 40_000);
});
