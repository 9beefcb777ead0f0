import { expect, test } from "vitest";
import { jsonText, LEVELS_MAX } from "../../core/journal/jsonText.ts";

const nested = (levels: number, inner: unknown = 0): unknown =>
  Array.from({ length: levels }).reduce<unknown>((value) => [value], inner);

test("JSON text may have the maximum depth, and no more", () => {
  expect(jsonText(nested(LEVELS_MAX), "it")).toHaveLength(2 * LEVELS_MAX + 1);
  expect(() => jsonText(nested(LEVELS_MAX + 1), "it")).toThrow(
    new RangeError(
      `it is nested more than ${LEVELS_MAX} levels deep: use lists, or rows that refer to one another`,
    ),
  );
  expect(() => jsonText({ a: nested(LEVELS_MAX) }, "it")).toThrow(RangeError);
});

test("brackets in strings do not count, whatever escapes precede them", () => {
  const brackets = "[{".repeat(LEVELS_MAX);
  for (const value of [brackets, `"${brackets}`, `\\"${brackets}`, `${brackets}\\`, `\\\\${brackets}"`])
    expect(JSON.parse(jsonText([value, { [value]: 1 }], "it")!)).toEqual([value, { [value]: 1 }]);
}); // prettier-ignore

test("closed levels do not count", () => {
  const wide = Array.from({ length: LEVELS_MAX + 1 }, () => nested(3));
  expect(jsonText(wide, "it")).toBe(JSON.stringify(wide));
});

test("a value that JSON omits has no text", () => {
  expect([jsonText(undefined, "it"), jsonText(() => 1, "it")]).toEqual([undefined, undefined]);
});
