/** The rules that hold for every provider's row: headers, times, secrets, encodings, handshakes. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { answerOfVerdict } from "../../core/webhook/answers.ts";
import { allowsMethod } from "../../core/webhook/WebhookRoute.ts";
import {
  constant,
  github,
  hmac,
  shopify,
  sign,
  slack,
  standardWebhooks,
  stripe,
  svix,
  unsigned,
  webhook,
  type Secret,
  type Sign,
  type TimestampedOptions,
  type Verifier,
} from "../../services/webhooks/index.ts";
import { BODY, NOW_MS, OTHER, reasonOf, SECRET, verdictOf } from "./requests.ts";

const timestamped: ReadonlyArray<
  readonly [string, (options: TimestampedOptions) => Verifier, Sign]
> = [
  ["stripe", stripe, sign.stripe],
  ["slack", slack, sign.slack],
  ["standardWebhooks", standardWebhooks, sign.standardWebhooks],
  ["svix", svix, sign.svix],
];
const all = [
  ...timestamped,
  ["github", github, sign.github] as const,
  ["shopify", shopify, sign.shopify] as const,
  ["hmac", hmac, sign.hmac] as const,
];

test("a header with more signatures than a provider sends is refused, and the reason has the limit", () => {
  const verifier = svix({ secret: "SECRET" });
  const headers = sign.svix(BODY, SECRET, { nowMs: NOW_MS });
  const name = Object.keys(headers).find((each) => each.endsWith("signature"))!;
  const { [name]: own } = headers;
  const of = (count: number) => ({ ...headers, [name]: Array(count).fill(own).join(" ") });
  expect(verdictOf(verifier, { headers: of(16) })._tag).toBe("Verified");
  expect(reasonOf(verifier, { headers: of(17) })).toBe("17 signatures in one header; at most 16");
  expect(reasonOf(verifier, { headers: { ...headers, [name]: `${own}  ${own}` } })).toMatch(
    "an empty item",
  );
});

describe.each(all)("%s", (_, make, signer) => {
  const signed = (secret: string, body: string | Uint8Array = BODY) =>
    signer(body, secret, { nowMs: NOW_MS });

  test("accepts its own signature over any bytes, and refuses any other bytes or secret", () => {
    const binary = Uint8Array.from({ length: 1000 }, (__, i) => (i * 7) % 256);
    for (const body of [BODY, "", "é🐎", binary]) {
      const verifier = make({ secret: "SECRET" });
      const headers = signed(SECRET, body);
      expect(verdictOf(verifier, { body, headers })._tag).toBe("Verified");
      expect(reasonOf(verifier, { body, headers: signed(OTHER, body) })).toMatch("no signature");
      const longer = Buffer.concat([Buffer.from(body), Buffer.from("\n")]);
      expect(reasonOf(verifier, { body: longer, headers })).toMatch("no signature matches");
    }
    const flipped = binary.with(500, binary[500]! ^ 1);
    expect(
      reasonOf(make({ secret: "SECRET" }), { body: flipped, headers: signed(SECRET, binary) }),
    ).toBe("no signature matches");
  });

  test("refuses a request when any header of the signature is missing, empty or repeated", () => {
    const headers = signed(SECRET);
    const verifier = make({ secret: "SECRET" });
    const unsignedId = /^x-(github|shopify)/;
    for (const name of Object.keys(headers)) {
      if (!unsignedId.test(name) || name.includes("hmac")) {
        const { [name]: __, ...rest } = headers;
        expect(reasonOf(verifier, { headers: rest }), name).toMatch(/^no /);
        expect(reasonOf(verifier, { headers: { ...headers, [name]: "" } }), name).toMatch(/^no /);
      }
      const twice = { ...headers, [name]: [headers[name]!, headers[name]!] };
      expect(reasonOf(verifier, { headers: twice }), name).toMatch("more than once");
      const joined = { ...headers, [name]: `${headers[name]}, ${headers[name]}` };
      if (!unsignedId.test(name) || name.includes("hmac"))
        expect(verdictOf(verifier, { headers: joined })._tag, name).toBe("Rejected");
    }
  });

  test("refuses another spelling of the right signature", () => {
    const headers = signed(SECRET);
    const name = Object.keys(headers).find((n) => /sign|hmac/.test(n))!;
    const value = headers[name]!;
    for (const other of [value.toUpperCase(), value.slice(0, -1), `${value}0`, ` ${value}`])
      expect(
        verdictOf(make({ secret: "SECRET" }), { headers: { ...headers, [name]: other } })._tag,
        other,
      ).toBe("Rejected");
  });

  test("accepts two live secrets, so a secret can be rotated without a gap", () => {
    const verifier = make({ secret: ["SECRET", { value: OTHER }] });
    for (const secret of [SECRET, OTHER])
      expect(verdictOf(verifier, { headers: signed(secret) })._tag).toBe("Verified");
    expect(reasonOf(verifier, { headers: signed("whsec_dGhyZWU=") })).toMatch("no signature");
  });

  test("is Misconfigured with an unset secret, and never takes the variable's name for the secret", () => {
    const verifier = make({ secret: "THE_WEBHOOK_SECRET" });
    for (const env of [{}, { THE_WEBHOOK_SECRET: "" }, { THE_WEBHOOK_SECRET: { get: 1 } }]) {
      const verdict = verdictOf(verifier, {
        headers: sign.github(BODY, "THE_WEBHOOK_SECRET"),
        env,
      });
      expect(verdict).toMatchObject({
        _tag: "Misconfigured",
        message: expect.stringContaining("THE_WEBHOOK_SECRET"),
      });
      expect(answerOfVerdict(verdict)?.status).toBe(500);
    }
  });

  test("uses a changed secret from the next request on", () => {
    const verifier = make({ secret: "SECRET" });
    const headers = signed(OTHER);
    expect(reasonOf(verifier, { headers })).toMatch("no signature");
    expect(verdictOf(verifier, { headers, env: { SECRET: OTHER } })._tag).toBe("Verified");
    expect(reasonOf(verifier, { headers })).toMatch("no signature");
    expect(verdictOf(verifier, { headers, env: {} })._tag).toBe("Misconfigured");
  });

  test("has the raw body's hash as the replay guard's id, and none without the guard", () => {
    const headers = signed(SECRET);
    expect(verdictOf(make({ secret: "SECRET", replayGuard: true }), { headers })).toMatchObject({
      replayId: createHash("sha256").update(BODY).digest("hex"),
    });
    expect(verdictOf(make({ secret: "SECRET" }), { headers })).not.toHaveProperty("replayId");
  });
});

describe.each(timestamped)("the signed time of %s", (_, make, signer) => {
  const at = (signedMs: number) => ({ headers: signer(BODY, SECRET, { nowMs: signedMs }) });

  test("may be as far from now as the tolerance, either way, and no further", () => {
    for (const [options, seconds] of [
      [{}, 300],
      [{ toleranceSeconds: 10 }, 10],
    ] as const) {
      const verifier = make({ secret: "SECRET", ...options });
      for (const sense of [1, -1]) {
        expect(verdictOf(verifier, at(NOW_MS + sense * seconds * 1000))._tag).toBe("Verified");
        expect(reasonOf(verifier, at(NOW_MS + sense * (seconds + 1) * 1000))).toMatch(
          sense > 0 ? "s ahead" : "s old",
        );
      }
    }
  });

  test("must be digits, even with a valid signature", () => {
    const seconds = String(Math.floor(NOW_MS / 1000));
    for (const wrong of [
      "",
      "now",
      "-1",
      "1e9",
      `${seconds}.5`,
      `${seconds}x`,
      ` ${seconds}`,
      "NaN",
    ]) {
      const headers = at(NOW_MS).headers;
      for (const name of Object.keys(headers))
        headers[name] = headers[name]!.replace(seconds, wrong);
      expect(reasonOf(make({ secret: "SECRET" }), { headers }), wrong).toMatch(/timestamp|header/);
    }
  });

  test("has a valid tolerance, or is refused when it is declared", () => {
    for (const toleranceSeconds of [0, -1, NaN, Infinity, 8 * 24 * 3600])
      expect(() => make({ secret: "SECRET", toleranceSeconds })).toThrow(/use 1 to 604800 seconds/);
  });
});

test("a tolerance for a provider that signs no time is refused when it is declared", () => {
  expect(() => github({ secret: "S", toleranceSeconds: 60 } as TimestampedOptions)).toThrow(
    /signs no timestamp.*replayGuard/,
  );
});

describe("secrets", () => {
  test("are refused, and not printed, if they can't be a variable's name", () => {
    for (const secret of ["It's a secret", "whsec_abc", "9f86d081", "", "a-b"]) {
      let message = "";
      try {
        github({ secret });
      } catch (error) {
        message = (error as Error).message;
      }
      expect(message, secret).toMatch(/name of an environment variable.*\{ value: … \}/);
      if (secret !== "") expect(message).not.toContain(secret);
    }
  });

  test("never appear in messages, even if given as a name", () => {
    const verdict = verdictOf(github({ secret: "d41d8cd98f00b204e9800998ecf8427e" }), {});
    expect(JSON.stringify(verdict)).toContain("d41…");
    expect(JSON.stringify(verdict)).not.toContain("d41d8");
  });

  test("are refused when declared if a literal is empty, or not base64 where required", () => {
    expect(() => github({ secret: { value: " " } })).toThrow(/is empty/);
    expect(() => svix({ secret: { value: "whsec_not base64" } })).toThrow(/is not base64/);
    expect(() => svix({ secret: { value: "whsec_" } })).toThrow(/is not base64/);
    const none: ReadonlyArray<Secret> = [];
    expect(() => github({ secret: none })).toThrow(/use 1 to 8 secrets/);
  });

  test("in a list may be unset while another is set; an empty one is refused", () => {
    const verifier = github({ secret: ["NEW", "OLD"] });
    const headers = sign.github(BODY, SECRET);
    expect(verdictOf(verifier, { headers, env: { NEW: SECRET } })._tag).toBe("Verified");
    expect(verdictOf(verifier, { headers, env: { OLD: SECRET } })._tag).toBe("Verified");
    expect(verdictOf(verifier, { headers, env: {} })).toMatchObject({
      _tag: "Misconfigured",
      message: expect.stringContaining("NEW and OLD are not set"),
    });
    expect(verdictOf(verifier, { headers, env: { NEW: SECRET, OLD: "" } })).toMatchObject({
      _tag: "Misconfigured",
      message: expect.stringContaining("OLD is empty"),
    });
  });

  test("are listed by their variables' names, without literals", () => {
    expect(github({ secret: ["NEW", { value: "x" }, "OLD"] }).secretNames).toEqual(["NEW", "OLD"]);
    expect(unsigned().secretNames).toBeUndefined();
  });

  test("include surrounding white space, which is logged", () => {
    const env = { SECRET: `${SECRET}\n` };
    const verifier = github({ secret: "SECRET" });
    expect(reasonOf(verifier, { env, headers: sign.github(BODY, SECRET) })).toMatch(
      "SECRET begins or ends with white space",
    );
    expect(verdictOf(verifier, { env, headers: sign.github(BODY, `${SECRET}\n`) })._tag).toBe(
      "Verified",
    );
  });
});

describe("ids and types", () => {
  test("are replaced by a hash if the id would not be safe in a key", () => {
    const verifier = github({ secret: "SECRET" });
    const idOf = (id: string) =>
      verdictOf(verifier, {
        headers: { ...sign.github(BODY, SECRET), "x-github-delivery": id },
      });
    expect(idOf("a-1")).toMatchObject({ dedupId: "a-1" });
    for (const id of ["a b", "a\r\nb", "é", "x".repeat(257)])
      expect(idOf(id)).toMatchObject({
        dedupId: `sha256:${createHash("sha256").update(id).digest("hex")}`,
      });
    expect(idOf("")).not.toHaveProperty("dedupId");
  });

  test("are optional in a body that is verified", () => {
    for (const body of ["[]", "null", "not json", '{"id":null,"type":{"a":1}}']) {
      const headers = sign.stripe(body, SECRET, { nowMs: NOW_MS });
      expect(verdictOf(stripe({ secret: "SECRET" }), { body, headers })).toEqual({
        _tag: "Verified",
      });
    }
  });
});

describe("Slack's handshakes", () => {
  const verifier = slack({ secret: "SECRET" });
  const challenge = '{"type":"url_verification","challenge":"3eZbrw1a <b>","token":"x"}';

  test("answer the challenge only after its signature is verified", () => {
    const headers = sign.slack(challenge, SECRET, { nowMs: NOW_MS });
    expect(verdictOf(verifier, { body: challenge, headers })).toEqual({
      _tag: "Handshake",
      answer: {
        status: 200,
        headers: {
          "content-type": "text/plain; charset=utf-8",
          "x-content-type-options": "nosniff",
        },
        body: "3eZbrw1a <b>",
      },
    });
    expect(verdictOf(verifier, { body: challenge })._tag).toBe("Rejected");
    const forged = sign.slack(challenge, OTHER, { nowMs: NOW_MS });
    expect(verdictOf(verifier, { body: challenge, headers: forged })._tag).toBe("Rejected");
  });

  test("answer the certificate check with 200; an event is not a handshake", () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const check = "ssl_check=1&token=abc";
    expect(
      verdictOf(verifier, {
        body: check,
        headers: { ...sign.slack(check, SECRET, { nowMs: NOW_MS }), ...form },
      }),
    ).toMatchObject({ _tag: "Handshake", answer: { status: 200, body: "" } });
    const event =
      '{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"},"challenge":"x"}';
    const headers = {
      ...sign.slack(event, SECRET, { nowMs: NOW_MS }),
      "X-Slack-Retry-Num": "2",
      "X-Slack-Retry-Reason": "http_timeout",
    };
    expect(verdictOf(verifier, { body: event, headers })).toEqual({
      _tag: "Verified",
      dedupId: "Ev1",
      eventType: "app_mention",
      attempt: 3,
    });
  });
});

test("POST is allowed everywhere, another method only if the provider's handshake uses it", () => {
  const route = webhook("/w", { agent: "A", verify: unsigned(), entity: constant("a") });
  expect(allowsMethod(route, "POST")).toBe(true);
  for (const method of ["GET", "PUT", "post"]) expect(allowsMethod(route, method)).toBe(false);
  const handshaking = { ...route, verifier: { ...route.verifier, handshakeMethods: ["GET"] } };
  expect(allowsMethod(handshaking, "GET")).toBe(true);
});
