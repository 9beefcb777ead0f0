import { expect, it } from "vitest";
import { pollUntil } from "./poll.ts";

it("a poll ends at the first failed expect, and goes on after any other error", async () => {
  let looks = 0;
  const polled = pollUntil(
    "something",
    () => {
      if (++looks === 1) throw new Error("not there yet");
      expect(looks).toBe("three");
    },
    { timeoutMs: 60_000, intervalMs: 1 },
  );
  await expect(polled).rejects.toThrow("expected 2 to be 'three'");
});
