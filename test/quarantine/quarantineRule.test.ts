import { describe, expect, it } from "vitest";
import {
  ENDS_MAX,
  INPUTS_MAX,
  isQuarantined,
  judgeEnds,
  nextMark,
  releasedMark,
  type KilledProcess,
} from "../../core/quarantine/quarantineRule.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Whether the last of these ends is too much. */
function over(ends: ReadonlyArray<KilledProcess>): boolean {
  let before: ReadonlyArray<KilledProcess> = [];
  let last = false;
  for (const end of ends) ({ ends: before, over: last } = judgeEnds(before, end));
  return last;
}
const endsOf = (inputs: ReadonlyArray<string>, everyMs = 1_000): KilledProcess[] =>
  inputs.map((input, n) => ({ input, atMs: n * everyMs }));

describe("an agent is quarantined", () => {
  it("when different inputs have ended its process, not when one or two have", () => {
    expect(over(endsOf(["a", "a", "a", "b", "b", "b"]))).toBe(false);
    expect(over(endsOf(["a", "b", "c"]))).toBe(true);
    expect(INPUTS_MAX).toBe(3);
  });

  it("when one input with many attempts has ended its process many times", () => {
    const same = Array.from({ length: ENDS_MAX }, () => "a");
    expect(over(endsOf(same.slice(1)))).toBe(false);
    expect(over(endsOf(same))).toBe(true);
  });

  it("unless the ends are long past", () => {
    expect(over(endsOf(["a", "b", "c"], 5 * MINUTE))).toBe(true);
    expect(over(endsOf(["a", "b", "c"], 5 * MINUTE + 1))).toBe(false);
  });
});

describe("an agent stays quarantined", () => {
  const why = { kind: "kills", reason: "r", host: "h", version: "1" } as const;

  it("longer each time, up to a day; from the start again after a day without, and after a release", () => {
    const first = nextMark(undefined, why, 0);
    expect(first).toEqual({ ...why, sinceMs: 0, untilMs: 10 * MINUTE, times: 1 });
    const second = nextMark(first, why, 11 * MINUTE);
    expect([second.times, second.untilMs - second.sinceMs]).toEqual([2, 20 * MINUTE]);
    const ninth = nextMark({ ...second, times: 8 }, why, HOUR);
    expect(ninth.untilMs - ninth.sinceMs).toBe(24 * HOUR);
    expect(nextMark(second, why, second.untilMs + 24 * HOUR).times).toBe(1);
    expect(nextMark(releasedMark(second, 12 * MINUTE), why, 13 * MINUTE).times).toBe(1);
  });

  it("until its time is over, it is released, or other code runs", () => {
    const mark = nextMark(undefined, why, 0);
    expect(isQuarantined(mark, 1, "1")).toBe(true);
    expect(isQuarantined(mark, mark.untilMs, "1")).toBe(false);
    expect(isQuarantined(mark, 1, "2")).toBe(false);
    expect(isQuarantined(mark, 1, undefined)).toBe(true);
    expect(isQuarantined(releasedMark(mark, 1), 1, "1")).toBe(false);
  });
});
