/** Results of steps that end after the attempt of their turn: how long they stay in memory. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import type { AgentSteps } from "../../core/step/AgentSteps.ts";
import { runtimeOf } from "../../core/agent/RuntimeContext.ts";

const MIB = 1024 * 1024;

/** Ends the steps of all runs that have begun. */
let release: Array<() => void> = [];
let steps: AgentSteps;

class Late extends Agent {
  static override options = {
    hibernateAfterSeconds: 3_600,
    retry: { maxAttempts: 2, baseDelayMs: 60_000, maxDelayMs: 60_000 },
  };
  override onStart(): void {
    steps = runtimeOf(this.ctx).apis.steps;
  }
  override onError(): void {}

  /** Fails while its steps run. */
  async job({ count, chars }: { count: number; chars: number }): Promise<void> {
    for (let i = 0; i < count; i++) {
      const late = this.step("late", async () => {
        await new Promise<void>((resolve) => release.push(resolve));
        return "x".repeat(chars);
      });
      late.catch(() => undefined);
    }
    await Promise.resolve();
    throw new Error("failed");
  }
  async begin(count: number, chars: number): Promise<void> {
    await this.queue("job", { count, chars });
  }
}

let rig: TestAgents;
beforeEach(async () => {
  release = [];
  rig = await testAgents({ agents: [Late] });
});
afterEach(() => rig.close());

const kept = (): number => steps["running"].size;
const ended = async (): Promise<void> => {
  for (const end of release.splice(0)) end();
  await rig.advance(100);
};

test("stay for the next attempt, and none for a turn that has failed for good", async () => {
  await rig.agent(Late, "a").begin(1, 10);
  await rig.advance(100);
  await ended();
  expect(kept()).toBe(1);
  await rig.advance(60_000);
  expect(release).toEqual([]); // it has joined the step
  expect(kept()).toBe(0);

  await rig.agent(Late, "a").begin(1, 10);
  await rig.advance(61_000);
  await ended();
  expect(kept()).toBe(0);
});

test("are at most as much as one result may have: the oldest are forgotten", async () => {
  await rig.agent(Late, "a").begin(5, 5 * MIB);
  await rig.advance(100);
  await ended();
  expect(kept()).toBe(3);
});
