/** `blockConcurrencyWhile` of an agent: blocks that are begun within a block. */
import { expect, test } from "vitest";
import { Agent, callable } from "agents";
import { testAgents } from "agents/testing";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

class Blocking extends Agent {
  heard: string[] = [];

  async guarded(name: string): Promise<string> {
    return this.ctx.blockConcurrencyWhile(async () => {
      this.heard.push(`${name} begins`);
      await sleep(100);
      this.heard.push(`${name} ends`);
      return name;
    });
  }
  /** Calls a helper that guards itself. */
  async nested(): Promise<string> {
    return this.ctx.blockConcurrencyWhile(() => this.guarded("inner"));
  }
  @callable({ durable: true })
  async nestedInStep(): Promise<string> {
    return this.ctx.blockConcurrencyWhile(() => this.step("in", () => this.guarded("inner")));
  }
  async siblings(): Promise<string[]> {
    return this.ctx.blockConcurrencyWhile(() =>
      Promise.all([this.guarded("a"), this.guarded("b")]),
    );
  }
  async detached(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => void this.guarded("inner"));
    this.heard.push("outer ends");
  }
  async after(): Promise<string[]> {
    let later!: Promise<string>;
    await this.ctx.blockConcurrencyWhile(async () => {
      later = sleep(50).then(() => this.guarded("later"));
    });
    await Promise.all([later, this.guarded("next")]);
    return this.heard;
  }
  read(): string[] {
    this.heard.push("read");
    return this.heard;
  }
}

const inTime = { timeout: 10_000 };

test.for(["nested", "nestedInStep"] as const)(
  "%s: a block within a block runs as part of it, and the agent goes on",
  inTime,
  async (method) => {
    await using t = await testAgents({ agents: [Blocking] });
    const agent = t.agent(Blocking, "a");
    const call = agent[method]();
    await t.advance("50 ms");
    const read = agent.read();
    await t.advance("1 second");
    expect(await call).toBe("inner");
    expect(await read).toEqual(["inner begins", "inner ends", "read"]);
  },
);

test("blocks within one block run one after another", async () => {
  await using t = await testAgents({ agents: [Blocking] });
  const agent = t.agent(Blocking, "a");
  const call = agent.siblings();
  await t.advance("1 second");
  expect(await call).toEqual(["a", "b"]);
  expect(await agent.read()).toEqual(["a begins", "a ends", "b begins", "b ends", "read"]);
});

test("a block ends after those that its code began and did not await", async () => {
  await using t = await testAgents({ agents: [Blocking] });
  const agent = t.agent(Blocking, "a");
  const call = agent.detached();
  await t.advance("50 ms");
  const read = agent.read();
  await t.advance("1 second");
  await call;
  expect(await read).toContain("outer ends");
});

test("code of a block that has ended begins blocks like any other code", async () => {
  await using t = await testAgents({ agents: [Blocking] });
  const call = t.agent(Blocking, "a").after();
  await t.advance("1 second");
  expect(await call).toEqual(["next begins", "next ends", "later begins", "later ends"]);
});
