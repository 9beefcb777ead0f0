/** Sources of an agent's name, and requests without one. */
import { describe, expect, test } from "vitest";
import { answerOfEntity } from "../../core/webhook/answers.ts";
import { body, constant, escapedSlug, header, path, slug } from "../../services/webhooks/index.ts";
import { requestOf } from "./requests.ts";

const FORM = { "Content-Type": "application/x-www-form-urlencoded; charset=utf-8" };
const json = (value: unknown) => requestOf({ body: JSON.stringify(value) });
const entity = (name: string) => ({ _tag: "Entity", name });
const slugged = (name: string, of: string) => ({ _tag: "Entity", name, slugged: of });
const missing = (field: string) => ({ _tag: "Missing", field });

describe("body", () => {
  test("follows a dotted path, array indexes included, and applies the transform", () => {
    const request = json({ repository: { full_name: "Acme/Web/X" }, items: [{ id: "a" }, "b"] });
    expect(body("repository.full_name").resolve(request)).toEqual(entity("Acme/Web/X"));
    expect(body("repository.full_name", slug).resolve(request)).toEqual(
      slugged("acme-web-x", "Acme/Web/X"),
    );
    expect(body("repository.full_name", escapedSlug).resolve(request)).toEqual(
      entity("acme~web~x"),
    );
    expect(body("items.0.id").resolve(request)).toEqual(entity("a"));
    expect(body("items.1", (s) => `x-${s}`).resolve(request)).toEqual(entity("x-b"));
  });

  test("accepts a string or a number; anything else, and nothing, is missing", () => {
    for (const [value, name] of [
      [7, "7"],
      [-1.5, "-1.5"],
      [0, "0"],
      [Number.MAX_SAFE_INTEGER, "9007199254740991"],
      [" ", " "],
      ["žluť/🐎", "žluť/🐎"],
    ] as const)
      expect(body("a").resolve(json({ a: value }))).toEqual(entity(name));
    for (const value of ["", null, true, {}, [], [1], undefined])
      expect(body("a").resolve(json({ a: value })), String(value)).toEqual(missing("a"));
    for (const root of [null, 5, "text", [], true])
      expect(body("a").resolve(json(root))).toEqual(missing("a"));
  });

  test("rejects a number that JSON can't represent exactly: two entities would share an agent", () => {
    const result = body("id").resolve(requestOf({ body: '{"id":12345678901234567890}' }));
    expect(result).toMatchObject({ _tag: "Invalid", message: expect.stringContaining("2^53") });
  });

  test("names a missing value by the first of two segments, the last of more, or its configured name", () => {
    const nothing = json({});
    expect(body("repository").resolve(nothing)).toEqual(missing("repository"));
    expect(body("repository.full_name").resolve(nothing)).toEqual(missing("repository"));
    expect(body("data.object.customer").resolve(nothing)).toEqual(missing("customer"));
    for (const source of [body("a.b", slug, { name: "b" }), body("a.b", { name: "b" }, slug)])
      expect(answerOfEntity(source.resolve(nothing))).toMatchObject({
        status: 400,
        body: "Missing b",
      });
    expect(body("a.b", { name: "b" }, slug).resolve(json({ a: { b: "X/Y" } }))).toEqual(
      slugged("x-y", "X/Y"),
    );
  });

  test("does not follow built-in properties of objects, arrays and strings", () => {
    const request = requestOf({ body: '{"a":[1],"s":"text","__proto__":{"polluted":"x"}}' });
    for (const field of [
      "constructor.name",
      "toString",
      "a.length",
      "a.constructor.name",
      "a.00",
      "a.-1",
      "s.length",
      "s.0",
      "polluted",
      "__proto__.constructor.name",
    ])
      expect(body(field).resolve(request)._tag, field).toBe("Missing");
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("answers 400 Invalid JSON for a body that is not JSON, or not UTF-8", () => {
    for (const bytes of ["", "{", "{'a':1}", Uint8Array.of(0x22, 0xff, 0x22)]) {
      const answer = answerOfEntity(body("a").resolve(requestOf({ body: bytes })));
      expect(answer).toMatchObject({ status: 400, body: "Invalid JSON" });
    }
  });

  test("reads a form's fields, and the JSON in its payload field first", () => {
    const form = (text: string) => requestOf({ body: text, headers: FORM });
    expect(body("team_id").resolve(form("team_id=T1&team_id=T2"))).toEqual(entity("T1"));
    const payload = encodeURIComponent(JSON.stringify({ team: { id: "T3" }, team_id: "T4" }));
    expect(body("team.id").resolve(form(`payload=${payload}`))).toEqual(entity("T3"));
    expect(body("team_id").resolve(form(`team_id=T1&payload=${payload}`))).toEqual(entity("T4"));
    expect(body("other").resolve(form(`other=o&payload=${payload}`))).toEqual(entity("o"));
    expect(body("payload").resolve(form("payload=plain"))).toEqual(entity("plain"));
  });

  test("is parsed once for all that read it", () => {
    const request = json({ a: "1", b: "2" });
    const parse = JSON.parse;
    let parses = 0;
    JSON.parse = (...args: Parameters<typeof parse>) => (parses++, parse(...args));
    try {
      expect(body("a").resolve(request)).toEqual(entity("1"));
      expect(body("b").resolve(request)).toEqual(entity("2"));
    } finally {
      JSON.parse = parse;
    }
    expect(parses).toBe(1);
  });

  test("survives a transform that throws or returns no text", () => {
    const request = json({ a: "x" });
    const throwing = body("a", () => {
      throw new Error("no");
    });
    expect(throwing.resolve(request)).toEqual({ _tag: "Invalid", message: "Invalid a" });
    expect(body("a", () => "").resolve(request)).toEqual(missing("a"));
    expect(body("a", () => 5 as unknown as string).resolve(request)).toEqual(missing("a"));
  });

  test("limits a name to 1,024 bytes of well-formed Unicode", () => {
    expect(body("a").resolve(json({ a: "é".repeat(512) }))._tag).toBe("Entity");
    expect(body("a").resolve(json({ a: "é".repeat(512) + "x" }))).toEqual({
      _tag: "Invalid",
      message: "Invalid a: 1025 bytes long; the limit is 1024 bytes of UTF-8",
    });
    // Before the transform: an escape of U+FFFD would be well-formed, and the same for all of them.
    for (const source of [body("a"), body("a", slug), body("a", escapedSlug)])
      expect(source.resolve(requestOf({ body: '{"a":"\\ud800"}' }))).toEqual({
        _tag: "Invalid",
        message: "Invalid a: not well-formed Unicode",
      });
  });

  test("rejects a path that names nothing when it is declared", () => {
    for (const field of ["", ".", "a..b", "a."])
      expect(() => body(field)).toThrow(/use a field's path/);
  });
});

describe("the other sources", () => {
  test("include path, which reads the route's own parameter, and nothing inherited", () => {
    const request = requestOf({ params: { customer: "Acme/1" } });
    expect(path("customer").resolve(request)).toEqual(entity("Acme/1"));
    expect(path("customer", { trust: true }, slug).resolve(request)).toEqual(
      slugged("acme-1", "Acme/1"),
    );
    expect(path("constructor").resolve(request)).toEqual(missing("constructor"));
    expect(path("customer", { trust: true }).trust).toBe(true);
    expect(path("customer").trust).toBe(false);
  });

  test("include header, which reads one value, whatever the case of its name, and refuses two", () => {
    const request = requestOf({ headers: { "X-Workspace-Id": "W1", "X-Two": ["a", "b"] } });
    expect(header("X-Workspace-ID").resolve(request)).toEqual(entity("W1"));
    expect(header("x-none").resolve(request)).toEqual(missing("x-none"));
    expect(header("x-none", { name: "workspace" }).resolve(request)).toEqual(missing("workspace"));
    expect(answerOfEntity(header("x-two").resolve(request))).toMatchObject({
      status: 400,
      body: "Header x-two was sent 2 times",
    });
    expect(() => header("x two")).toThrow(/not a header name/);
  });

  test("include constant, which is one agent, checked when it is declared", () => {
    expect(constant("all").resolve(requestOf({}))).toEqual(entity("all"));
    expect(() => constant("")).toThrow(/at least one character/);
    expect(() => constant("x".repeat(1025))).toThrow(/1025 bytes long/);
    expect(() => constant("/Vault/a/b")).toThrow(/can't begin with "\/"/);
  });
});
