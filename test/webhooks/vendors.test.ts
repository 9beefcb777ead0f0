/** Both directions against the vendors' own published libraries and examples. */
import { createRequire } from "node:module";
import { sign as octokitSign, verify as octokitVerify } from "@octokit/webhooks-methods";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { isValidSlackRequest } from "@slack/bolt";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Stripe } from "stripe";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, test } from "vitest";
import {
  body,
  github,
  hmac,
  shopify,
  sign,
  slack,
  slug,
  standardWebhooks,
  stripe,
  svix,
} from "../../services/webhooks/index.ts";
import { check, NOW_MS, PASSES, requestOf, UNICODE } from "./requests.ts";

/** Shopify's library asks for the platform by a side effect. */
await import("@shopify/shopify-api/adapters/node");

const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as ReadonlyArray<{
  readonly name: string;
  readonly examples: ReadonlyArray<{ readonly repository?: { readonly full_name: string } }>;
}>;
const payloads = examples.flatMap(({ name, examples: ofName }) =>
  ofName.map((payload) => ({ name, payload, text: JSON.stringify(payload) })),
);

const PLAIN = "It's a Secret to Everybody";
const WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

describe("GitHub (@octokit/webhooks-methods)", () => {
  const verifier = github({ secret: "GITHUB_WEBHOOK_SECRET" });
  const env = { GITHUB_WEBHOOK_SECRET: PLAIN };

  test("every real payload signed by GitHub's library is verified, and refused when a byte is added", async () => {
    expect(payloads.length).toBeGreaterThan(300);
    for (const { name, text } of payloads) {
      const headers = {
        "X-Hub-Signature-256": await octokitSign(PLAIN, text),
        "X-GitHub-Event": name,
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
      };
      expect(verifier.verify(requestOf({ body: text, headers, env })), name).toEqual({
        _tag: "Verified",
        dedupId: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        eventType: name,
      });
      expect(check(verifier, { body: text, headers, env }), name).toEqual(PASSES);
    }
  });

  test("the repository of every real payload that has one names its agent", () => {
    const entity = body("repository.full_name", slug);
    for (const { payload, text } of payloads) {
      const name = payload.repository?.full_name;
      expect(entity.resolve(requestOf({ body: text }))).toEqual(
        name === undefined
          ? { _tag: "Missing", field: "repository" }
          : { _tag: "Entity", name: name.toLowerCase().replace("/", "-"), slugged: name },
      );
    }
  });

  test("GitHub's library verifies what we sign", async () => {
    for (const text of [UNICODE, payloads[0]!.text]) {
      const headers = sign.github(text, PLAIN);
      expect(await octokitVerify(PLAIN, text, headers["x-hub-signature-256"]!)).toBe(true);
      expect(await octokitVerify("another", text, headers["x-hub-signature-256"]!)).toBe(false);
    }
  });

  test("the example of GitHub's documentation is verified, by the generic HMAC's defaults too", () => {
    const sent = {
      body: "Hello, World!",
      headers: {
        "X-Hub-Signature-256":
          "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
      },
      env,
    };
    expect(check(verifier, sent)).toEqual(PASSES);
    expect(check(hmac({ secret: "GITHUB_WEBHOOK_SECRET" }), sent)).toEqual(PASSES);
  });
});

describe("Stripe (stripe)", () => {
  const stripeLibrary = new Stripe("sk_test_x");
  const verifier = stripe({ secret: "STRIPE_WEBHOOK_SECRET" });
  const env = { STRIPE_WEBHOOK_SECRET: WHSEC };

  test("what Stripe's library signs is verified, with the event's id and type from the body", () => {
    const header = stripeLibrary.webhooks.generateTestHeaderString({
      payload: UNICODE,
      secret: WHSEC,
      timestamp: Math.floor(NOW_MS / 1000),
    });
    const sent = { body: UNICODE, headers: { "Stripe-Signature": header }, env };
    expect(verifier.verify(requestOf(sent))).toEqual({
      _tag: "Verified",
      dedupId: "evt_1",
      eventType: "a.b",
    });
    expect(check(verifier, sent)).toEqual(PASSES);
  });

  test("Stripe's library accepts what we sign, with one secret and with two", () => {
    for (const secrets of [[WHSEC], ["whsec_other", WHSEC]]) {
      const header = sign.stripe(UNICODE, secrets, { nowMs: NOW_MS })["stripe-signature"]!;
      const accept = (secret: string) =>
        stripeLibrary.webhooks.constructEvent(UNICODE, header, secret, 300, undefined, NOW_MS);
      expect(accept(WHSEC)).toEqual(JSON.parse(UNICODE));
      expect(() => accept("whsec_wrong")).toThrow(/No signatures found/);
    }
  });

  test("both libraries end the replay window at the same second", () => {
    const headers = sign.stripe(UNICODE, WHSEC, { nowMs: NOW_MS });
    for (const [lateMs, accepted] of [
      [300_000 + 321, true],
      [300_000 + 322, false],
    ] as const) {
      const nowMs = NOW_MS + lateMs;
      const ours = verifier.verify(requestOf({ body: UNICODE, headers, env, nowMs }));
      expect(ours._tag).toBe(accepted ? "Verified" : "Rejected");
      const theirs = () =>
        stripeLibrary.webhooks.constructEvent(
          UNICODE,
          headers["stripe-signature"]!,
          WHSEC,
          300,
          undefined,
          nowMs,
        );
      if (accepted) expect(theirs).not.toThrow();
      else expect(theirs).toThrow(/tolerance/);
    }
  });
});

describe("Slack (@slack/bolt)", () => {
  const secret = "8f742231b10e8888abcd99yyyzzz85a5";
  const verifier = slack({ secret: "SLACK_SIGNING_SECRET" });
  const env = { SLACK_SIGNING_SECRET: secret };

  test("Slack's library accepts what we sign, and nothing else", () => {
    const headers = sign.slack(UNICODE, secret, { nowMs: NOW_MS });
    const accepts = (over: { body?: string; signingSecret?: string; nowMilliseconds?: number }) =>
      isValidSlackRequest({
        signingSecret: secret,
        body: UNICODE,
        nowMilliseconds: NOW_MS,
        headers: {
          "x-slack-signature": headers["x-slack-signature"]!,
          "x-slack-request-timestamp": Number(headers["x-slack-request-timestamp"]),
        },
        ...over,
      });
    expect(accepts({})).toBe(true);
    expect(accepts({ body: `${UNICODE} ` })).toBe(false);
    expect(accepts({ signingSecret: "x" })).toBe(false);
    expect(accepts({ nowMilliseconds: NOW_MS + 301_000 })).toBe(false);
    expect(check(verifier, { body: UNICODE, headers, env })).toEqual(PASSES);
  });

  test("the example of Slack's documentation is verified at its time", () => {
    const form =
      "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const sent = {
      body: form,
      headers: {
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "X-Slack-Request-Timestamp": "1531420618",
        "Content-Type": "application/x-www-form-urlencoded",
      },
      env,
      nowMs: 1531420618_000,
    };
    expect(check(verifier, sent)).toEqual(PASSES);
    expect(verifier.verify(requestOf(sent))).toMatchObject({ eventType: "/webhook-collect" });
    expect(body("team_id").resolve(requestOf(sent))).toEqual({ _tag: "Entity", name: "T1DC2JH3J" });
  });
});

describe("Shopify (@shopify/shopify-api)", () => {
  const secret = "shpss_5c2f1e0ab";
  const verifier = shopify({ secret: "SHOPIFY_CLIENT_SECRET" });
  const env = { SHOPIFY_CLIENT_SECRET: secret };
  const library = shopifyApi({
    apiKey: "key",
    apiSecretKey: secret,
    apiVersion: Object.values(ApiVersion)[0]!,
    hostName: "example.test",
    isEmbeddedApp: false,
    logger: { log: () => {} },
  });
  const validate = (rawBody: string, headers: Record<string, string>) =>
    library.webhooks.validate({
      rawBody,
      rawRequest: { method: "POST", url: "/", headers },
      rawResponse: {},
    });
  const described = {
    "x-shopify-shop-domain": "a.myshopify.com",
    "x-shopify-api-version": "2026-01",
  };

  test("Shopify's library accepts what we sign, and refuses it changed", async () => {
    const signed = sign.shopify(UNICODE, secret, { id: "d-1", event: "orders/create" });
    const headers = { ...signed, ...described };
    expect(await validate(UNICODE, headers)).toMatchObject({ valid: true, webhookId: "d-1" });
    expect(await validate(`${UNICODE} `, headers)).toMatchObject({ valid: false });
    expect(verifier.verify(requestOf({ body: UNICODE, headers, env }))).toEqual({
      _tag: "Verified",
      dedupId: "d-1",
      eventType: "orders/create",
    });
    expect(check(verifier, { body: UNICODE, headers, env })).toEqual(PASSES);
  });

  test("the header names of Shopify's newer events are read, too", async () => {
    const old = sign.shopify(UNICODE, secret, { id: "d-2", event: "orders/create" });
    const headers = Object.fromEntries(
      Object.entries({ ...old, ...described, "x-shopify-event-id": "e-1" }).map(([name, value]) => [
        name.slice("x-".length),
        value,
      ]),
    );
    expect(await validate(UNICODE, headers)).toMatchObject({ valid: true, webhookId: "d-2" });
    expect(verifier.verify(requestOf({ body: UNICODE, headers, env }))).toMatchObject({
      dedupId: "d-2",
      eventType: "orders/create",
    });
    expect(check(verifier, { body: UNICODE, headers, env })).toEqual(PASSES);
  });
});

describe("Standard Webhooks and Svix (standardwebhooks, svix)", () => {
  const env = { SECRET: WHSEC };
  const libraries = [
    ["standardwebhooks", new StandardWebhook(WHSEC), "webhook", standardWebhooks],
    ["svix", new SvixWebhook(WHSEC), "svix", svix],
    ["svix with unbranded headers", new SvixWebhook(WHSEC), "webhook", svix],
    ["standardwebhooks with Svix's headers", new StandardWebhook(WHSEC), "svix", standardWebhooks],
  ] as const;

  test.each(libraries)("what %s signs is verified", (_, library, family, make) => {
    const signature = library.sign("msg_1", new Date(NOW_MS), UNICODE);
    const headers = {
      [`${family}-id`]: "msg_1",
      [`${family}-timestamp`]: String(Math.floor(NOW_MS / 1000)),
      [`${family}-signature`]: `v1a,bm90IG91cnM= v1,AAAA ${signature}`,
    };
    for (const secret of [WHSEC, WHSEC.slice("whsec_".length)]) {
      const sent = { body: UNICODE, headers, env: { SECRET: secret } };
      expect(make({ secret: "SECRET" }).verify(requestOf(sent))).toEqual({
        _tag: "Verified",
        dedupId: "msg_1",
        eventType: "a.b",
      });
      expect(check(make({ secret: "SECRET" }), sent)).toEqual(PASSES);
    }
    const other = { ...headers, [`${family}-id`]: "msg_2" };
    const verdict = make({ secret: "SECRET" }).verify(
      requestOf({ body: UNICODE, headers: other, env }),
    );
    expect(verdict._tag, "the id is signed").toBe("Rejected");
  });

  test("their libraries accept what we sign now", () => {
    const standard = sign.standardWebhooks(UNICODE, [WHSEC]);
    expect(new StandardWebhook(WHSEC).verify(UNICODE, standard)).toEqual(JSON.parse(UNICODE));
    const branded = sign.svix(UNICODE, ["whsec_c2Vjb25k", WHSEC]);
    expect(new SvixWebhook(WHSEC).verify(UNICODE, branded)).toEqual(JSON.parse(UNICODE));
    expect(() => new SvixWebhook(WHSEC).verify(`${UNICODE} `, branded)).toThrow(/No matching/);
  });

  test("the example of the Standard Webhooks document is verified at its time", () => {
    const sent = {
      body: '{"event_type":"ping","data":{"success":true}}',
      headers: {
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
      },
      env: { SECRET: "whsec_plJ3nmyCDGBKInavdOK15jsl" },
      nowMs: 1731705121_000,
    };
    expect(check(standardWebhooks({ secret: "SECRET" }), sent)).toEqual(PASSES);
  });
});
