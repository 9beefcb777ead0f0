import { expect, test } from "vitest";
import { assertWireValue } from "../../core/call/wireValue.ts";
import { jsonText, writtenJson } from "../../core/journal/jsonText.ts";
import { LEVELS_MAX } from "../../core/journal/walkJson.ts";

const nested = (levels: number, inner: unknown = 0): unknown =>
  Array.from({ length: levels }).reduce<unknown>((value) => [value], inner);

const tooDeep = new RangeError(
  `it is nested more than ${LEVELS_MAX} levels deep: use lists, or rows that refer to one another`,
);

test("JSON text may have the maximum depth, and no more", () => {
  expect(jsonText(nested(LEVELS_MAX), "it")).toHaveLength(2 * LEVELS_MAX + 1);
  expect(() => jsonText(nested(LEVELS_MAX + 1), "it")).toThrow(tooDeep);
  expect(() => jsonText({ a: nested(LEVELS_MAX) }, "it")).toThrow(RangeError);
});

test("a value of more levels than the stack of older releases of Node has is too deep", () => {
  const deep = nested(100_000);
  expect(() => jsonText(deep, "it")).toThrow(tooDeep);
  const written = () => writtenJson(deep, "it");
  if (isWritten(deep)) expect(written()).toHaveLength(200_001);
  else expect(written).toThrow(tooDeep);
});

function isWritten(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

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

/** What an author writes who takes an id for an index. */
const withHoles = (): unknown[] => {
  const list: unknown[] = [];
  list[4_000_000_000] = 1;
  return list;
};

test.each<[string, unknown, string]>([
  ["a big integer", { pr: [0, { id: 1n }] }, "it: .pr[1].id is a bigint, which JSON can't represent"],
  ["a throwing getter", { a: { get b() { throw new Error("closed"); } } }, "it: .a.b: closed"],
  ["a throwing toJSON", [{ toJSON: () => { throw new Error("closed"); } }], "it: [0]: closed"],
  ["an array of holes", { a: withHoles() }, "it: .a is an array that is mostly holes, which JSON can't represent"],
])("the error of %s names the value and the place", (_, value, message) => {
  expect(() => jsonText(value, "it")).toThrow(expect.objectContaining({ message }));
  expect(() => writtenJson(value, "it")).toThrow(expect.objectContaining({ message }));
}); // prettier-ignore

test("a Map, a Set or a Promise, which JSON writes as {}, is refused with its place", () => {
  const error = (place: string) => new TypeError(`it${place}, which JSON can't represent`);
  expect(() => jsonText({ seen: [1, new Set(["a"])] }, "it")).toThrow(error(": .seen[1] is a Set"));
  expect(() => jsonText({ f() {}, a: {}, m: new Map() }, "it")).toThrow(error(": .m is a Map"));
  expect(() => jsonText(new Map(), "it")).toThrow(error(" is a Map"));
  expect(() => jsonText({ p: Promise.resolve() }, "it")).toThrow(
    error(": .p is a Promise that is not awaited"),
  );
  const own = Object.assign(new Set(["a"]), { toJSON: () => ({}) });
  const kept = { a: {}, own, error: new Error("lost"), text: "{}", no: undefined };
  expect(jsonText(kept, "it")).toBe('{"a":{},"own":{},"error":{},"text":"{}"}');
});

test("the error of a cycle names its place, and a value twice beside itself is none", () => {
  const one: Record<string, unknown> = { twice: [] };
  expect(jsonText([one, one], "it")).toBe('[{"twice":[]},{"twice":[]}]');
  one["list"] = [{ back: one }];
  const message = "it: .list[0].back is part of itself, which JSON can't represent";
  expect(() => jsonText(one, "it")).toThrow(new TypeError(message));
});

test("an array of billions of holes between agents is refused without visiting each", () => {
  expect(() => assertWireValue({ list: withHoles() }, "it")).toThrow(
    "it: .list is an array that is mostly holes, which JSON can't represent",
  );
});
