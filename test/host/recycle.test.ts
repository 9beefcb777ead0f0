/** An agent that leaves memory on request, while something of it begins. */
import { expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { CommitRig } from "../faults/CommitRig.ts";

/** An agent in memory, whose requests are answered once the test says so. */
async function waiting() {
  const seen = { runs: 0, instances: 0, end: (): void => undefined };
  class Waiting extends Agent<unknown> {
    override onStart(): void {
      seen.instances++;
    }
    override async onRequest(): Promise<Response> {
      if (++seen.runs > 1) await new Promise<void>((resolve) => (seen.end = resolve));
      return new Response("done");
    }
  }
  const rig = await CommitRig.make(Waiting as AgentClassType);
  await rig.deliver(1);
  await rig.settled();
  rig.left.length = 0;
  return { rig, seen };
}

test("new code waits for a turn that begins as the agent is found idle", async () => {
  const { rig, seen } = await waiting();
  const recycling = rig.slot.recycle();
  await rig.deliver(2);
  expect(seen.runs).toBe(2);
  expect(rig.slot.agent).toBeDefined();
  seen.end();
  await rig.pass(100);
  await recycling;
  expect(rig.left).toEqual(["ack 2", "answer 2 200"]);
  expect(rig.slot.agent).toBeUndefined();
  expect(seen.runs).toBe(2);
});
