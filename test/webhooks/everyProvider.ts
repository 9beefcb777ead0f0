/** Every provider with a row: a verifier, its key, and a request that its signer made. */
import { createHash, generateKeyPairSync } from "node:crypto";
import * as w from "../../services/webhooks/index.ts";
import type { SignOptions, Verifier } from "../../services/webhooks/index.ts";
import { NOW_MS, OTHER, SECRET, type Sent } from "./requests.ts";

const ed25519 = generateKeyPairSync("ed25519");
const p256 = generateKeyPairSync("ec", { namedCurve: "P-256" });
export const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = { type: "spki", format: "pem" } as const;
const raw = (jwk: "x" | "d") =>
  Buffer.from(
    (jwk === "x" ? ed25519.publicKey : ed25519.privateKey).export({ format: "jwk" })[jwk]!,
    "base64url",
  );

/** What the verifiers find, by the name of the variable. */
export const env: Readonly<Record<string, string>> = {
  SECRET,
  OTHER,
  ED25519_HEX: raw("x").toString("hex"),
  WHPK: `whpk_${raw("x").toString("base64")}`,
  P256: p256.publicKey.export({ type: "spki", format: "der" }).toString("base64"),
  RSA: rsa.publicKey.export(pem).toString(),
  WEBHOOK_ID: "8PT597110X687430LKGECATA",
};
const PKCS8 = { type: "pkcs8", format: "pem" } as const;

export const URL = "https://hooks.example.com/webhooks/x?a=1";
const FORM = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };

export interface Provider {
  readonly name: keyof typeof w.sign;
  /** With extra options, like a tolerance. */
  readonly make: (more?: {
    readonly toleranceSeconds?: number;
    readonly replayGuard?: boolean;
  }) => Verifier;
  /** The private side of the key that `make` verifies with. */
  readonly secret: string;
  readonly body: string;
  /** Sent, but not signed. */
  readonly also?: Readonly<Record<string, string>>;
  /** Headers without which no signature is right. The others that `sign` makes are not signed. */
  readonly signed: ReadonlyArray<string>;
  /** Seconds; absent: the provider signs no time. */
  readonly toleranceSeconds?: number;
  /** The verdict's id and type for `body`, with the id header (if any) `id-1`. */
  readonly dedupId?: string;
  readonly eventType?: string;
  readonly options?: SignOptions;
}

const secret = { secret: "SECRET" };
const hashOf = (body: string) => `sha256:${createHash("sha256").update(body).digest("hex")}`;
const JSON_BODY = '{"id":"evt_1","type":"thing.made"}';

/** A provider with a shared secret, as most are. */
const shared = (
  name: Provider["name"],
  make: (options: { secret: string }) => Verifier,
  body: string,
  rest: Omit<Provider, "name" | "make" | "secret" | "body">,
): Provider => ({
  name,
  make: (more) => make({ ...secret, ...more }),
  secret: SECRET,
  body,
  ...rest,
});

const byHash = (
  name: Provider["name"],
  make: (options: { secret: string }) => Verifier,
  body: string,
  rest: Omit<Provider, "name" | "make" | "secret" | "body">,
): Provider => shared(name, make, body, { ...rest, dedupId: hashOf(body) });

const HUBSPOT_BODY =
  '{"eventId":1,"subscriptionId":2,"occurredAt":3,"subscriptionType":"contact.creation"}';
const HUBSPOT = { dedupId: "1:2:3", eventType: "contact.creation" };
const ZOOM_BODY =
  '{"event":"meeting.started","event_ts":1626230691572,"payload":{"account_id":"A","object":{"uuid":"4444AAAiAAAAAiAiAiiAii==","id":"1"}}}';
const STANDARD = ["webhook-signature", "webhook-timestamp", "webhook-id"];

export const providers: ReadonlyArray<Provider> = [
  shared("github", w.github, JSON_BODY, { signed: ["x-hub-signature-256"], dedupId: "id-1" }),
  shared("stripe", w.stripe, JSON_BODY, {
    signed: ["stripe-signature"],
    toleranceSeconds: 300,
    dedupId: "evt_1",
    eventType: "thing.made",
  }),
  shared("slack", w.slack, '{"event_id":"Ev1","type":"event_callback"}', {
    signed: ["x-slack-signature", "x-slack-request-timestamp"],
    toleranceSeconds: 300,
    dedupId: "Ev1",
    eventType: "event_callback",
  }),
  shared("shopify", w.shopify, JSON_BODY, { signed: ["x-shopify-hmac-sha256"], dedupId: "id-1" }),
  shared("standardWebhooks", w.standardWebhooks, JSON_BODY, {
    signed: STANDARD,
    toleranceSeconds: 300,
    dedupId: "id-1",
    eventType: "thing.made",
  }),
  {
    name: "standardWebhooks",
    make: (more) => w.standardWebhooks({ secret: "WHPK", ...more }),
    secret: `whsk_${raw("d").toString("base64")}`,
    body: JSON_BODY,
    signed: STANDARD,
    toleranceSeconds: 300,
    dedupId: "id-1",
    eventType: "thing.made",
  },
  shared("gitlab", w.gitlab, '{"object_kind":"push"}', {
    signed: STANDARD,
    toleranceSeconds: 300,
    dedupId: "id-1",
    eventType: "push",
  }),
  shared("bitbucket", w.bitbucket, JSON_BODY, { signed: ["x-hub-signature"], dedupId: "id-1" }),
  shared("jira", w.jira, '{"webhookEvent":"jira:issue_created"}', {
    signed: ["x-hub-signature"],
    dedupId: "id-1",
    eventType: "jira:issue_created",
  }),
  byHash("meta", (options) => w.meta({ ...options, verifyToken: "OTHER" }), '{"object":"page"}', {
    signed: ["x-hub-signature-256"],
    eventType: "page",
  }),
  shared("typeform", w.typeform, '{"event_id":"E1","event_type":"form_response"}', {
    signed: ["typeform-signature"],
    dedupId: "E1",
    eventType: "form_response",
  }),
  shared("intercom", w.intercom, '{"id":"notif_1","topic":"user.created"}', {
    signed: ["x-hub-signature"],
    dedupId: "notif_1",
    eventType: "user.created",
  }),
  shared("linear", w.linear, `{"type":"Issue","webhookTimestamp":${NOW_MS}}`, {
    signed: ["linear-signature"],
    dedupId: "id-1",
    eventType: "Issue",
  }),
  shared("zendesk", w.zendesk, JSON_BODY, {
    signed: ["x-zendesk-webhook-signature", "x-zendesk-webhook-signature-timestamp"],
    toleranceSeconds: 300,
    dedupId: "id-1",
    eventType: "thing.made",
  }),
  byHash("zoom", w.zoom, ZOOM_BODY, {
    signed: ["x-zm-signature", "x-zm-request-timestamp"],
    toleranceSeconds: 300,
    eventType: "meeting.started",
  }),
  shared("twilio", w.twilio, "MessageSid=SM1&MessageStatus=sent&From=%2B1555&Body=%C5%BElu%C5%A5", {
    also: FORM,
    signed: ["x-twilio-signature"],
    dedupId: "id-1",
    eventType: "sent",
  }),
  shared("square", w.square, '{"event_id":"e1","type":"payment.created"}', {
    signed: ["x-square-hmacsha256-signature"],
    dedupId: "e1",
    eventType: "payment.created",
  }),
  shared("hubspot", w.hubspot, HUBSPOT_BODY, {
    signed: ["x-hubspot-signature-v3", "x-hubspot-request-timestamp"],
    toleranceSeconds: 300,
    ...HUBSPOT,
  }),
  shared("hubspotV2", (o) => w.hubspot({ ...o, version: "v2" }), HUBSPOT_BODY, {
    signed: ["x-hubspot-signature"],
    ...HUBSPOT,
  }),
  shared("hubspotV1", (o) => w.hubspot({ ...o, version: "v1" }), HUBSPOT_BODY, {
    signed: ["x-hubspot-signature"],
    ...HUBSPOT,
  }),
  {
    name: "discord",
    make: (more) => w.discord({ publicKey: "ED25519_HEX", ...more }),
    secret: raw("d").toString("hex"),
    body: '{"id":"int-1","type":2}',
    signed: ["x-signature-ed25519", "x-signature-timestamp"],
    toleranceSeconds: 900,
    dedupId: "int-1",
    eventType: "2",
  },
  {
    name: "sendgrid",
    make: (more) => w.sendgrid({ publicKey: "P256", ...more }),
    secret: p256.privateKey.export(PKCS8).toString(),
    body: '{"event":"processed"}',
    signed: ["x-twilio-email-event-webhook-signature", "x-twilio-email-event-webhook-timestamp"],
    toleranceSeconds: 600,
  },
  {
    name: "paypal",
    make: (more) => w.paypal({ webhookId: "WEBHOOK_ID", certificate: "RSA", ...more }),
    secret: rsa.privateKey.export(PKCS8).toString(),
    body: '{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED"}',
    options: { webhookId: env["WEBHOOK_ID"]! },
    signed: ["paypal-transmission-sig", "paypal-transmission-time", "paypal-transmission-id"],
    toleranceSeconds: 4 * 24 * 3600,
    dedupId: "WH-1",
    eventType: "PAYMENT.SALE.COMPLETED",
  },
  shared("sentry", w.sentry, JSON_BODY, { signed: ["sentry-hook-signature"], dedupId: "id-1" }),
  shared("pagerduty", w.pagerduty, '{"event":{"id":"01B","event_type":"incident.triggered"}}', {
    signed: ["x-pagerduty-signature"],
    dedupId: "01B",
    eventType: "incident.triggered",
  }),
  shared("notion", w.notion, JSON_BODY, {
    signed: ["x-notion-signature"],
    dedupId: "evt_1",
    eventType: "thing.made",
  }),
  shared("vercel", w.vercel, JSON_BODY, {
    signed: ["x-vercel-signature"],
    dedupId: "evt_1",
    eventType: "thing.made",
  }),
  byHash("calendly", w.calendly, '{"event":"invitee.created"}', {
    signed: ["calendly-webhook-signature"],
    toleranceSeconds: 300,
    eventType: "invitee.created",
  }),
  byHash("docusign", w.docusign, '{"event":"envelope-sent"}', {
    signed: ["x-docusign-signature-1"],
    eventType: "envelope-sent",
  }),
  shared("workos", w.workos, '{"id":"wh_1","event":"user.created"}', {
    signed: ["workos-signature"],
    toleranceSeconds: 180,
    dedupId: "wh_1",
    eventType: "user.created",
  }),
  byHash("elevenlabs", w.elevenlabs, '{"type":"post_call_transcription"}', {
    signed: ["elevenlabs-signature"],
    toleranceSeconds: 1800,
    eventType: "post_call_transcription",
  }),
  byHash("calcom", w.calcom, '{"triggerEvent":"BOOKING_CREATED"}', {
    signed: ["x-cal-signature-256"],
    eventType: "BOOKING_CREATED",
  }),
  shared("attio", w.attio, '{"events":[{"event_type":"note.created"}]}', {
    signed: ["attio-signature"],
    dedupId: "id-1",
    eventType: "note.created",
  }),
  byHash("vapi", w.vapi, '{"message":{"type":"end-of-call-report"}}', {
    signed: ["x-vapi-signature"],
    eventType: "end-of-call-report",
  }),
  byHash("retell", w.retell, '{"event":"call_ended"}', {
    signed: ["x-retell-signature"],
    toleranceSeconds: 300,
    eventType: "call_ended",
  }),
];

/** A token stands for no bytes, so the rules about changed bytes are not for this one. */
export const tokenProvider: Provider = shared("gitlabToken", w.gitlabToken, JSON_BODY, {
  signed: ["x-gitlab-token"],
  dedupId: "id-1",
});

/** The request as the provider would send it. */
export function sentBy(
  provider: Provider,
  over: {
    readonly body?: string | Uint8Array;
    readonly secret?: string;
    readonly nowMs?: number;
  } = {},
): Sent & { readonly headers: Record<string, string>; readonly body: string | Uint8Array } {
  const { body = provider.body, secret: key = provider.secret, nowMs = NOW_MS } = over;
  const headers = w.sign[provider.name](body, key, {
    id: "id-1",
    url: URL,
    nowMs,
    ...provider.options,
  });
  return { body, headers: { ...headers, ...provider.also }, url: URL, env };
}
