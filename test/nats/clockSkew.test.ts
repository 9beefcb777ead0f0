/** The difference between two clocks, from messages of which some arrive late. */
import { expect, it } from "vitest";
import { ClockSkew } from "../../services/nats/ClockSkew.ts";

/** The reported differences, if a message is stored each second and arrives `lateMs(n)` later. */
function toldOf(skewMs: number, lateMs: (n: number) => number, count = 12): number[] {
  const skew = new ClockSkew();
  return Array.from({ length: count }, (_, n) => {
    const arrivedMs = n * 1_000 + lateMs(n);
    return skew.saw(n * 1_000, arrivedMs + skewMs, arrivedMs);
  }).filter((told) => told !== undefined);
}

it("tells nothing while the clocks are the same, however late some messages are", () => {
  expect(toldOf(0, () => 5)).toEqual([]);
  expect(toldOf(0, (n) => (n % 4 === 0 ? 5 : 4_000 - n))).toEqual([]);
});

it("tells by how much this clock is ahead or behind", () => {
  expect(toldOf(300_000, (n) => 5 + n)).toEqual([300_005]);
  expect(toldOf(-300_000, (n) => 5 + n)).toEqual([-299_995]);
});

it("tells each difference once", () => {
  expect(toldOf(300_000, () => 5, 60)).toEqual([300_005]);
});

it("tells nothing of a process that stood still for a minute", () => {
  // Nothing arrives in the first minute, and then all at once.
  expect(toldOf(0, (n) => Math.max(5, 60_000 - n * 1_000), 90)).toEqual([]);
});
