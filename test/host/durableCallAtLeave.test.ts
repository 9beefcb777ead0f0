/** A durable call that its agent has stored, and not begun, when it has to leave memory. */
import { afterEach, expect, test } from "vitest";
import { Agent, callable } from "agents";
import { TimeSlices } from "../../core/time/TimeSlices.ts";
import { JobRig } from "../queue/JobRig.ts";
import { makeLatch } from "../system/kit.ts";

let begun = makeLatch();
let open = makeLatch();

class Wallet extends Agent<unknown, { readonly paid: number }> {
  override initialState = { paid: 0 };

  async long(): Promise<void> {
    begun.open();
    await open.opened;
  }
  @callable({ durable: true })
  pay(amount: number): void {
    this.setState({ paid: this.state.paid + amount });
  }
  paid(): number {
    return this.state.paid;
  }
}

let rig: JobRig;
afterEach(() => rig.kill());

test("runs on the next host, and the hand-over does not wait for it", async () => {
  begun = makeLatch();
  open = makeLatch();
  rig = await JobRig.make({ Wallet });
  const long = rig.call("w", "long");
  await begun.opened;
  let isOver = false;
  const gone = rig.shard!.handOver(new TimeSlices(rig.time)).then(() => (isOver = true));
  // The long turn is waited for: its agent begins no more jobs.
  await rig.pass(1_000);
  const pay = expect(rig.call("w", "pay", 5)).rejects.toThrow("its host has just changed");
  await rig.settled();
  open.open();
  await long;
  await rig.pass(1_000);
  expect(isOver).toBe(true);
  await gone;
  await pay;
  await rig.startHost();
  expect(await rig.call("w", "paid")).toBe(5);
});
