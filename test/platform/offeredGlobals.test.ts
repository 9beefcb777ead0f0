/** Globals of the reference's platform, in the code of agents that use them. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";

declare const scheduler: { wait(ms: number, options?: { signal?: AbortSignal }): Promise<void> };
const { subtle } = globalThis.crypto as unknown as {
  readonly subtle: { timingSafeEqual(a: ArrayBufferView, b: ArrayBufferView): boolean };
};

class Caller extends Agent {
  compare(given: string) {
    const bytes = (text: string) => new TextEncoder().encode(text);
    return subtle.timingSafeEqual(bytes("sha256=a1"), bytes(given));
  }

  async pause() {
    const started = Date.now();
    await scheduler.wait(20_000);
    return Date.now() - started;
  }

  async give(): Promise<unknown> {
    const pause = scheduler.wait(20_000, { signal: AbortSignal.abort(new Error("enough")) });
    return pause.catch((error: Error) => error.message);
  }
}

let agents: TestAgents;
beforeAll(async () => {
  agents = await testAgents({ agents: [Caller] });
});
afterAll(() => agents.close());

it("crypto.subtle.timingSafeEqual compares bytes", async () => {
  const caller = agents.agent(Caller, "a");
  expect(await caller.compare("sha256=a1")).toBe(true);
  expect(await caller.compare("sha256=a2")).toBe(false);
  await expect(caller.compare("short")).rejects.toThrow(/byte length/);
});

it("scheduler.wait waits, in the test's time as well, and ends with its signal", async () => {
  const caller = agents.agent(Caller, "b");
  const paused = caller.pause();
  await agents.advance("20 seconds");
  expect(await paused).toBe(20_000);
  expect(await caller.give()).toBe("enough");
});
