/** Valid route declarations, and the route that a request matches. */
import { describe, expect, test } from "vitest";
import { Redaction } from "../../core/redaction/Redaction.ts";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import { WEBHOOK_BODY_BYTES_MAX } from "../../core/webhook/WebhookRoute.ts";
import {
  body,
  constant,
  github,
  gitlabToken,
  header,
  hmac,
  InvalidWebhook,
  path,
  slack,
  slug,
  stripe,
  unsigned,
  webhook,
  type EntitySource,
  type Verifier,
  type WebhookOptions,
} from "../../services/webhooks/index.ts";

class RepoAgent {
  constructor(readonly name: string) {}
}
class First extends RepoAgent {}
class Second extends RepoAgent {}
/** The usual names. */
const REDACTION = new Redaction();
const verify = github({ secret: "GITHUB_WEBHOOK_SECRET" });
const entity = body("repository.full_name", slug);
const to = (pattern: string) =>
  webhook(pattern, { agent: "A", verify: unsigned(), entity: constant("a") });
const table = (...patterns: string[]) => new RouteTable(patterns.map(to));

describe("webhook", () => {
  test("takes its defaults from its provider", () => {
    expect(webhook("/webhooks/github", { agent: RepoAgent, verify, entity })).toEqual({
      path: "/webhooks/github",
      agent: "RepoAgent",
      verifier: verify,
      entity,
      answer: "agent",
      deadlineMs: 9500,
      bodyBytesMax: WEBHOOK_BODY_BYTES_MAX,
      redaction: REDACTION,
    });
    expect(slack({ secret: "S" }).deadlineMs).toBe(2500);
    expect(stripe({ secret: "S" }).deadlineMs).toBe(5000);
    const anybody = webhook("/w", { agent: "A", verify: unsigned(), entity: constant("a") });
    expect(anybody.bodyBytesMax).toBe(4 * 1024 * 1024);
    const options = { answer: "stored", deadlineMs: 1000, bodyBytesMax: 1024 } as const;
    expect(webhook("/w", { agent: "A", verify, entity, ...options })).toMatchObject(options);
  });

  test.each([
    [{ agent: [class {}][0] }, /the class has no name/],
    [{ agent: "not a class" }, /must be a class, or its name/],
    [{ agent: undefined }, /must be a class, or its name/],
    [{ verify: undefined }, /verify: use a verifier/],
    [{ entity: undefined }, /entity: use a source/],
    [{ answer: "later" }, /answer must be "agent" or "stored", not "later"/],
    [{ deadlineMs: 0 }, /deadlineMs is 0: use a whole number from 1 to 60000/],
    [{ deadlineMs: 60_001 }, /deadlineMs is 60001/],
    [{ deadlineMs: 1.5 }, /deadlineMs is 1.5/],
    [{ redact: { headers: "x-a" } }, /redact.headers: use a list of names/],
    [{ redact: { headers: ["x a"] } }, /redact.headers: use a list of names/],
    [{ redact: { query: [""] } }, /redact.query: use a list of names/],
    [
      { redact: { cookies: [] } },
      /redact: unknown option "cookies"; the options are headers, query, body/,
    ],
    [{ redact: "customer.email" }, /redact: the options must be an object with headers/],
    [{ redacts: [] }, /unknown option "redacts"; the options are agent, verify, entity/],
    [{ deadlineMs: "5" }, /deadlineMs is "5"/],
    [{ also: [{ agent: "A", entitty: 1 }] }, /also\[0\]: unknown option "entitty"/],
    [{ also: [{ agent: "A" }] }, /also\[0\]: entity: use a source/],
    [{ bodyBytesMax: 0 }, /bodyBytesMax is 0/],
    [{ bodyBytesMax: WEBHOOK_BODY_BYTES_MAX + 1 }, /from 1 to 26214400/],
  ])("rejects %o with the route's path and the remedy", (over, message) => {
    const options = { agent: "A", verify, entity, ...over } as unknown as WebhookOptions;
    expect(() => webhook("/webhooks/github", options)).toThrow(InvalidWebhook);
    expect(() => webhook("/webhooks/github", options)).toThrow(message);
    expect(() => webhook("/webhooks/github", options)).toThrow(/^webhook\("\/webhooks\/github"\)/);
  });

  test("hides what its verifier reads a secret from, and the fields that it names", () => {
    const verifier: Verifier = { ...verify, secretHeaders: ["x-foo"] };
    const options = { agent: "A", verify: verifier, entity };
    const own = webhook("/w", { ...options, redact: { headers: ["X-Bar"], query: ["pin"] } });
    expect(["x-foo", "x-bar", "cookie"].map((n) => own.redaction.hidesHeader(n))).not.toContain(
      false,
    );
    expect(own.redaction.url("/w?pin=1&a=2")).toBe("/w?pin=REDACTED&a=2");
    const usual = webhook("/w", { agent: "A", verify, entity });
    expect(["x-foo", "x-bar"].map((n) => usual.redaction.hidesHeader(n))).not.toContain(true);
    expect(gitlabToken({ secret: "S" }).secretHeaders).toEqual(["x-gitlab-token"]);
  });

  const declare = (pattern: string, verifier: Verifier, source: EntitySource) => () =>
    webhook(pattern, { agent: "A", verify: verifier, entity: source });

  test("requires trust for an entity that the signature does not cover, and the error says why", () => {
    expect(declare("/s/:customer", verify, path("customer"))).toThrow(
      /path\("customer"\): github signs the body only, so the path can be changed without invalidating the signature.*path\("customer", \{ trust: true \}\)/,
    );
    expect(declare("/s", verify, header("X-Team"))).toThrow(
      /header\("x-team"\): github signs the body only.*header\("x-team", \{ trust: true \}\)/,
    );
    expect(declare("/s", unsigned(), body("id"))).toThrow(
      /unsigned checks no signature, so any caller could choose the agent.*body\("id", \{ trust: true \}\)/,
    );
    expect(declare("/s/:customer", verify, path("customer", { trust: true }))).not.toThrow();
    expect(declare("/s", verify, header("x-team", { trust: true }))).not.toThrow();
    expect(declare("/s", unsigned(), body("id", { trust: true }))).not.toThrow();
    expect(declare("/s", unsigned(), constant("all"))).not.toThrow();
  });

  test("counts the path as covered by a provider that signs the URL, and the body not if only the path is signed", () => {
    const both = hmac({ secret: "S", template: "{url}{body}" });
    expect(declare("/s/:customer", both, path("customer"))).not.toThrow();
    expect(declare("/s/:customer", both, header("x-team"))).toThrow(/body and the url only/);
    const url = hmac({ secret: "S", template: "{url}" });
    expect(declare("/s", url, body("id"))).toThrow(/signs the url only/);
  });

  test("requires a path entity to be a parameter of the path", () => {
    expect(declare("/s/:customer", verify, path("costumer", { trust: true }))).toThrow(
      /the path has no parameter ":costumer"/,
    );
  });

  test.each([
    ["webhooks", /starts with "\/"/],
    ["", /starts with "\/"/],
    ["/a//b", /empty segment/],
    ["//", /empty segment/],
    ["/a/../b", /"\.\." is not a usable segment/],
    ["/a?b=c", /no query/],
    ["/a#b", /no fragment/],
    ["/a/*", /"\*" is not supported/],
    ["/a/:", /":" is not a parameter/],
    ["/a/:b-c", /":b-c" is not a parameter/],
    ["/:a/x/:a", /":a" is repeated/],
    ["/a/%zz", /broken percent-escape/],
  ])("rejects the path %s", (pattern, message) => {
    expect(() => to(pattern)).toThrow(message);
  });
});

describe("RouteTable", () => {
  const matched = (routes: RouteTable, target: string) => {
    const match = routes.match(target);
    return match && [match.route.path, { ...match.params }];
  };

  test("prefers a literal to a parameter, unless it leads nowhere", () => {
    const routes = table("/w/:a", "/w/github", "/w/github/x", "/w/:a/:b", "/w/:a/x", "/");
    expect(matched(routes, "/w/github")).toEqual(["/w/github", {}]);
    expect(matched(routes, "/w/stripe")).toEqual(["/w/:a", { a: "stripe" }]);
    expect(matched(routes, "/w/github/x")).toEqual(["/w/github/x", {}]);
    expect(matched(routes, "/w/github/y")).toEqual(["/w/:a/:b", { a: "github", b: "y" }]);
    expect(matched(routes, "/w/stripe/x")).toEqual(["/w/:a/x", { a: "stripe" }]);
    expect(matched(routes, "/")).toEqual(["/", {}]);
    for (const target of ["/w", "/w/a/b/c", "/W/github", "w/github", "", "*"])
      expect(routes.match(target), target).toBeUndefined();
  });

  test("ignores one trailing slash and a query; an empty segment matches nothing", () => {
    const routes = table("/w/github", "/w/s/:id", "/t/");
    for (const target of ["/w/github/", "/w/github?x=/y", "/w/github/?x", "/w/github#f"])
      expect(matched(routes, target), target).toEqual(["/w/github", {}]);
    expect(matched(routes, "/w/s/1/?a=b")).toEqual(["/w/s/:id", { id: "1" }]);
    expect(matched(routes, "/t")).toEqual(["/t/", {}]);
    for (const target of ["/w/github//", "/w//github", "/w/s//", "/w/s/", "//"])
      expect(routes.match(target), target).toBeUndefined();
  });

  test("decodes segments one by one; an invalid escape matches nothing", () => {
    const routes = table("/w/:id", "/w/a%20b", "/w/x y");
    expect(matched(routes, "/w/Acme%2FWeb%20%F0%9F%90%8E")).toEqual([
      "/w/:id",
      { id: "Acme/Web 🐎" },
    ]);
    expect(matched(routes, "/w/%61%20b")).toEqual(["/w/a%20b", {}]);
    expect(matched(routes, "/w/x%20y")).toEqual(["/w/x y", {}]);
    for (const target of ["/w/%", "/w/%zz", "/w/%ff", "/%/a"])
      expect(routes.match(target), target).toBeUndefined();
  });

  test("rejects two routes of one shape, whatever their parameters are called", () => {
    expect(() => table("/w/:a/x", "/w/:b/x")).toThrow(
      `webhook("/w/:b/x") and webhook("/w/:a/x") match the same requests`,
    );
    expect(() => table("/w/x", "/w/x/")).toThrow(/match the same requests/);
    expect(() => table("/w/x", "/w/%78")).toThrow(/match the same requests/);
    expect(() => table("/w/:a/x", "/w/:b/y")).not.toThrow();
  });

  test.each(["hmac", "unsigned"] as const)(
    "rejects two routes of one class whose senders are %s and have ids",
    (kind) => {
      const by = (more: object) =>
        kind === "hmac" ? hmac({ secret: "S", ...more }) : unsigned(more);
      const two =
        (more: object, other: object, agent: typeof RepoAgent = First) =>
        () =>
          new RouteTable([
            webhook("/bank", { agent: First, verify: by(more), entity: constant("a") }),
            webhook("/shop", { agent, verify: by(other), entity: constant("a") }),
          ]);
      const id = { id: { header: "x-id" } };
      const refused = `webhook("/bank") and webhook("/shop"): both senders of First are "${kind}"`;
      expect(two(id, id)).toThrow(refused);
      expect(two(id, { replayGuard: true })).toThrow(refused);
      expect(two(id, id, Second)).not.toThrow();
      expect(two(id, {})).not.toThrow();
      expect(two(id, { ...id, provider: "shop" })).not.toThrow();
      // Whoever names two senders alike says that they are one.
      expect(two({ ...id, provider: "shop" }, { ...id, provider: "shop" })).not.toThrow();
    },
  );

  test("keeps the parameter names of each route, without a prototype", () => {
    const routes = table("/w/:a/x", "/w/:b/y", "/p/:__proto__");
    expect(matched(routes, "/w/1/x")).toEqual(["/w/:a/x", { a: "1" }]);
    expect(matched(routes, "/w/1/y")).toEqual(["/w/:b/y", { b: "1" }]);
    const params = routes.match("/p/1")!.params;
    expect(Object.getPrototypeOf(params)).toBeNull();
    expect(Object.keys(params)).toEqual(["__proto__"]);
  });

  test("answers a path of a hundred thousand segments", () => {
    const routes = table("/:a/:b", "/a/:b/c", "/:a/b/:c");
    expect(routes.match("/a".repeat(100_000))).toBeUndefined();
  });
});
