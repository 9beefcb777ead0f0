/** Whose short holds add up to so much that the watchdog looks into each of them. */
import { expect, test } from "vitest";
import { HeavyHolders } from "../../services/watchdog/HeavyHolders.ts";

const agent = (name: string) => ({ class: "Repo", name });

test("an agent is heavy from ten seconds of a minute on, and no longer than that minute", () => {
  const heavy = new HeavyHolders();
  for (let n = 0; n < 19; n++) heavy.note(agent("busy"), 500, n * 1_000);
  expect(heavy.isHeavy(agent("busy"), 19_000)).toBe(false);
  heavy.note(agent("busy"), 500, 19_000);
  expect(heavy.isHeavy(agent("busy"), 19_000)).toBe(true);
  expect(heavy.isHeavy(agent("busy"), 60_000)).toBe(true);
  expect(heavy.isHeavy(agent("busy"), 60_001)).toBe(false);
});

test("holds of other agents do not count, nor those of a class with the same names", () => {
  const heavy = new HeavyHolders();
  for (let n = 0; n < 40; n++) heavy.note(agent(`one of ${n % 20}`), 500, n * 500);
  expect(heavy.isHeavy(agent("one of 1"), 20_000)).toBe(false);
  for (let n = 0; n < 20; n++) heavy.note(agent("busy"), 500, 20_000);
  expect(heavy.isHeavy(agent("busy"), 20_000)).toBe(true);
  expect(heavy.isHeavy({ class: "Team", name: "busy" }, 20_000)).toBe(false);
});
