/** What a gateway leaves behind when it stops: nothing that keeps its process. */
import { expect, test } from "vitest";
import type { TimeShape } from "../../core/time/Time.ts";
import { Deadlines } from "../../services/gateway/Deadlines.ts";

test("deadlines of webhooks that were answered don't outlive the gateway", () => {
  const armed = new Set<() => void>();
  const time: Pick<TimeShape, "monotonicMs" | "after"> = {
    monotonicMs: () => 0,
    after: (_ms, f) => {
      armed.add(f);
      return () => armed.delete(f);
    },
  };
  const deadlines = new Deadlines(time as TimeShape);
  const answered = deadlines.in(9_500).onPassed(() => undefined);
  deadlines.in(3_000);
  answered();
  expect(armed.size).toBe(2);
  deadlines.close();
  expect(armed.size).toBe(0);
});
