/** Senders without a row of their own: `hmac`, whose options are one, and `unsigned`. */
import { createHash, createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hmac, sign, unsigned, type HmacScheme } from "../../services/webhooks/index.ts";
import { BODY, NOW_MS, reasonOf, SECRET, verdictOf } from "./requests.ts";

describe("hmac", () => {
  const secret = "SECRET";
  const digest = (algorithm: string, text: string, encoding: "hex" | "base64") =>
    createHmac(algorithm, SECRET).update(text).digest(encoding);

  test("with only a secret is the reference's scheme", () => {
    const headers = {
      "X-Hub-Signature-256": `sha256=${digest("sha256", BODY, "hex")}`,
      "X-Event-Type": "push",
    };
    expect(verdictOf(hmac({ secret }), { headers })).toEqual({
      _tag: "Verified",
      eventType: "push",
    });
    expect(hmac({ secret })).toMatchObject({ provider: "hmac", deadlineMs: 5000, signs: ["body"] });
  });

  const seconds = String(Math.floor(NOW_MS / 1000));
  const iso = new Date(NOW_MS).toISOString();
  const schemes: ReadonlyArray<readonly [string, HmacScheme, Record<string, string>]> = [
    [
      "sha1, base64, no prefix",
      { algorithm: "sha1", header: "X-Sig", prefix: "", encoding: "base64" },
      { "X-Sig": digest("sha1", BODY, "base64") },
    ],
    [
      "sha512 with its own prefix",
      { algorithm: "sha512" },
      { "X-Hub-Signature-256": `sha512=${digest("sha512", BODY, "hex")}` },
    ],
    [
      "a time in milliseconds before the body",
      { template: "{timestamp}{body}", timestamp: { header: "X-Time", unit: "ms" } },
      {
        "X-Time": String(NOW_MS),
        "X-Hub-Signature-256": `sha256=${digest("sha256", `${NOW_MS}${BODY}`, "hex")}`,
      },
    ],
    [
      "an ISO 8601 time",
      { template: "{timestamp}{body}", timestamp: { header: "X-Time", unit: "iso" } },
      {
        "X-Time": iso,
        "X-Hub-Signature-256": `sha256=${digest("sha256", iso + BODY, "hex")}`,
      },
    ],
    [
      "time and signature in one list",
      {
        header: "Calendly-Webhook-Signature",
        separator: ",",
        prefix: "v1=",
        template: "{timestamp}.{body}",
        timestamp: { item: "t=" },
      },
      {
        "Calendly-Webhook-Signature": `t=${seconds},v1=${digest("sha256", `${seconds}.${BODY}`, "hex")}`,
      },
    ],
    [
      "a list that begins with the time, as in the guide's example",
      {
        header: "Paddle-Signature",
        separator: ";",
        prefix: "h1=",
        template: "{timestamp}:{body}",
        timestamp: { item: "ts=" },
      },
      {
        "Paddle-Signature": `ts=${seconds};h1=${digest("sha256", `${seconds}:${BODY}`, "hex")}`,
      },
    ],
    [
      "method, URL and id in the template",
      { template: "{method} {url}|{id}|{body}", id: { header: "X-Id" }, prefix: "" },
      {
        "X-Id": "i1",
        "X-Hub-Signature-256": digest(
          "sha256",
          `POST https://example.test/webhooks/x|i1|${BODY}`,
          "hex",
        ),
      },
    ],
  ];
  test.each(schemes)(
    "verifies %s, and what sign.hmac makes of the same options",
    (_, scheme, sent) => {
      const verifier = hmac({ secret, ...scheme });
      expect(verdictOf(verifier, { headers: sent })._tag).toBe("Verified");
      expect(verdictOf(verifier, { headers: sent, body: `${BODY} ` })._tag).toBe("Rejected");
      const ours = sign.hmac(BODY, SECRET, {
        scheme,
        nowMs: NOW_MS,
        url: "https://example.test/webhooks/x",
      });
      expect(verdictOf(verifier, { headers: ours })._tag).toBe("Verified");
    },
  );

  test("takes its id and type from where the options say", () => {
    const headers = { ...sign.hmac(BODY, SECRET), "X-Delivery": "d1", "X-Kind": "k" };
    const from = (options: HmacScheme) => verdictOf(hmac({ secret, ...options }), { headers });
    expect(from({ id: { header: "X-Delivery" }, event: { header: "X-Kind" } })).toMatchObject({
      dedupId: "d1",
      eventType: "k",
    });
    expect(from({ id: { field: "id" }, event: { field: "type" } })).toMatchObject({
      dedupId: "evt_1",
      eventType: "thing.made",
    });
  });

  test("uses the body's hash for an id that JavaScript can't represent, so that no event counts as another's repetition", () => {
    const idOf = (id: string): unknown => {
      const sent = `{"id":${id}}`;
      const signature = `sha256=${digest("sha256", sent, "hex")}`;
      const headers = { "X-Hub-Signature-256": signature };
      return verdictOf(hmac({ secret, id: { field: "id" } }), { body: sent, headers });
    };
    const hash = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
    for (const id of ["1849012345678901234", "1849012345678901235"])
      expect(idOf(id)).toMatchObject({ dedupId: hash(`{"id":${id}}`) });
    expect(idOf(String(Number.MAX_SAFE_INTEGER))).toMatchObject({ dedupId: "9007199254740991" });
  });

  test("rejects options that contradict each other when they are declared", () => {
    const wrong: ReadonlyArray<readonly [HmacScheme, RegExp]> = [
      [{ template: "{timestamp}.{body}" }, /so its place is needed/],
      [{ timestamp: { header: "X-Time" } }, /a timestamp must be signed/],
      [{ template: "{timestamp}{body}", timestamp: { item: "t=" } }, /needs its separator/],
      [{ template: "{id}.{body}" }, /so its header is needed/],
      [{ template: "{id}.{body}", id: { field: "id" } }, /so its header is needed/],
      [{ template: "{nonce}{body}" }, /"\{nonce\}" is not one of/],
      [{ template: "{method}" }, /neither \{body\} nor \{url\}/],
      [{ provider: "a:b" }, /letters, digits/],
      ...[
        "call",
        "dead",
        "fork",
        "mail",
        "mail-out",
        "queue",
        "restore",
        "schedule",
        "signal-out",
        "webhook-out",
      ].map((provider) => [{ provider }, /inputs of another kind have that name/] as const),
      [{ provider: "gen" }, /choose another one/],
    ];
    for (const [options, message] of wrong)
      expect(() => hmac({ secret, ...options }), JSON.stringify(options)).toThrow(message);
  });
});

describe("unsigned", () => {
  test("does not go by the name of a provider whose signatures are verified, or of other inputs", () => {
    for (const provider of ["github", "gitlab", "standard-webhooks", "paypal", "hubspot"])
      expect(() => unsigned({ provider })).toThrow(/a verifier has that name/);
    expect(() => unsigned({ provider: "schedule" })).toThrow(/inputs of another kind/);
    expect(unsigned({ provider: "github-proxy" }).provider).toBe("github-proxy");
    expect(hmac({ secret: "SECRET", provider: "github" }).provider).toBe("github");
  });

  test("lets requests through with their id and type, and refuses an id sent twice", () => {
    const verifier = unsigned({ id: { header: "X-Id" }, replayGuard: true });
    expect(verdictOf(verifier, { headers: { "x-id": "1", "x-event-type": "a" } })).toEqual({
      _tag: "Verified",
      dedupId: "1",
      eventType: "a",
      replayId: createHash("sha256").update(BODY).digest("hex"),
    });
    expect(reasonOf(verifier, { headers: { "x-id": ["1", "2"] } })).toMatch("more than once");
    expect(verifier.signs).toEqual([]);
  });
});
