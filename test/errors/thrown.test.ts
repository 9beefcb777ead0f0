import { expect, test } from "vitest";
import { failureText, reasonText } from "../../core/errors/failureText.ts";
import { messageOf, readable, stackOf, withoutCutEdges } from "../../core/errors/thrown.ts";

const withGetter = (name: string): Error =>
  Object.defineProperty(new Error("x"), name, {
    get: () => {
      throw new Error("no");
    },
  });
const UNREADABLE = "a value that can't be read as text";

test.each([
  ["an error", new RangeError("too far"), "too far", "RangeError: too far"],
  ["a string", "why", "why", "why"],
  ["undefined", undefined, "undefined", "undefined"],
  ["a symbol", Symbol("s"), "Symbol(s)", "Symbol(s)"],
  ["an object", { code: 7, card: "4242" }, "an object with the fields code, card", "an object with the fields code, card"],
  ["an object with a message", { message: "no card", code: 7 }, "no card", "no card"],
  ["an empty object", {}, "an object with no fields", "an object with no fields"],
  ["an object without a prototype", Object.create(null), UNREADABLE, UNREADABLE],
  ["an error without a message", withGetter("message"), UNREADABLE, `Error: ${UNREADABLE}`],
  ["an error without a name", withGetter("name"), "x", `${UNREADABLE}: x`],
  ["an error whose message is no text", Object.assign(new Error(), { message: Symbol("m") }), "Symbol(m)", "Error: Symbol(m)"],
])("%s yields a text", (_, thrown, message, failure) => {
  expect([messageOf(thrown), failureText(thrown)]).toEqual([message, failure]);
  expect(typeof stackOf(thrown)).toBe("string");
}); // prettier-ignore

test("a value that can't be looked at is replaced by an error", () => {
  const { proxy, revoke } = Proxy.revocable(new RangeError("x"), {});
  expect(readable(proxy)).toBe(proxy);
  revoke();
  expect(readable(proxy)).toEqual(new Error(UNREADABLE));
});

test("an error without a stack falls back to its message, an unreadable one has none", () => {
  expect(stackOf(Object.assign(new Error("x"), { stack: undefined }))).toBe("x");
  expect(stackOf(withGetter("stack"))).toBe(UNREADABLE);
});

test("a stack is followed by those of the causes, of which a chain without an end shows five", () => {
  const refused = new Error("connect ECONNREFUSED 127.0.0.1:9");
  const text = stackOf(new TypeError("fetch failed", { cause: refused }));
  expect(text).toContain("TypeError: fetch failed\n    at ");
  expect(text).toContain("\n  caused by: Error: connect ECONNREFUSED 127.0.0.1:9\n    at ");
  expect(stackOf(new Error("x", { cause: "no disk" }))).toMatch(/\n {2}caused by: no disk$/);

  const endless = new Error("again");
  endless.cause = endless;
  expect(stackOf(endless).match(/Error: again/g)).toHaveLength(5);
  expect(stackOf(withGetter("cause"))).toMatch(/^Error: x\n/);
});

test("a reason names the causes, each once", () => {
  const refused = new Error("connect ECONNREFUSED 127.0.0.1:9");
  const failed = new TypeError("fetch failed", { cause: refused });
  const shown = "TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:9";
  expect(reasonText(failed)).toBe(shown);
  expect(reasonText(new Error(`no stock: ${shown}`, { cause: failed }))).toBe(
    `Error: no stock: ${shown}`,
  );
  const several = Object.assign(new AggregateError([refused]), { code: "ECONNREFUSED" });
  expect(reasonText(new TypeError("fetch failed", { cause: several }))).toBe(
    "TypeError: fetch failed: ECONNREFUSED",
  );
  expect(reasonText(new Error("x", { cause: null }))).toBe("Error: x: null");
  expect(reasonText(withGetter("cause"))).toBe("Error: x");
  const long = new Error("x", { cause: new Error("y".repeat(100_000)) });
  expect(reasonText(long).length).toBeLessThan(66_000);
});

test("a text is cut in its middle: what is stored and logged is bounded, and a stack keeps its frames", () => {
  const error = new Error("😀".repeat(1_000_000));
  for (const text of [messageOf(error), failureText(error), stackOf(error)]) {
    expect(text.length).toBeLessThan(66_000);
    expect(/ … \d{7} characters left out … /.test(text)).toBe(true);
    expect(text.isWellFormed()).toBe(true);
  }
  expect(stackOf(error).includes("thrown.test.ts")).toBe(true);
  expect(messageOf("x".repeat(64 * 1024))).toHaveLength(64 * 1024);
});

test("a text that was cut is not cut again, so the number of characters left out stays true", () => {
  const once = messageOf("x".repeat(100_000));
  const [, left = "0"] = / … (\d+) characters left out … /.exec(once) ?? [];
  expect(Number(left) + once.replaceAll(/[^x]/g, "").length).toBe(100_000);
  expect(messageOf(once)).toBe(once);
});

test("the edges of a cut are those beside it, not a text's own ends", () => {
  const cut = " … 9 characters left out … ";
  expect(withoutCutEdges(`abc${cut}defg${cut}hi`, 1)).toBe(`ab${cut}ef${cut}i`);
  expect(withoutCutEdges(`abc${cut}defg`, 9)).toBe(cut);
  expect(withoutCutEdges("abc", 9)).toBe("abc");
});
