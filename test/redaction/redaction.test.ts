/** Which parts of a request are credentials: headers, and query parameters in any spelling. */
import { describe, expect, test } from "vitest";
import { Redaction, REDACTION } from "../../core/redaction/Redaction.ts";
import { causeOfConnect, causeOfEnvelope, causeOfRequest } from "../../core/journal/causeOf.ts";
import type { Sequence } from "../../schemas/Address.ts";
import * as providers from "../../services/webhooks/providers.ts";
import { schemeOf } from "../../services/webhooks/providers/Provider.ts";

describe("a URL's query", () => {
  test.each([
    "token", "access_token", "accessToken", "ACCESS-TOKEN", "refresh_token", "hub.verify_token", "id_token",
    "api_key", "apikey", "api-key", "key", "secret", "client_secret", "password", "passwd", "pwd", "auth",
    "signature", "X-Amz-Signature", "sig", "code", "jwt", "session", "%74oken", "user[password]", "to%6Ben", "+token",
    "token[]", "access_token%5B%5D", "password[0]", "client_secret[a][b]",
  ])("loses the value of %s", (name) => {
    expect(REDACTION.url(`http://h/p?a=1&${name}=hunter2&b=2#end`)).toBe(`http://h/p?a=1&${name}=REDACTED&b=2#end`);
  }); // prettier-ignore

  test.each(["name", "page", "limit", "state", "keyword", "codec", "tokens", "author", "_pk", "%"])(
    "keeps the value of %s",
    (name) => {
      const url = `http://h/p?${name}=1&x`;
      expect(REDACTION.url(url)).toBe(url);
    },
  );

  test("is unchanged except for values: order, repetitions, escapes", () => {
    expect(REDACTION.url("/p?token=a&token=b&&token&token=&q=a%20b+c=d&token=x=y")).toBe(
      "/p?token=REDACTED&token=REDACTED&&token&token=&q=a%20b+c=d&token=REDACTED",
    );
    for (const url of ["", "/", "http://h/token=1", "http://h/p?"])
      expect(REDACTION.url(url)).toBe(url);
  });

  test("is hidden with user and password of the URL, which another @ is not", () => {
    expect(REDACTION.url("https://me:hunter2@h/p?a=b@c&key=1")).toBe(
      "https://REDACTED@h/p?a=b@c&key=REDACTED",
    );
    expect(REDACTION.url("https://token@p@ss@h")).toBe("https://REDACTED@h");
    for (const url of ["https://h/@me", "/@me:x@h", "https://h?q=a@b", "mailto:me@h"])
      expect(REDACTION.url(url)).toBe(url);
  });

  test("hides the parameters that a route names", () => {
    const own = new Redaction({ query: ["T", "my_pin"] });
    expect(own.url("/p?t=1&myPin=2&token=3&u=4")).toBe(
      "/p?t=REDACTED&myPin=REDACTED&token=REDACTED&u=4",
    );
    expect(REDACTION.url("/p?t=1")).toBe("/p?t=1");
  });
});

describe("headers", () => {
  test("that are credentials are omitted, signatures stay", () => {
    const kept = { "x-hub-signature-256": "sha256=1", "content-type": "a", "idempotency-key": "1" };
    const secret = { authorization: "a", cookie: "b", "x-api-key": "c", "x-gitlab-token": "d" };
    expect(REDACTION.record({ ...kept, ...secret })).toEqual(kept);
    expect(REDACTION.record(kept)).toBe(kept);
    expect(new Redaction({ headers: ["X-Own"] }).hidesHeader("x-own")).toBe(true);
  });

  test("of a verifier whose header is the secret are named in the provider's row", () => {
    const rows = Object.values(providers).map((provider) => schemeOf(provider));
    expect(rows.length).toBeGreaterThan(25);
    const tokens = rows.filter(({ algorithm }) => algorithm === "token");
    expect(tokens).not.toEqual([]);
    for (const { secretHeaders, headers } of tokens)
      expect(secretHeaders).toEqual(headers.map(({ signature }) => signature));
  });
});

describe("the journal's record of an input", () => {
  const url = "http://h/p?token=hunter2";
  const redacted = "http://h/p?token=REDACTED";

  test("has no credentials of a request or a socket", () => {
    expect(causeOfRequest("1", "GET", url, 0).url).toBe(redacted);
    expect(causeOfConnect("1", url, 0).url).toBe(redacted);
  });

  test("has none for a webhook stored by an older gateway", () => {
    const headers = { "x-gitlab-token": "hunter2", "x-gitlab-event": "Push Hook" };
    const head = { key: "gitlab:1", kind: "webhook", time: 0, url, headers } as const;
    expect(causeOfEnvelope(head, new Uint8Array(0), 1 as Sequence, 1)).toMatchObject({
      url: redacted,
      headers: { "x-gitlab-event": "Push Hook" },
    });
  });
});
