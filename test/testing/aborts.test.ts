/** Requests of agents under test that are aborted, as by `fetch` of a serving process. */
import { afterEach, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";

const seen: string[] = [];

export class AskingAgent extends Agent {
  static override options = { turnSeconds: 10 };

  async ask(how: "own" | "timeout" | "none" | "aborted"): Promise<string> {
    const own = new AbortController();
    if (how === "aborted") own.abort();
    if (how === "own") setTimeout(() => own.abort(), 5_000);
    const signal = how === "timeout" ? AbortSignal.timeout(5_000) : own.signal;
    try {
      const question = { method: "POST", body: "question" };
      const given = how === "none" ? question : { ...question, signal };
      const answer = await fetch("https://model.example/", given);
      return await answer.text();
    } catch (error) {
      seen.push((error as Error).name);
      return (error as Error).name;
    }
  }
}

let open: TestAgents | undefined;
afterEach(async () => {
  seen.length = 0;
  await open?.close();
});

async function start() {
  const asked: AbortSignal[] = [];
  const test = (open = await testAgents({
    agents: [AskingAgent],
    outgoing: ({ signal }) => {
      asked.push(signal);
      return new Promise<Response>(() => undefined);
    },
  }));
  return { agent: test.agent(AskingAgent, "a"), asked, test };
}

it.each([
  ["own", "AbortError"],
  ["timeout", "TimeoutError"],
] as const)("a request with a signal rejects when that aborts: %s", async (how, name) => {
  const { agent, asked, test } = await start();
  const answer = agent.ask(how);
  await test.advance("30 seconds");
  expect(await answer).toBe(name);
  expect(asked.map(({ aborted }) => aborted)).toEqual([true]);
  expect(agent.sends()).toMatchObject([{ method: "POST", body: "question", status: undefined }]);
});

it("a request whose signal has aborted is not sent", async () => {
  const { agent, asked } = await start();
  expect(await agent.ask("aborted")).toBe("AbortError");
  expect(asked).toEqual([]);
});

it("a request of a turn that is given up rejects", async () => {
  const { agent, asked, test } = await start();
  const answer = agent.ask("none").catch((error: Error) => error.message);
  await test.advance("50 seconds");
  expect(await answer).toMatch(/10 s/);
  expect(seen).toEqual(["TurnTimedOut"]);
  expect(asked.map(({ aborted }) => aborted)).toEqual([true]);
});
