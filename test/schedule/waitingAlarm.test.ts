/** An alarm that was delivered, and waits for its slice because the host is busy. */
import { afterEach, expect, test, vi } from "vitest";
import { Agent } from "agents";
import { slicesOf } from "../../core/time/TimeSlices.ts";
import { JobRig } from "../queue/JobRig.ts";

class Sleeper extends Agent<unknown, { readonly rings: number }> {
  static override options = { hibernateAfterSeconds: 1 };
  override initialState = { rings: 0 };

  async sleep(): Promise<void> {
    await this.schedule(5, "ring");
  }
  ring(): void {
    this.setState({ rings: this.state.rings + 1 });
  }
  rings(): number {
    return this.state.rings;
  }
}

let rig: JobRig;
afterEach(() => rig.kill());

test("keeps its agent in memory, and rings", async () => {
  rig = await JobRig.make({ Sleeper });
  await rig.call("s", "sleep");
  const slices = vi.spyOn(slicesOf(rig.time), "run");
  const waiting: Array<() => void> = [];
  slices.mockImplementation((f) => void waiting.push(f));
  await rig.pass(20_000);
  // The timer of the process, and the broker's.
  expect(waiting).toHaveLength(2);
  await rig.sweep();
  slices.mockRestore();
  for (const begin of waiting) begin();
  await rig.settled();
  expect(await rig.call("s", "rings")).toBe(1);
  await rig.pass(2_000);
  await rig.sweep();
  expect(rig.activeAgents).toBe(0);
});
