/** Durations as people write them: one parser for options of agents and for tests. */
import { expect, test } from "vitest";
import { durationMs } from "../../core/time/durationMs.ts";

test.each([
  [0, 0],
  [250, 250],
  ["90 s", 90_000],
  ["3 days", 259_200_000],
  ["1.5h", 5_400_000],
  ["1h 30m", 5_400_000],
  ["2min5sec", 125_000],
  ["1 Week", 604_800_000],
  [" 10ms ", 10],
])("%j is %i ms", (duration, ms) => {
  expect(durationMs(duration, "timeout")).toBe(ms);
});

test.each(["", " ", "5", "h", "1h 30", "1h, 30m", "-1 s", "1.5.5h", "1 fortnight", "2 toString"])(
  "%j is refused",
  (duration) => {
    expect(() => durationMs(duration, "timeout")).toThrow(
      `timeout is ${JSON.stringify(duration)}, which is not a duration`,
    );
  },
);

test.each([-1, Number.NaN, Infinity, null, undefined, {}])("the value %s is refused", (value) => {
  expect(() => durationMs(value, "timeout")).toThrow(`timeout is ${String(value)}, which is not`);
});
