import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import { describeLine } from "../../services/cli/commands/history.ts";

class Planner extends Agent {
  async enqueue() {
    await this.queue("work", 1);
  }
  async plan() {
    await this.schedule(3600, "work");
  }
  async cancel() {
    for (const { id } of await this.listSchedules()) await this.cancelSchedule(id);
  }
  async tell() {
    await this.sendWebhook("https://hooks.example.com/", {});
  }
  async end() {
    await this.destroy();
  }
  work() {}
  override async onRequest() {
    await this.queue("work", 2);
    return new Response("queued");
  }
}

test("a turn that makes or cancels jobs, and writes nothing else, is in the history", async () => {
  await using installation = await testAgents({ module: { Planner } });
  const agent = installation.agent(Planner, "p");
  for (const method of ["enqueue", "plan", "cancel", "tell"] as const) await agent[method]();
  await agent.fetch("http://agent/");
  const shown = (await agent.events())
    .filter(({ cause }) => cause.kind !== "queue")
    .map(({ cause, queue, schedules }) => [
      `${cause.kind} ${cause.type ?? ""}`.trim(),
      ...(queue === undefined ? [] : ["queue"]),
      ...(schedules === undefined ? [] : ["schedules"]),
    ]);
  expect(shown).toEqual([
    ["rpc enqueue", "queue"],
    ["rpc plan", "schedules"],
    ["rpc cancel", "schedules"],
    ["rpc tell", "queue"],
    ["request", "queue"],
  ]);
});

test("a turn that destroys its agent says so", async () => {
  await using installation = await testAgents({ module: { Planner } });
  const agent = installation.agent(Planner, "p");
  await agent.enqueue();
  await agent.end();
  const lines = await agent.events();
  expect(lines.map(({ destroyed = false }) => destroyed).indexOf(true)).toBe(lines.length - 1);
  expect(lines.at(-1)).toMatchObject({ cause: { kind: "rpc", type: "end" } });
  expect(describeLine(lines.at(-1)!)).toContain(
    "\n    destroyed: state, SQL, schedules and queue were removed",
  );
});
