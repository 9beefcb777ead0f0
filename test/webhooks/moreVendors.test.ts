/** The other providers against their libraries, or what these made once, or their examples. */
import { createHash, generateKeyPairSync, sign as signBytes } from "node:crypto";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import { signWebhookPayload, verifyWebhookSignature } from "@notionhq/client";
import sendgridLibrary from "@sendgrid/eventwebhook";
import { WorkOS } from "@workos-inc/node";
import { verifyKey } from "discord-interactions";
import { Webhook as StandardWebhook } from "standardwebhooks";
import * as twilioLibrary from "twilio/lib/webhooks/webhooks.js";
import { describe, expect, test } from "vitest";
import {
  discord,
  elevenlabs,
  gitlab,
  hubspot,
  intercom,
  linear,
  notion,
  retell,
  sendgrid,
  sign,
  square,
  twilio,
  workos,
} from "../../services/webhooks/index.ts";
import { check, PASSES, requestOf, UNICODE } from "./requests.ts";

const secret = { value: "It's a Secret to Everybody" };
const FORM = "application/x-www-form-urlencoded";

describe("Twilio (twilio)", () => {
  const verifier = twilio({ secret });
  const params = {
    To: "+15551234",
    From: "+1 (555)",
    Body: "žluť & 🐎 = 1",
    Empty: "",
    AaB: "1",
    Aab: "2",
  };
  const form = new URLSearchParams(params).toString();
  const url = "https://hooks.example.com/webhooks/twilio?a=b%20c&d=e";

  test("signs what we verify, and accepts what we sign", () => {
    const signature = twilioLibrary.getExpectedTwilioSignature(secret.value, url, params);
    const headers = { "X-Twilio-Signature": signature, "Content-Type": FORM };
    expect(check(verifier, { body: form, headers, url })).toEqual(PASSES);
    const ours = sign.twilio(form, secret.value, { url })["x-twilio-signature"]!;
    expect(twilioLibrary.validateRequest(secret.value, ours, url, params)).toBe(true);
    expect(twilioLibrary.validateRequest(secret.value, ours, url, { ...params, To: "x" })).toBe(
      false,
    );
  });

  test("signs a field sent several times once for each of its values, sorted", () => {
    const repeated = { M: ["b", "a", "b"], N: "1" };
    const signature = twilioLibrary.getExpectedTwilioSignature(secret.value, url, repeated);
    const headers = { "X-Twilio-Signature": signature, "Content-Type": FORM };
    expect(check(verifier, { body: "M=b&N=1&M=a&M=b", headers, url })).toEqual(PASSES);
  });

  test("covers JSON by its hash in the signed URL, and is refused without one", () => {
    const hash = createHash("sha256").update(UNICODE).digest("hex");
    const hashed = `${url}&bodySHA256=${hash}`;
    const ours = sign.twilio(UNICODE, secret.value, { url: hashed })["x-twilio-signature"]!;
    expect(twilioLibrary.validateRequestWithBody(secret.value, ours, hashed, UNICODE)).toBe(true);
    const headers = { "X-Twilio-Signature": ours, "Content-Type": "application/json" };
    expect(check(verifier, { body: UNICODE, headers, url: hashed })).toEqual(PASSES);
    const unhashed = {
      "X-Twilio-Signature": twilioLibrary.getExpectedTwilioSignature(secret.value, url, {}),
      "Content-Type": "application/json",
    };
    expect(verifier.verify(requestOf({ body: UNICODE, headers: unhashed, url }))).toMatchObject({
      _tag: "Rejected",
      reason: expect.stringContaining("not a form"),
    });
    expect(() => sign.twilio("é\xff", secret.value, { url })).not.toThrow();
    expect(() => sign.twilio(Uint8Array.of(0xff), secret.value, { url })).toThrow(/bodySHA256/);
  });

  /** By its release 6.3.1; the installed one has no SharedKeys. */
  test("signs with SHA-256 where a header says so, as its SharedKeys do", () => {
    const to = { url: "https://hooks.example.com/webhooks/twilio?a=b" };
    const body = "Body=%C5%BElu%C5%A5%20%F0%9F%90%8E&To=%2B1555";
    const keys = twilio({ secret: [{ value: "auth-token" }, { value: "shared-secret" }] });
    const signed = (settings: string | ReadonlyArray<string>, from = keys) => {
      const headers = {
        "X-Twilio-Signature": "gr+WMccFjTZ1dKz9in5zI9od/uerepEyKiCejJSvAnc=",
        "X-Twilio-Webhooks-Signature-Settings": settings,
        "Content-Type": FORM,
      };
      return check(from, { body, headers, ...to });
    };
    expect(signed("key=webhooks_sharedkey_1,algorithm=HMAC_SHA256")).toEqual(PASSES);
    expect(signed("algorithm = hmac_sha256 , key=x")).toEqual(PASSES);
    const refused = ["Rejected", "Rejected"];
    for (const settings of [
      "",
      "key=x",
      "algorithm=HMAC_SHA1",
      "algorithm=HMAC_MD5",
      ["algorithm=HMAC_SHA256", "key=x"],
    ])
      // prettier-ignore
      expect(signed(settings), String(settings)).toEqual(refused);
    expect(signed("algorithm=HMAC_SHA256", verifier)).toEqual(refused);
    const headers = {
      ...sign.twilio(body, "auth-token", to),
      "X-Twilio-Webhooks-Signature-Settings": "key=x,algorithm=HMAC_SHA1",
      "Content-Type": FORM,
    };
    expect(check(keys, { body, headers, ...to })).toEqual(PASSES);
  });

  test("accepts the URLs that we accept for a signature, and no other", () => {
    const shapes = [
      "https://hooks.example.com/x",
      "https://hooks.example.com:443/x",
      "https://hooks.example.com:8443/x",
      "http://hooks.example.com/x",
      "http://hooks.example.com:80/x",
      "https://hooks.example.com/x/",
      "https://hooks.example.com/x?q=it's%20%C3%A9",
      "https://hooks.example.com/x?q=it%27s%20%C3%A9",
      "https://hooks.example.com/x?",
      "https://user:pw@hooks.example.com/x",
      "https://[2001:db8::1]/x",
      "https://[2001:db8::1]:443/x",
    ];
    let accepted = 0;
    for (const signedUrl of shapes)
      for (const seenUrl of shapes) {
        const signature = twilioLibrary.getExpectedTwilioSignature(secret.value, signedUrl, params);
        const theirs = twilioLibrary.validateRequest(secret.value, signature, seenUrl, params);
        const headers = { "X-Twilio-Signature": signature, "Content-Type": FORM };
        const ours = verifier.verify(requestOf({ body: form, headers, url: seenUrl }));
        expect(ours._tag === "Verified", `${signedUrl} seen as ${seenUrl}`).toBe(theirs);
        if (theirs) accepted++;
      }
    expect(accepted).toBeGreaterThan(shapes.length);
  });
});

describe("SendGrid (@sendgrid/eventwebhook)", () => {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const pem = keys.publicKey.export({ type: "spki", format: "pem" }).toString();
  const base64 = keys.publicKey.export({ type: "spki", format: "der" }).toString("base64");
  const library = new sendgridLibrary.EventWebhook();
  const privateKey = keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();

  test("accepts what we sign, and refuses it changed", () => {
    for (let i = 0; i < 5; i++) {
      const headers = sign.sendgrid(UNICODE, privateKey);
      const accepts = (body: string) =>
        library.verifySignature(
          library.convertPublicKeyToECDSA(pem),
          body,
          headers["x-twilio-email-event-webhook-signature"]!,
          headers["x-twilio-email-event-webhook-timestamp"]!,
        );
      expect(accepts(UNICODE)).toBe(true);
      expect(accepts(`${UNICODE} `)).toBe(false);
      for (const publicKey of [{ value: pem }, { value: base64 }])
        expect(
          check(sendgrid({ publicKey }), { body: UNICODE, headers, nowMs: Date.now() }),
        ).toEqual(PASSES);
    }
  });

  test("has an example in its own libraries' tests that is verified at its time", () => {
    const publicKey = {
      value:
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
    };
    const events = [
      {
        email: "hello@world.com",
        event: "dropped",
        reason: "Bounced Address",
        sg_event_id: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
        sg_message_id: "LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",
        "smtp-id": "<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",
        timestamp: 1600112492,
      },
    ];
    const sent = {
      body: `${JSON.stringify(events)}\r\n`,
      headers: {
        "X-Twilio-Email-Event-Webhook-Signature":
          "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        "X-Twilio-Email-Event-Webhook-Timestamp": "1600112502",
      },
      nowMs: 1600112502_000,
    };
    expect(check(sendgrid({ publicKey }), sent)).toEqual(PASSES);
    expect(sendgrid({ publicKey }).verify(requestOf(sent))).toMatchObject({
      items: [{ dedupId: "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA" }],
    });
  });
});

test("GitLab (standardwebhooks): both ways, whatever plain token comes beside it", () => {
  const signingToken = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const library = new StandardWebhook(signingToken);
  const nowMs = Date.now();
  const headers = {
    "webhook-id": "f5c9a2d1",
    "webhook-timestamp": String(Math.floor(nowMs / 1000)),
    "webhook-signature": library.sign("f5c9a2d1", new Date(nowMs), UNICODE),
    "X-Gitlab-Event": "Push Hook",
    "X-Gitlab-Token": "whatever",
  };
  const verifier = gitlab({ secret: { value: signingToken } });
  const sent = { body: UNICODE, headers, nowMs };
  expect(verifier.verify(requestOf(sent))).toEqual({
    _tag: "Verified",
    dedupId: "f5c9a2d1",
    eventType: "Push Hook",
  });
  expect(check(verifier, sent)).toEqual(PASSES);
  const ours = sign.gitlab(UNICODE, signingToken);
  expect(library.verify(UNICODE, ours)).toEqual(JSON.parse(UNICODE));
});

test("Linear (@linear/sdk): its library accepts what we sign, and so do we, for a minute", () => {
  const library = new LinearWebhookClient(secret.value);
  const nowMs = Date.now();
  for (const [age, accepted] of [
    [0, true],
    [50_000, true],
    [70_000, false],
    [-70_000, false],
  ] as const) {
    const body = JSON.stringify({ type: "Issue", text: "🐎", webhookTimestamp: nowMs - age });
    const headers = sign.linear(body, secret.value);
    const theirs = () => library.verify(Buffer.from(body), headers["linear-signature"]!);
    if (accepted) expect(theirs()).toBe(true);
    else expect(theirs).toThrow(/timestamp/);
    const ours = linear({ secret }).verify(requestOf({ body, headers, nowMs }));
    expect(ours._tag).toBe(accepted ? "Verified" : "Rejected");
    expect(() => library.verify(Buffer.from(`${body} `), headers["linear-signature"]!)).toThrow();
  }
});

test("Discord (discord-interactions): its library accepts what we sign, and refuses it changed", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const hex = (key: typeof privateKey, part: "d" | "x") =>
    Buffer.from(key.export({ format: "jwk" })[part]!, "base64url").toString("hex");
  const shown = hex(publicKey, "x");
  const headers = sign.discord(UNICODE, hex(privateKey, "d"));
  const [signature, timestamp] = [
    headers["x-signature-ed25519"]!,
    headers["x-signature-timestamp"]!,
  ];
  expect(await verifyKey(UNICODE, signature, timestamp, shown)).toBe(true);
  expect(await verifyKey(`${UNICODE} `, signature, timestamp, shown)).toBe(false);
  expect(await verifyKey(UNICODE, signature, `${timestamp}1`, shown)).toBe(false);
  const sent = { body: UNICODE, headers, nowMs: Date.now() };
  expect(check(discord({ publicKey: { value: shown } }), sent)).toEqual(PASSES);
  const theirs = signBytes(null, Buffer.from(timestamp + UNICODE), privateKey).toString("hex");
  expect(signature, "Ed25519 has one signature of a message").toBe(theirs);
});

test("Notion (@notionhq/client): both ways", async () => {
  const verificationToken = secret.value;
  const theirs = await signWebhookPayload({ body: UNICODE, verificationToken });
  const headers = { "X-Notion-Signature": theirs };
  expect(check(notion({ secret }), { body: UNICODE, headers })).toEqual(PASSES);
  const signature = sign.notion(UNICODE, secret.value)["x-notion-signature"]!;
  expect(await verifyWebhookSignature({ body: UNICODE, signature, verificationToken })).toBe(true);
});

describe("WorkOS (@workos-inc/node)", () => {
  const { webhooks } = new WorkOS("sk_test_x");
  const body = JSON.stringify({ id: "wh_1", event: "user.created", data: { text: "žluť 🐎" } });

  test("accepts our signatures, and we accept its, with or without a blank in the list", async () => {
    const headers = sign.workos(body, secret.value);
    const sigHeader = headers["workos-signature"]!;
    const payload = JSON.parse(body) as Record<string, unknown>;
    expect(await webhooks.verifyHeader({ payload, sigHeader, secret: secret.value })).toBe(true);
    const wrong = webhooks.verifyHeader({
      payload: { ...payload, x: 1 },
      sigHeader,
      secret: secret.value,
    });
    await expect(wrong).rejects.toThrow(/does not match/);
    const nowMs = Date.now();
    const theirs = await webhooks.computeSignature(nowMs, payload, secret.value);
    for (const blank of [" ", ""]) {
      const made = { "WorkOS-Signature": `t=${nowMs},${blank}v1=${theirs}` };
      expect(check(workos({ secret }), { body, headers: made, nowMs })).toEqual(PASSES);
    }
  });
});

describe("HubSpot (made by @hubspot/api-client 14.0.1, too large to install)", () => {
  const clientSecret = { value: "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy" };
  const body =
    '[{"eventId":100,"subscriptionId":51,"portalId":62515,"occurredAt":1767323045000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"text":"žluť 🐎"}]';
  const url = "https://hooks.example.com/webhooks/hubspot?a=b%20c";
  const nowMs = 1767323045678;
  const made = {
    v3: {
      "X-HubSpot-Signature-v3": "DJs7afklw+SgvhS5V7Q0o52oqjcjWndcr1YELWdLGsE=",
      "X-HubSpot-Request-Timestamp": String(nowMs),
    },
    v2: {
      "X-HubSpot-Signature": "081fcb92e6d665247a9e015523893d282856c5ecc484a06c5e99572311ca5b98",
    },
    v1: {
      "X-HubSpot-Signature": "36d64ad9aa56f95eb38946cba7aee8297554fa4e179bd05cce9228c08c305942",
    },
  } as const;

  test.each(["v1", "v2", "v3"] as const)(
    "signs %s, which is verified by that version only",
    (version) => {
      const headers = made[version];
      for (const other of ["v1", "v2", "v3"] as const) {
        const verifier = hubspot({ secret: clientSecret, version: other });
        const passes = check(verifier, { body, headers, url, nowMs });
        expect(passes).toEqual(other === version ? PASSES : ["Rejected", "Rejected"]);
      }
      expect(hubspot({ secret: clientSecret, version }).signs).toEqual(
        version === "v1" ? ["body"] : ["body", "url"],
      );
    },
  );

  test("has examples in its documentation that are verified: version 1, and 2", () => {
    const documented =
      '[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]';
    const v1 = {
      "X-HubSpot-Signature": "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de",
    };
    const first = hubspot({ secret: clientSecret, version: "v1" });
    expect(check(first, { body: documented, headers: v1 })).toEqual(PASSES);
    const v2 = {
      "X-HubSpot-Signature": "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900",
    };
    const sent = {
      body: '{"example_field":"example_value"}',
      headers: v2,
      url: "https://www.example.com/webhook_uri",
    };
    const second = hubspot({ secret: clientSecret, version: "v2" });
    expect(check(second, sent)).toEqual(PASSES);
  });
});

test("Square (what the library of square 46.0.0 accepts and refuses; too large to install)", () => {
  const body =
    '{"merchant_id":"M1","type":"payment.created","event_id":"e-1","data":{"n":"žluť 🐎"}}';
  const url = "https://hooks.example.com/webhooks/square";
  const headers = {
    "x-square-hmacsha256-signature": "PKrXtHX1XsP8BxCujxG8+zpudyrXFpNOztyc4xnmslY=",
  };
  const verifier = square({ secret: { value: "square-key" } });
  expect(check(verifier, { body, headers, url })).toEqual(PASSES);
  expect(check(verifier, { body, headers, url: `${url}/` })).toEqual(["Rejected", "Rejected"]);
});

test("Retell (made by retell-sdk 5.66.1, too large to install)", () => {
  const sent = {
    body: '{"event":"call_ended","call":{"call_id":"c1","t":"žluť 🐎"}}',
    headers: {
      "X-Retell-Signature":
        "v=1767323045678,d=bc1357b9e9a0998d71ef55ef2a54878054af2d49aa9b8271175dbf218bb0a1b7",
    },
    nowMs: 1767323045678,
  };
  expect(check(retell({ secret: { value: "key_retell" } }), sent)).toEqual(PASSES);
});

test("ElevenLabs (what @elevenlabs/elevenlabs-js 2.73.0 accepts; too large to install)", () => {
  const sent = {
    body: '{"type":"post_call_transcription","event_timestamp":1767323045,"data":{"conversation_id":"c","t":"žluť 🐎"}}',
    headers: {
      "ElevenLabs-Signature":
        "t=1767323045,v0=a3086927134aa27fbeece41f831c1c62ba172c9ff513ed326b29de608fd57645",
    },
    nowMs: 1767323045678,
  };
  expect(check(elevenlabs({ secret: { value: "wsec_x" } }), sent)).toEqual(PASSES);
});

test("Intercom (RFC 2202's HMAC-SHA-1): without a library", () => {
  const sent = {
    body: "what do ya want for nothing?",
    headers: { "X-Hub-Signature": "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79" },
  };
  expect(check(intercom({ secret: { value: "Jefe" } }), sent)).toEqual(PASSES);
});
