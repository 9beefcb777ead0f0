/** A host whose memory is full lets the longest idle go, and nobody while there is room. */
import { afterEach, expect, test } from "vitest";
import { Agent } from "agents";
import { idleLimitMs } from "../../services/host/load/idleLimit.ts";
import { JobRig } from "./JobRig.ts";

class Guest extends Agent<object, { visits: number }> {
  static override options = { hibernateAfterSeconds: 3600 };
  override initialState = { visits: 0 };

  visit(): number {
    this.setState({ visits: this.state.visits + 1 });
    return this.state.visits;
  }
}

class Resident extends Guest {
  static override options = { hibernate: false, hibernateAfterSeconds: 1 };
}

let rig: JobRig;
afterEach(() => rig.kill());

/** Agents that there is memory for. */
const ROOM = 8;
const inUse = (): number => rig.activeAgents / ROOM;

async function invite(agents: Record<string, unknown>, guests: number): Promise<void> {
  rig = await JobRig.make(agents, { memoryInUse: inUse });
  for (let n = 0; n < guests; n++) {
    await rig.call(`guest ${n}`, "visit");
    await rig.pass(1_000);
  }
}

test("with free memory, no agent is evicted early", async () => {
  await invite({ Guest }, 6);
  await rig.sweep();
  expect(rig.activeAgents).toBe(6);
});

test("without, the longest idle are evicted until there is some, and return unchanged", async () => {
  await invite({ Guest }, 20);
  await rig.sweep();
  // Whoever rests longer than the limit of so many has left; the last are still here.
  expect(rig.activeAgents).toBeGreaterThan(2);
  expect(rig.activeAgents).toBeLessThan(ROOM);
  const here = rig.activeAgents;
  expect(await rig.call("guest 19", "visit")).toBe(2);
  expect(rig.activeAgents).toBe(here);
  expect(await rig.call("guest 0", "visit")).toBe(2);
  expect(rig.activeAgents).toBe(here + 1);
});

test("an agent whose class never hibernates stays, and is answered", async () => {
  await invite({ Resident }, 12);
  await rig.sweep();
  expect(rig.activeAgents).toBe(12);
  expect(await rig.call("guest 3", "visit")).toBe(2);
});

test("the idle time falls from half a minute to zero as memory fills", () => {
  expect(
    [0.5, 0.75, 0.8, 0.9, 0.99, 1, 1.4].map((share) => Math.round(idleLimitMs(share))),
  ).toEqual([Infinity, Infinity, 24_000, 12_000, 1_200, 0, 0]);
});
