/** The contract of `core/time/Time`, for any adapter. */
import { describe, expect, it } from "vitest";
import type { TimeShape } from "../../core/time/Time.ts";

/** `pass` lets `ms` pass, and returns when everything due by then has run. */
export function timeRules(time: TimeShape, pass: (ms: number) => Promise<void>): void {
  describe("time", () => {
    it("advances both clocks as time passes", async () => {
      const [wall, steady] = [time.nowMs(), time.monotonicMs()];
      await pass(30);
      expect(time.nowMs() - wall).toBeGreaterThanOrEqual(29);
      expect(time.monotonicMs() - steady).toBeGreaterThanOrEqual(29);
    });

    it("runs a timer once, when it is due and not before", async () => {
      const ran: number[] = [];
      const startMs = time.monotonicMs();
      time.after(20, () => ran.push(time.monotonicMs() - startMs));
      expect(ran).toEqual([]);
      await pass(80);
      expect(ran).toHaveLength(1);
      expect(ran[0]).toBeGreaterThanOrEqual(19);
    });

    it("runs timers in the order in which they fall due", async () => {
      const ran: string[] = [];
      let begun: Array<() => void> = [];
      let startMs: number;
      do {
        for (const cancel of begun) cancel();
        startMs = time.monotonicMs();
        begun = [
          time.after(40, () => ran.push("later")),
          time.after(10, () => ran.push("sooner")),
          time.after(0, () => ran.push("now")),
        ];
        // A machine that pauses between two calls makes the first of them due first.
      } while (time.monotonicMs() - startMs > 5);
      await pass(90);
      expect(ran).toEqual(["now", "sooner", "later"]);
    });

    it("never runs a cancelled timer, and cancelling twice has no effect", async () => {
      let ran = false;
      const cancel = time.after(5, () => (ran = true));
      cancel();
      cancel();
      await pass(30);
      expect(ran).toBe(false);
    });

    it("does not run a timer of more than 24 days at once", async () => {
      let ran = false;
      const cancel = time.after(2 ** 31 + 1_000, () => (ran = true));
      await pass(20);
      expect(ran).toBe(false);
      cancel();
    });

    it("makes unique ids of token characters, and random numbers within [0, 1)", () => {
      const ids = Array.from({ length: 1_000 }, () => time.id());
      expect(new Set(ids).size).toBe(ids.length);
      for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{16,}$/);
      for (let n = 0; n < 1_000; n++) {
        const x = time.random();
        expect(x >= 0 && x < 1).toBe(true);
      }
    });
  });
}
