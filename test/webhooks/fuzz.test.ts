/**
 * Nothing that a caller may send makes a verifier, an entity source or the route table throw, and no
 * request that was not signed is let through.
 */
import * as fc from "fast-check";
import { expect, test, vi } from "vitest";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import {
  body,
  github,
  header,
  hmac,
  path,
  shopify,
  sign,
  slack,
  slug,
  standardWebhooks,
  stripe,
  svix,
  unsigned,
  webhook,
  type Sign,
  type Verifier,
} from "../../services/webhooks/index.ts";
import { forTime, fuzzTimeoutMs } from "../kit/fuzz.ts";
import * as everyProvider from "./everyProvider.ts";
import { NOW_MS, requestOf, SECRET } from "./requests.ts";

const env = { SECRET };
const secret = "SECRET";
const providers: ReadonlyArray<readonly [string, Verifier, Sign]> = [
  ["github", github({ secret, replayGuard: true }), sign.github],
  ["stripe", stripe({ secret }), sign.stripe],
  ["slack", slack({ secret }), sign.slack],
  ["shopify", shopify({ secret }), sign.shopify],
  ["standardWebhooks", standardWebhooks({ secret }), sign.standardWebhooks],
  ["svix", svix({ secret }), sign.svix],
  ["hmac", hmac({ secret }), sign.hmac],
];
const entities = [
  body("repository.full_name", slug),
  body("a.0.b.c"),
  body("payload"),
  path("customer"),
  header("x-team", slug),
];
/** Together about ten seconds on two busy cores. */
const SUITE_MS = 1100;
const bounded = forTime(SUITE_MS);
/** The table has some forty providers. */
const TABLE_SUITE_MS = 4 * SUITE_MS;
vi.setConfig({ testTimeout: fuzzTimeoutMs(TABLE_SUITE_MS) });

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.string({ unit: "binary" }).map((s) => Buffer.from(s)),
  fc.json({ maxDepth: 6 }).map((s) => Buffer.from(s)),
  fc
    .record({ type: fc.constantFrom("url_verification", "x"), challenge: fc.anything() })
    .map((o) => Buffer.from(JSON.stringify(o) ?? "")),
  fc.webQueryParameters().map((s) => Buffer.from(`payload=${s}`)),
);
const contentType = fc.constantFrom(
  [],
  ["application/json"],
  ["application/x-www-form-urlencoded"],
  ["a", "b"],
);
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.constantFrom("sha256=", "v0=", "t=,v1=", "v1,", "v1, v1,", `t=${NOW_MS},t=1,v1=`, "sha256=é"),
);

test.each(providers)(
  "%s lets no forged request through and never throws",
  (_, verifier, signer) => {
    let rejections = 0;
    const names = [...Object.keys(signer("", SECRET)), "__proto__"];
    fc.assert(
      fc.property(
        bytes,
        contentType,
        fc.array(fc.array(text, { maxLength: 3 }), { minLength: names.length, maxLength: 9 }),
        (raw, type, values) => {
          const headers: Record<string, ReadonlyArray<string>> = { "content-type": type };
          for (const [i, name] of names.entries()) headers[name] = values[i]!;
          const request = requestOf({ body: raw, headers, env });
          expect(verifier.verify(request)._tag).toBe("Rejected");
          rejections++;
        },
      ),
      bounded,
    );
    expect(rejections).toBeGreaterThan(10);
  },
);

test("no provider of the table lets a forged request through or throws, by any method", () => {
  const all = [...everyProvider.providers, everyProvider.tokenProvider].map((provider) => {
    const sent = everyProvider.sentBy(provider);
    return {
      name: provider.name,
      verifier: provider.make(),
      sent,
      names: Object.keys(sent.headers),
    };
  });
  const method = fc.constantFrom("POST", "POST", "POST", "GET", "HEAD", "");
  const rejections = new Map<string, number>();
  fc.assert(
    fc.property(
      fc.constantFrom(...all),
      bytes,
      method,
      fc.array(fc.oneof(fc.constant(undefined), text), { minLength: 5, maxLength: 5 }),
      fc.oneof(text, fc.webUrl({ withQueryParameters: true })),
      ({ name, verifier, sent, names }, raw, how, values, url) => {
        // A right header here and there: forging the rest is what is tried.
        const headers = Object.fromEntries(
          names.map((each, i) => [each, values[i] ?? sent.headers[each]!]),
        );
        const changed = Buffer.concat([raw, Buffer.from("x")]);
        const request = requestOf({ ...sent, headers, body: changed, method: how, url });
        const tag = verifier.verify(request)._tag;
        if (name === "intercom" && how === "HEAD") {
          expect(tag).toBe("Handshake");
          return;
        }
        // The token is no signature: who has it may send anything.
        if (name === "gitlabToken" && headers[names[0]!] === sent.headers[names[0]!]) return;
        expect(tag, name).toBe("Rejected");
        rejections.set(name, (rejections.get(name) ?? 0) + 1);
      },
    ),
    forTime(TABLE_SUITE_MS),
  );
  for (const { name } of all) expect(rejections.get(name), name).toBeGreaterThan(3);
});

test("a signed request of any bytes is verified by its provider, and no entity source throws", () => {
  let runs = 0;
  fc.assert(
    fc.property(bytes, contentType, text, (raw, type, anyText) => {
      for (const [name, verifier, signer] of providers) {
        const headers = { ...signer(raw, SECRET, { nowMs: NOW_MS }), "x-team": anyText };
        const request = requestOf({
          body: raw,
          headers: { ...headers, "content-type": type },
          params: { customer: anyText },
          env,
        });
        const verdict = verifier.verify(request);
        expect(["Verified", ...(name === "slack" ? ["Handshake"] : [])]).toContain(verdict._tag);
        for (const entity of entities)
          expect(["Entity", "Missing", "Invalid"]).toContain(entity.resolve(request)._tag);
      }
      runs++;
    }),
    bounded,
  );
  expect(runs).toBeGreaterThan(10);
});

test("any request target matches a route or none", () => {
  const route = (pattern: string) =>
    webhook(pattern, { agent: "A", verify: unsigned(), entity: body("id", { trust: true }) });
  const routes = new RouteTable(["/w/:a", "/w/:a/b", "/w/c/:d", "/:x/:y/:z"].map(route));
  fc.assert(
    fc.property(fc.array(fc.oneof(text, fc.constantFrom("w", "b", "c", "%2F", "%"))), (parts) => {
      const match = routes.match(`/${parts.join("/")}`);
      for (const value of Object.values(match?.params ?? {})) expect(value).not.toBe("");
    }),
    bounded,
  );
});
