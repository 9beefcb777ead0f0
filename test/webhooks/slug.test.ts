/** Names made of entities: `escapedSlug` keeps them apart, and `slug` does not. */
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import { body, escapedSlug, InvalidWebhook, slug } from "../../services/webhooks/index.ts";
import { requestOf } from "./requests.ts";

/** Few characters, so that collisions would be met. */
const near = fc.string({ unit: fc.constantFrom("a", "A", "-", "/", "~", "$", "2", "f", ".", "é") });
const text = fc.oneof(near, fc.string({ unit: "grapheme" }));

describe("escapedSlug", () => {
  test("keeps providers' usual names readable", () => {
    expect(escapedSlug("Acme/Site")).toBe("acme~site");
    expect(escapedSlug("a-b_c.d/9")).toBe("a-b_c.d~9");
    expect(escapedSlug("~$ é")).toBe("$7e$24$20$c3$a9");
    expect([escapedSlug("."), escapedSlug("..")]).toEqual(["$2e", "$2e$2e"]);
  });

  test("distinguishes two entities that differ in more than case", () => {
    fc.assert(
      fc.property(text, text, (one, other) => {
        const isSame = one.toLowerCase() === other.toLowerCase();
        expect(escapedSlug(one) === escapedSlug(other)).toBe(isSame);
      }),
      { numRuns: 5_000 },
    );
  });

  test("is reversible, up to case", () => {
    const undone = (name: string): string =>
      decodeURIComponent(name.replaceAll("~", "/").replaceAll("%", "%25").replaceAll("$", "%"));
    fc.assert(
      fc.property(text, (entity) => {
        expect(undone(escapedSlug(entity))).toBe(entity.toLowerCase());
      }),
      { numRuns: 5_000 },
    );
  });

  test("is valid in a URL's path", () => {
    fc.assert(
      fc.property(text, (entity) => {
        const name = escapedSlug(entity);
        expect(name).toMatch(/^[a-z0-9._~$-]*$/);
        if (name !== "")
          expect(new URL(`/agents/repo/${name}/x`, "http://a").pathname).toBe(
            `/agents/repo/${name}/x`,
          );
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("slug", () => {
  const request = requestOf({ body: '{"name":"Ac-me/Site"}' });

  test("follows the interface's rule: lower case, each / becomes -", () => {
    expect(slug("Ac-me/Site/x")).toBe("ac-me-site-x");
    expect(["A/B", "C"].map((name) => slug(name))).toEqual(["a-b", "c"]);
  });

  test("records the entity of a name, unless entities may be merged", () => {
    expect(body("name", slug).resolve(request)).toEqual({
      _tag: "Entity",
      name: "ac-me-site",
      slugged: "Ac-me/Site",
    });
    for (const transform of [slug({ merge: true }), (value: string) => slug(value)])
      expect(body("name", transform).resolve(request)).toEqual({
        _tag: "Entity",
        name: "ac-me-site",
      });
  });

  test("rejects other arguments where the route is declared", () => {
    for (const given of [undefined, null, {}, { merge: false }, 5])
      expect(() => slug(given as never)).toThrow(InvalidWebhook);
  });
});
