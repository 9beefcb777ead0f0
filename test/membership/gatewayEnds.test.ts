/** A gateway that has stopped leaves nothing behind that keeps its process alive. */
import { expect, test } from "vitest";
import { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import { DeadlineSignals } from "../../services/gateway/DeadlineSignals.ts";

test("deadlines of answered webhooks do not delay the gateway's exit", () => {
  const armed = new Set<() => void>();
  const time = {
    monotonicMs: () => 0,
    after: (_ms: number, f: () => void) => {
      armed.add(f);
      return () => armed.delete(f);
    },
  };
  const timeouts = new TimeoutQueue(time);
  const signals = new DeadlineSignals(time, timeouts);
  const cancelAnswered = timeouts.after(9_500, () => undefined);
  signals.in(3_000);
  cancelAnswered();
  expect(armed.size).toBe(1);
  timeouts.close();
  expect(armed.size).toBe(0);
});
