/**
 * The best known providers: one row each, and the function that users write in a route. Others are in
 * `bodySigned`, `timeSigned`, `urlSigned` and `keySigned`, by what they sign; `hmac` and `unsigned` are
 * for everybody else. Facts from the vendors' documentation and libraries; `docs/guides/webhooks.md` says what
 * each row was checked against.
 */
import type { Verifier } from "../../core/webhook/WebhookRoute.ts";
import { slackHandshake } from "./handshakes.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { verifierOf, type TimestampedOptions, type VerifierOptions } from "./verifierOf.ts";

/** For providers that wait longer than ten seconds or do not say: nobody should hold a socket longer. */
export const DEADLINE_MS_DEFAULT = 5000;
/** The vendors' own libraries and the Standard Webhooks document agree on five minutes. */
export const TOLERANCE_SECONDS_DEFAULT = 300;

/** What most providers have in common. */
export const base = {
  deadlineMs: DEADLINE_MS_DEFAULT,
  algorithm: "hmac-sha256",
  encoding: "hex",
  secretFormat: "plain",
} as const;

/** https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
export const githubScheme: SignatureScheme = {
  ...base,
  provider: "github",
  deadlineMs: 9500, // GitHub gives up after 10 s and does not try again by itself.
  headers: [{ signature: "x-hub-signature-256", id: "x-github-delivery", event: "x-github-event" }],
  prefix: "sha256=",
  template: "{body}",
};

/** https://docs.stripe.com/webhooks/signature; an old scheme's `v0=` in the list is passed over. */
export const stripeScheme: SignatureScheme = {
  ...base,
  provider: "stripe",
  headers: [{ signature: "stripe-signature" }],
  separator: ",",
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  idFields: ["id"],
  eventFields: ["type"],
};

/** https://docs.slack.dev/authentication/verifying-requests-from-slack */
export const slackScheme: SignatureScheme = {
  ...base,
  provider: "slack",
  deadlineMs: 2500, // Slack gives up after 3 s.
  headers: [{ signature: "x-slack-signature", timestamp: "x-slack-request-timestamp" }],
  prefix: "v0=",
  template: "v0:{timestamp}:{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  idFields: ["event_id"],
  eventFields: ["event.type", "type", "command"],
  retryHeader: "x-slack-retry-num",
  handshake: slackHandshake,
};

/** https://shopify.dev/docs/apps/build/webhooks/verify-deliveries; the id is the delivery's, not signed. */
export const shopifyScheme: SignatureScheme = {
  ...base,
  provider: "shopify",
  deadlineMs: 4500, // Shopify gives up after 5 s.
  encoding: "base64",
  headers: [
    { signature: "x-shopify-hmac-sha256", id: "x-shopify-webhook-id", event: "x-shopify-topic" },
    // Its newer events, as its library names them.
    { signature: "shopify-hmac-sha256", id: "shopify-webhook-id", event: "shopify-topic" },
  ],
  prefix: "",
  template: "{body}",
};

/** https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md */
export const standardWebhooksScheme: SignatureScheme = {
  ...base,
  provider: "standard-webhooks",
  encoding: "base64",
  headers: [
    { signature: "webhook-signature", timestamp: "webhook-timestamp", id: "webhook-id" },
    { signature: "svix-signature", timestamp: "svix-timestamp", id: "svix-id" },
  ],
  separator: " ",
  prefix: "v1,",
  asymmetric: { algorithm: "ed25519", prefix: "v1a," },
  template: "{id}.{timestamp}.{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  secretFormat: "whsec",
  eventFields: ["type"],
};

/** The same with Svix's own header names first. */
export const svixScheme: SignatureScheme = {
  ...standardWebhooksScheme,
  provider: "svix",
  headers: standardWebhooksScheme.headers.toReversed(),
};

/** GitHub. The body is signed; the delivery id isn't, so consider `replayGuard`. Deadline 9.5 s. */
export const github = (options: VerifierOptions): Verifier => verifierOf(githubScheme, options);

/** Stripe, with the `whsec_…` secret of the endpoint. Body, time and event id are signed. */
export const stripe = (options: TimestampedOptions): Verifier => verifierOf(stripeScheme, options);

/**
 * Slack, with the app's signing secret: events, commands and interactions. Its URL challenge and
 * certificate check are answered here, once their signature was found right. Deadline 2.5 s.
 */
export const slack = (options: TimestampedOptions): Verifier => verifierOf(slackScheme, options);

/** Shopify, with the app's client secret. Neither the shop's domain nor the id is signed. Deadline 4.5 s. */
export const shopify = (options: VerifierOptions): Verifier => verifierOf(shopifyScheme, options);

/**
 * Any sender that follows Standard Webhooks, with its `whsec_…` secret or its `whpk_…` public key
 * (Ed25519, `v1a`). Id, time and body are signed.
 */
export const standardWebhooks = (options: TimestampedOptions): Verifier =>
  verifierOf(standardWebhooksScheme, options);

/** Senders that use Svix, by either family of header names. */
export const svix = (options: TimestampedOptions): Verifier => verifierOf(svixScheme, options);
