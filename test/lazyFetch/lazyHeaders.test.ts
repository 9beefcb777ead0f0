/** `LazyHeaders` can't be distinguished from a `Headers` of the same names and values. */
import { inspect } from "node:util";
import fc from "../kit/property.ts";
import { expect, test } from "vitest";
import { LazyHeaders, type PlainHeaders } from "../../core/lazyFetch/LazyHeaders.ts";

const NAMES = ["x-event", "X-Event", "X-EVENT", "cookie", "set-cookie", "Host", "x-absent"];
const name = fc.constantFrom(...NAMES);
const value = fc.constantFrom("", "push", "  two  words ", "\ttab\t", "a=b; c=d", "été");
const given: fc.Arbitrary<PlainHeaders> = fc.oneof(
  fc.array(fc.tuple(name, value), { maxLength: 6 }),
  fc.dictionary(name, value, { maxKeys: 6 }),
);

type Look = (headers: Headers) => unknown;
const asked = fc.oneof(
  name,
  fc.constantFrom("bad name", "", "naïve", "__proto__", "constructor", "toString"),
);
const look: fc.Arbitrary<readonly [string, Look]> = fc.oneof(
  asked.map((of) => [`get ${of}`, (h: Headers) => h.get(of)] as const),
  asked.map((of) => [`has ${of}`, (h: Headers) => h.has(of)] as const),
  fc.tuple(asked, value).map(([of, to]) => [`set ${of}`, (h: Headers) => h.set(of, to)] as const),
  fc
    .tuple(asked, value)
    .map(([of, to]) => [`append ${of}`, (h: Headers) => h.append(of, to)] as const),
  asked.map((of) => [`delete ${of}`, (h: Headers) => h.delete(of)] as const),
  fc.constantFrom<readonly [string, Look]>(
    ["walk", (h) => [...h]],
    ["entries", (h) => [...h.entries()]],
    ["keys", (h) => [...h.keys()]],
    ["values", (h) => [...h.values()]],
    ["forEach", (h) => h.forEach((text, key) => `${key}: ${text}`)],
    ["cookies", (h) => h.getSetCookie()],
    ["copy", (h) => [...new Headers(h)]],
    ["of a request", (h) => [...new Request("http://x/", { headers: h }).headers]],
    ["of a response", (h) => [...new Response(null, { headers: h }).headers]],
    ["class", (h) => [h instanceof Headers, h.constructor === Headers, String(h)]],
    ["shown", (h) => inspect(h)],
    ["text", (h) => JSON.stringify(h)],
    ["a number's name", (h) => h.get(1 as unknown as string)],
    ["no name", (h) => (h.get as () => unknown).call(h)],
    ["no name to have", (h) => (h.has as () => unknown).call(h)],
  ),
);

function outcome(f: () => unknown): unknown {
  try {
    return f();
  } catch (error) {
    return { name: (error as Error).name, message: (error as Error).message };
  }
}

test("lazy headers look like the platform's, in whatever order they are read", () => {
  fc.assert(
    fc.property(given, fc.array(look, { maxLength: 8 }), (of, looks) => {
      const lazy = LazyHeaders.of(of);
      const native = new Headers(of as HeadersInit);
      for (const [what, see] of looks)
        expect(
          outcome(() => see(lazy)),
          what,
        ).toEqual(outcome(() => see(native)));
    }),
    { numRuns: 3000 },
  );
});

// By a regular expression, which tries each blank as the beginning of the last ones, it is 15 s.
test("a value with many blanks is read quickly", { timeout: 10_000 }, () => {
  const blanks = `a${" ".repeat(150_000)}b`;
  expect(LazyHeaders.of([["x-long", ` ${blanks}\t`]]).get("X-Long")).toBe(blanks);
});
