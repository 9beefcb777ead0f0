/** Which turn's time counts, from the looks of one hold. */
import { expect, test } from "vitest";
import { judgeLook, type Judged } from "../../services/watchdog/judgeLook.ts";

const SOME = { turn: undefined, where: "agents.ts:1:1" };

/** `sinceMs` after each look, a second apart. A number is a turn, null code of none. */
function sinceEach(looks: ReadonlyArray<number | null | "native">): ReadonlyArray<number> {
  let judged: Judged | undefined;
  return looks.map((look, n) => {
    const code = look === "native" ? undefined : { ...SOME, run: look ?? undefined };
    judged = judgeLook(judged, { code, heldMs: (n + 1) * 1_000 });
    return judged.sinceMs;
  });
}

test("the turn of the first look counts from the begin of the hold", () => {
  expect(sinceEach([1, 1, 1, 1])).toEqual([0, 0, 0, 0]);
});

test("a turn that follows another counts from the look that first found it", () => {
  expect(sinceEach([1, 2, 2, 2])).toEqual([0, 2_000, 2_000, 2_000]);
});

test("of turns that follow each other, none has more than the time since its look", () => {
  expect(sinceEach([1, 2, 3, 4])).toEqual([0, 2_000, 3_000, 4_000]);
  expect(sinceEach([1, 2, 1, 2])).toEqual([0, 2_000, 3_000, 4_000]);
});

test("a look that finds no turn does not interrupt the time of the turn before it", () => {
  expect(sinceEach([1, "native", null, 1])).toEqual([0, 0, 0, 0]);
  expect(sinceEach([1, 2, "native", 2, null])).toEqual([0, 2_000, 2_000, 2_000, 2_000]);
});

test("a turn that is found first after native code counts from the begin", () => {
  expect(sinceEach(["native", null, 1, 1])).toEqual([0, 0, 0, 0]);
});
