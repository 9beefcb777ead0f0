/** Structured text: what it carries, exactly, and what it refuses with the place. */
import { describe, expect, it } from "vitest";
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";

const copy = (value: unknown): unknown => decodeStructured(encodeStructured(value, "the value"));

describe("structured text", () => {
  it.each([
    ["scalars", [null, undefined, true, 0, -0, NaN, Infinity, -Infinity, 2n ** 70n, "", "ä\u0000"]],
    ["dates, expressions", [new Date(0), new Date(NaN), /a+/gi]],
    ["maps and sets", [new Map<unknown, unknown>([[{ k: 1 }, new Set([1, "1"])]]), new Map()]],
    ["bytes", [new Uint8Array([0, 255]), new Float64Array([1.5]), new Uint8Array(4).buffer]],
    ["a view of a part", new Uint8Array([1, 2, 3, 4]).subarray(1, 3)],
    ["objects", { a: undefined, "": 1, nested: { list: [[], {}] } }],
    ["nothing", undefined],
  ])("preserves %s", (_what, value) => {
    expect(copy(value)).toStrictEqual(structuredClone(value));
  });

  it("preserves object identity, including cycles", () => {
    const shared = { n: 1 };
    const value: Record<string, unknown> = { a: shared, b: [shared] };
    value["self"] = value;
    const copied = copy(value) as { a: object; b: object[]; self: unknown };
    expect([copied.self === copied, copied.b[0] === copied.a]).toEqual([true, true]);
  });

  it("preserves holes in arrays", () => {
    // oxlint-disable-next-line no-sparse-arrays -- what is tested
    const copied = copy([, 1, , undefined]) as unknown[];
    expect([copied.length, Object.keys(copied)]).toEqual([4, ["1", "3"]]);
  });

  it("preserves an error's class, message, stack and cause", () => {
    const error = new RangeError("far", { cause: new Map([[1, 2]]) });
    const copied = copy(error) as RangeError;
    expect(copied).toBeInstanceOf(RangeError);
    expect([copied.message, copied.stack, copied.cause]).toEqual(["far", error.stack, error.cause]);
    expect(Object.keys(copied)).toEqual([]);
  });

  it.each(["toString", "constructor", "hasOwnProperty", "__proto__", "Custom"])(
    "preserves an error that is named %s as an Error",
    (name) => {
      const copied = copy(Object.assign(new Error("m"), { name })) as Error;
      expect([copied instanceof Error, copied.name, copied.message]).toEqual([true, "Error", "m"]);
      // As it was written once.
      const stored = decodeStructured(JSON.stringify([1, ["error", name, "m", null]]));
      expect([stored instanceof Error, (stored as Error).message]).toEqual([true, "m"]);
    },
  );

  it("preserves an error whose message is no text, and a map whose key has no text", () => {
    const error = Object.assign(new Error("m"), { message: 5n });
    expect((copy(error) as Error).message).toBe("5");
    const map = copy(new Map([[Object.create(null), 1]])) as Map<object, number>;
    expect([...map]).toEqual([[{}, 1]]);
  });

  it("handles a depth that would overflow the stack", () => {
    let value: unknown = "deep";
    for (let i = 0; i < 50_000; i++) value = [value];
    let copied = copy(value);
    while (Array.isArray(copied)) [copied] = copied as [unknown];
    expect(copied).toBe("deep");
  });

  it("restores a property of any name, and never a prototype", () => {
    const copied = copy(JSON.parse(`{"__proto__":{"bad":1}}`)) as { bad?: number };
    expect([copied.bad, Object.keys(copied)]).toEqual([undefined, ["__proto__"]]);
  });

  it.each([
    [{ list: [() => 1] }, "the value: .list[0] is a function"],
    [new Map([["k", Symbol("s")]]), "the value: .get(k) is a symbol"],
    [{ a: Promise.resolve() }, "the value: .a is of type Promise"],
    [() => 1, "the value is a function"],
    [
      { list: Object.assign([], { length: 4_000_000_000 }) },
      "the value: .list is an array that is mostly holes",
    ],
  ])("rejects what can't be cloned, and says where it is", (value, message) => {
    let thrown: unknown;
    try {
      encodeStructured(value, "the value");
    } catch (error) {
      thrown = error;
    }
    expect((thrown as DOMException).name).toBe("DataCloneError");
    expect((thrown as DOMException).message).toBe(`${message}, which can't be cloned`);
  });

  it("rejects a later release's version", () => {
    expect(() => decodeStructured("[2,1]")).toThrow(/version 2: written by a newer release/);
  });
});
