/** Providers that sign the URL, behind each kind of proxy: whose it is, what may differ in it. */
import { describe, expect, test } from "vitest";
import { urlOf } from "../../services/gateway/requests.ts";
import {
  hmac,
  hubspot,
  path,
  sign,
  square,
  twilio,
  webhook,
  type Verifier,
} from "../../services/webhooks/index.ts";
import { requestOf, type Sent } from "./requests.ts";

const secret = { value: "a secret" };
const nowMs = Date.UTC(2026, 0, 2);
const FORM = "a=1&b=2";

interface UrlSigned {
  readonly name: "twilio" | "square" | "hubspot";
  readonly make: (options: { secret: typeof secret; url?: string }) => Verifier;
  readonly body: string;
}
const signers: ReadonlyArray<UrlSigned> = [
  { name: "twilio", make: twilio, body: FORM },
  { name: "square", make: square, body: '{"event_id":"1"}' },
  { name: "hubspot", make: hubspot, body: '[{"eventId":1}]' },
];

/** What the provider sends that was told `told`, as it arrives here with `seen` for its URL. */
const sentTo = ({ name, body }: UrlSigned, told: string, seen: string, over: Sent = {}) =>
  requestOf({
    body,
    url: seen,
    nowMs,
    headers: {
      ...sign[name](body, secret.value, { url: told, nowMs }),
      ...(name === "twilio" && { "content-type": "application/x-www-form-urlencoded" }),
    },
    ...over,
  });
const tag = (verifier: Verifier, request: ReturnType<typeof requestOf>) =>
  verifier.verify(request)._tag;

/** A request as it reaches the gateway's socket. */
const arriving = (host: string, secure: boolean, target: string, publicUrl?: string): string =>
  urlOf(
    {
      method: "POST",
      target,
      headers: { host: [host] },
      secure,
      remoteAddress: "10.0.0.1",
    } as never,
    publicUrl,
  );

describe.each(signers.map((signer) => [signer.name, signer] as const))("%s", (_, signer) => {
  const TOLD = "https://hooks.example.com/webhooks/x";

  test("signs the whole URL: another host, path, query or scheme is refused", () => {
    const verifier = signer.make({ secret });
    expect(tag(verifier, sentTo(signer, TOLD, TOLD))).toBe("Verified");
    for (const seen of [
      "https://other.example.com/webhooks/x",
      "https://hooks.example.com/webhooks/y",
      "https://hooks.example.com/webhooks/X",
      "https://hooks.example.com/webhooks/x/",
      "https://hooks.example.com/webhooks/x?a=1",
      "http://hooks.example.com/webhooks/x",
      // Twilio's own library leaves the port out.
      ...(signer.name === "twilio" ? [] : ["https://hooks.example.com:8443/webhooks/x"]),
    ])
      expect(tag(verifier, sentTo(signer, TOLD, seen)), seen).toBe("Rejected");
  });

  test.each([
    ["TLS that ends at a proxy", "hooks.example.com", false],
    ["a proxy that puts its own host there", "gateway.internal:8787", false],
    ["a proxy that keeps its port in the host", "hooks.example.com:443", true],
    ["no proxy", "hooks.example.com", true],
  ])("verifies the same with the gateway's publicUrl %s", (__, host, secure) => {
    const seen = arriving(host, secure, "/webhooks/x", "https://hooks.example.com");
    expect(seen).toBe(TOLD);
    expect(tag(signer.make({ secret }), sentTo(signer, TOLD, seen))).toBe("Verified");
  });

  test("uses the request's own URL without publicUrl, so a rewritten host is refused", () => {
    const seen = arriving("gateway.internal:8787", false, "/webhooks/x");
    expect(tag(signer.make({ secret }), sentTo(signer, TOLD, seen))).toBe("Rejected");
  });

  test("says what to set when a proxy received the request at another URL", () => {
    const forwarded = (proto: string, host: string) => ({
      "x-forwarded-proto": proto,
      "x-forwarded-host": host,
    });
    const why = (seen: string, headers: Record<string, string>, url?: string) =>
      signer.make({ secret, ...(url !== undefined && { url }) }).verify(
        sentTo(signer, `${TOLD}?forged`, seen, {
          headers: { ...sentTo(signer, `${TOLD}?forged`, seen).headers, ...headers },
        }),
      );
    const rejected = (reason: unknown) => ({ _tag: "Rejected", reason });
    const hint = rejected(expect.stringContaining("set --public-url, or the verifier's url"));
    const plain = rejected("no signature matches");
    const inner = "http://gateway.internal:8787/webhooks/x";
    expect(why(inner, forwarded("https", "hooks.example.com"))).toEqual(hint);
    expect(why(inner, { "x-forwarded-proto": "https, http" })).toEqual(hint);
    expect(why(inner, {})).toEqual(plain);
    expect(why(TOLD, forwarded("https", "Hooks.example.com"))).toEqual(plain);
    expect(why(inner, forwarded("https", "hooks.example.com"), "https://other.com")).toEqual(plain);
  });

  test("replaces scheme and host by an origin given as url, and keeps path and query as received", () => {
    const verifier = signer.make({ secret, url: "https://hooks.example.com" });
    const target = "/webhooks/a%20b/?q=%C3%A9&q=+";
    const request = sentTo(
      signer,
      `https://hooks.example.com${target}`,
      `http://gateway.internal:8787${target}`,
    );
    expect(tag(verifier, request)).toBe("Verified");
    expect(verifier.signs).toContain("url");
  });

  test("replaces the request's URL by a whole one, so a proxy may rewrite the path; the query is the request's", () => {
    const verifier = signer.make({ secret, url: "https://example.com/api/hooks/" });
    const seen = "http://gateway:8787/webhooks/x";
    expect(tag(verifier, sentTo(signer, "https://example.com/api/hooks/", seen))).toBe("Verified");
    expect(tag(verifier, sentTo(signer, "https://example.com/api/hooks/?a=1", `${seen}?a=1`))).toBe(
      "Verified",
    );
    expect(tag(verifier, sentTo(signer, "https://example.com/api/hooks", seen))).toBe("Rejected");
    const withQuery = signer.make({ secret, url: "https://example.com/hooks?k=v" });
    expect(tag(withQuery, sentTo(signer, "https://example.com/hooks?k=v", seen))).toBe("Verified");
  });

  test("reads the URL from the environment; an invalid one is Misconfigured", () => {
    const verifier = signer.make({ secret, url: "PUBLIC_URL" });
    const request = (value: unknown) =>
      sentTo(signer, TOLD, "http://gateway:8787/webhooks/x", { env: { PUBLIC_URL: value } });
    expect(tag(verifier, request("https://hooks.example.com"))).toBe("Verified");
    expect(tag(verifier, request(TOLD))).toBe("Verified");
    for (const wrong of [undefined, "", "hooks.example.com", 7, "ftp://x/"])
      expect(verifier.verify(request(wrong))).toMatchObject({
        _tag: "Misconfigured",
        message: expect.stringContaining("PUBLIC_URL"),
      });
  });

  test("lets a path name the agent only if the request's own path is signed", () => {
    const route = (url?: string) =>
      webhook("/webhooks/:shop", {
        agent: "A",
        verify: signer.make({ secret, ...(url !== undefined && { url }) }),
        entity: path("shop"),
      });
    expect(() => route()).not.toThrow();
    expect(() => route("https://hooks.example.com")).not.toThrow();
    expect(() => route("https://hooks.example.com/webhooks/x")).toThrow(/trust: true/);
    expect(() => route("PUBLIC_URL")).toThrow(/trust: true/);
  });
});

describe("a provider's URL variants", () => {
  const [twilioSigner, , hubspotSigner] = signers as [UrlSigned, UrlSigned, UrlSigned];

  test("include Twilio's, with the standard port or without it; any other port stays", () => {
    const verifier = twilio({ secret });
    const at = (told: string, seen: string) => tag(verifier, sentTo(twilioSigner, told, seen));
    const bare = "https://hooks.example.com/x";
    const ported = "https://hooks.example.com:443/x";
    expect(at(bare, ported)).toBe("Verified");
    expect(at(ported, bare)).toBe("Verified");
    expect(at("http://hooks.example.com:80/x", "http://hooks.example.com/x")).toBe("Verified");
    expect(at("https://hooks.example.com:80/x", bare)).toBe("Rejected");
    expect(at("https://hooks.example.com:8443/x", bare)).toBe("Rejected");
  });

  test("exclude a normalized path of Twilio's: it chose the route", () => {
    const told = "https://hooks.example.com/webhooks/acme";
    const seen = "https://hooks.example.com/webhooks/victim/../acme";
    expect(tag(twilio({ secret }), sentTo(twilioSigner, told, seen))).toBe("Rejected");
  });

  test("include HubSpot's decoding of some characters, but nothing that would change the path", () => {
    const verifier = hubspot({ secret });
    const at = (told: string, seen: string) => tag(verifier, sentTo(hubspotSigner, told, seen));
    const base = "https://hooks.example.com/x";
    expect(at(`${base}?u=a@b.c/d?e`, `${base}?u=a%40b.c%2Fd%3Fe`)).toBe("Verified");
    expect(at(`${base}:(1)`, `${base}%3a%281%29`)).toBe("Verified");
    expect(at(`${base}/y`, `${base}%2Fy`)).toBe("Rejected");
    expect(at(`${base}?a`, `${base}%3Fa`)).toBe("Rejected");
    expect(at(`${base}?a=b c`, `${base}?a=b%20c`)).toBe("Rejected");
  });
});

test("an invalid url is refused when it is declared", () => {
  for (const url of ["", "hooks.example.com", "/x", "https://", "https://x /y", "https://x/y#z"])
    expect(() => square({ secret, url }), url).toThrow(/use an origin/);
  expect(() => hmac({ secret, url: "https://x" })).toThrow(/does not sign the URL/);
  expect(hmac({ secret, template: "{url}{body}", url: "https://x" }).signs).toEqual([
    "body",
    "url",
  ]);
});
