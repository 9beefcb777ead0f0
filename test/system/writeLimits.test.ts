/** How much one agent may write: the rules alone, with a clock and options, without an agent. */
import { describe, expect, test } from "vitest";
import type { Turn } from "../../core/turn/Turn.ts";
import { WRITE_LIMITS_DEFAULT, WriteLimits } from "../../core/turn/WriteLimits.ts";

const call = { durable: false } as Turn;
const webhook = { durable: true } as Turn;
const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };

describe("a state", () => {
  test("is measured in UTF-8 bytes, and may be exactly the limit", () => {
    const limits = new WriteLimits(clock, { stateBytesMax: 6 });
    for (const text of ["123456", "żół", '"€"', undefined])
      expect(() => limits.checkState(call, text)).not.toThrow();
    for (const text of ["1234567", "żółw", '"€€"'])
      expect(() => limits.checkState(call, text)).toThrow("the limit is 6 bytes (stateBytesMax");
  });
});

describe("an agent's journal", () => {
  const options = { journalBytesPerMinute: 60_000, commitBytesMax: 500 };

  test("accepts a minute's amount at once, and then a second's amount each second", () => {
    const limits = new WriteLimits(clock, options);
    limits.committed(60_500);
    expect(() => limits.checkState(call, "{}")).toThrow(/Try again in 1 s$/);
    expect(limits.uncommittedMax(call)).toBe(0);
    expect(limits.sqlRefusal(call)).toMatchObject({
      _tag: "JournalRateExceeded",
      retryAfterMs: 501,
    });
    clock.nowMs += 501;
    expect(() => limits.checkState(call, "{}")).not.toThrow();
    expect(limits.uncommittedMax(call)).toBe(500);
    expect(limits.sqlRefusal(call)).toMatchObject({ _tag: "CommitTooLarge", bytesMax: 500 });
    // Never more than a minute's worth, however long it rested.
    clock.nowMs += 3_600_000;
    limits.committed(60_001);
    expect(limits.uncommittedMax(call)).toBe(0);
  });

  test("counts stored inputs, webhooks and jobs, without refusing them", () => {
    const limits = new WriteLimits(clock, options);
    limits.committed(1_000_000);
    expect(() => limits.checkState(webhook, "{}")).not.toThrow();
    expect(limits.uncommittedMax(webhook)).toBe(500);
    expect(limits.uncommittedMax(call)).toBe(0);
  });
});

describe("options", () => {
  test("are the class's, or the default, and never more than the host's", () => {
    const max = (own?: number, cap?: number) =>
      new WriteLimits(clock, { commitBytesMax: own }, { commitBytesMax: cap }).uncommittedMax(call);
    expect(max()).toBe(WRITE_LIMITS_DEFAULT.commitBytesMax);
    expect(max(5)).toBe(5);
    expect(max(5, 3)).toBe(3);
    expect(max(5, 9)).toBe(5);
    expect(max(2 ** 40)).toBe(2 ** 40);
    expect(max(undefined, 3)).toBe(3);
  });

  test.each([0, -1, Number.NaN, "16 MiB"])("of %s are rejected by name", (value) => {
    expect(() => new WriteLimits(clock, { stateBytesMax: value as number })).toThrow(
      `static options.stateBytesMax: ${value} is not a number of bytes`,
    );
  });
});
