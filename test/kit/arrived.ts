/** Waits until the broker has everything that a process has sent. */
import type { BusShape } from "../../core/bus/Bus.ts";

/** A connection is ordered, so the broker answers a request after all that was sent before it. */
export async function arrived(bus: BusShape): Promise<void> {
  const reply = await bus.request("nobody.listens", new Uint8Array(), { timeoutMs: 5_000 });
  if (reply._tag === "TimedOut") throw new Error("the broker does not answer");
}
