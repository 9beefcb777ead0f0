/** What a caller learns whose deadline passes while the agent's host is alive. */
import { expect, it } from "vitest";
import { Agent, AgentUnreachable } from "agents";
import { testAgents } from "agents/testing";

class SlowAgent extends Agent<{}, { ended: number }> {
  override initialState = { ended: 0 };

  async work(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 75_000));
    this.setState({ ended: this.state.ended + 1 });
  }

  override async onRequest(): Promise<Response> {
    await this.work();
    return new Response("late");
  }
}

it("a caller whose turn takes longer than a minute learns that it may still run", async () => {
  await using test = await testAgents({ agents: [SlowAgent] });
  const agents = ["a", "b", "c", "d"].map((name) => test.agent(SlowAgent, name));
  const [error, fetched, got, posted] = await Promise.all([
    agents[0]!.work().catch((thrown: unknown) => thrown),
    agents[1]!.fetch("http://b/").catch(String),
    test.fetch("/agents/slow-agent/c"),
    test.fetch("/agents/slow-agent/d", { method: "POST" }),
  ]);
  expect(error).toBeInstanceOf(AgentUnreachable);
  expect((error as Error).message).toBe(
    "Agent SlowAgent/a did not answer within 60 s; its turn may still run, or have run",
  );
  expect(fetched).toContain("did not answer within 60 s");
  for (const response of [got, posted])
    expect([response.status, await response.text()]).toEqual([
      504,
      "The agent did not answer in time. Its turn may still be running, and may carry out this request.",
    ]);
  await test.settled();
  for (const agent of agents) expect(await agent.state()).toEqual({ ended: 1 });
});

it("a call that no host takes is not said to run", async () => {
  await using test = await testAgents({ agents: [SlowAgent] });
  await test.crash();
  const response = await test.fetch("/agents/slow-agent/a");
  expect(response.status).toBe(503);
  await test.revive();
});
