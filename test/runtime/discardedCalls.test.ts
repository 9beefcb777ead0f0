/** Calls of an agent that is discarded while they run or wait: each is answered soon. */
import { DurableObject } from "cloudflare:workers";
import { expect, test } from "vitest";
import { Agent, callable, withKey, type AgentNamespace } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Env extends Record<string, unknown> {
  readonly Aborting: AgentNamespace<Aborting>;
  readonly Blocked: ObjectNamespace<Blocked>;
}

class Aborting extends Agent<Env, { readonly runs: number }> {
  override initialState = { runs: 0 };

  @callable({ durable: true })
  async slow(): Promise<string> {
    this.setState({ runs: this.state.runs + 1 });
    await sleep(5000);
    return `done in run ${this.state.runs}`;
  }
  async block(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(() => sleep(40_000));
  }
  async abortLater(ms: number): Promise<void> {
    await sleep(ms);
    this.ctx.abort("of the test");
  }
  ping(): string {
    return "pong";
  }
}

class Blocked extends DurableObject {
  async block(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(() => new Promise(() => undefined));
  }
  ping(): string {
    return "pong";
  }
}

/** Calls others, and resolves to the answer, and after which time it came. */
class Caller extends Agent<Env> {
  async keyed(): Promise<unknown> {
    return timed(() => withKey(this.env.Aborting.getByName("a"), "key").slow());
  }
  async aborting(method: "block" | "ping", ...args: []): Promise<unknown> {
    return timed(() => this.env.Aborting.getByName("a")[method](...args));
  }
  async abortLater(ms: number): Promise<unknown> {
    return timed(() => this.env.Aborting.getByName("a").abortLater(ms));
  }
  async blocked(method: "block" | "ping"): Promise<unknown> {
    return timed(async () => this.env.Blocked.getByName("b")[method]());
  }
}

async function timed(f: () => Promise<unknown>): Promise<{ answer: unknown; seconds: number }> {
  const beganMs = Date.now();
  const answer = await f().then((value) => value ?? "done", String);
  return { answer, seconds: Math.round((Date.now() - beganMs) / 1000) };
}

let callers = 0;
const caller = (t: TestAgents) => t.agent(Caller, `c${callers++}`);
const start = () => testAgents({ agents: [Caller, Aborting, Blocked as never] });
/** In steps, between which calls and answers arrive. */
async function pass(t: TestAgents, seconds: number): Promise<void> {
  for (let i = 0; i < seconds * 2; i++) await t.advance("500 ms");
}

/** Ends the installation, and returns how often its host waited for calls in vain. */
async function waitsInVain(t: TestAgents): Promise<number> {
  await pass(t, 1);
  await t.close();
  return t.logs.filter(({ message }) => message.includes("did not end in time")).length;
}

test("a call with a key is repeated, and has the result of the run that follows", async () => {
  await using t = await start();
  const keyed = caller(t).keyed();
  await pass(t, 1);
  void caller(t).abortLater(1000);
  await pass(t, 20);
  const { answer, seconds } = (await keyed) as { answer: unknown; seconds: number };
  expect(answer).toMatch(/^done in run/);
  expect(seconds).toBeLessThan(15);
  expect(await waitsInVain(t)).toBe(0);
});

test("a call that waits for a block begins on the agent's successor", async () => {
  await using t = await start();
  void caller(t).abortLater(2000);
  await pass(t, 0.5);
  const block = caller(t).aborting("block");
  await pass(t, 0.5);
  const ping = caller(t).aborting("ping");
  await pass(t, 5);
  expect(await block).toMatchObject({ answer: "AgentAborted: The agent was aborted: of the test" });
  const { answer, seconds } = (await ping) as { answer: unknown; seconds: number };
  expect([answer, seconds < 5]).toEqual(["pong", true]);
  expect(await waitsInVain(t)).toBe(0);
});

test("calls of an object whose block never ends are answered when it is discarded", async () => {
  await using t = await start();
  const block = caller(t).blocked("block");
  await pass(t, 1);
  const ping = caller(t).blocked("ping");
  await pass(t, 35);
  for (const call of [block, ping]) {
    const { answer, seconds } = (await call) as { answer: string; seconds: number };
    expect(answer).toContain("took longer than 30 s");
    expect(seconds).toBeLessThanOrEqual(31);
  }
  expect(await caller(t).blocked("ping")).toMatchObject({ answer: "pong" });
  expect(await waitsInVain(t)).toBe(0);
});
