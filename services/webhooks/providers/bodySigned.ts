/**
 * Providers that sign the body alone, or send a token: one row each. Such a request carries no
 * signed time, and an id in a header is not signed either. Anyone who has seen a request can send
 * it again; `replayGuard` refuses a body that was seen before.
 *
 * `providers.ts` says how to add a row. All exports are public.
 */
import { SCHEME_DEFAULTS } from "../verifier/SignatureScheme.ts";
import type { Secret } from "../verifier/Secrets.ts";
import { verifierOf, type VerifierOptions } from "../verifier/verifierOf.ts";
import { intercomHandshake, metaGreeting, probeGreeting } from "./handshakes.ts";
import { provider } from "./Provider.ts";

const bodyOnly = { ...SCHEME_DEFAULTS, template: "{body}", prefix: "" } as const;

/**
 * GitHub. The delivery's id is not signed: consider `replayGuard`. Deadline 9.5 s.
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export const github = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "github",
  deadlineMs: 9500, // GitHub times out after 10 s and does not retry by itself.
  headers: [{ signature: "x-hub-signature-256", id: "x-github-delivery", event: "x-github-event" }],
  prefix: "sha256=",
});

/**
 * Shopify, with the app's client secret. Neither the shop's domain nor the id is signed: consider
 * `replayGuard`. Deadline 4.5 s. The id is that of the delivery.
 * https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
 */
export const shopify = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "shopify",
  deadlineMs: 4500, // Shopify times out after 5 s.
  encoding: "base64",
  headers: [
    { signature: "x-shopify-hmac-sha256", id: "x-shopify-webhook-id", event: "x-shopify-topic" },
    // The names of its newer events, from its library.
    { signature: "shopify-hmac-sha256", id: "shopify-webhook-id", event: "shopify-topic" },
  ],
});

/**
 * GitLab, with the older plain token, which is the secret itself in a header. Nothing is signed:
 * prefer `gitlab` with a signing token. Deadline 9.5 s.
 * https://docs.gitlab.com/user/project/integrations/webhooks/
 */
export const gitlabToken = provider<VerifierOptions>({
  ...SCHEME_DEFAULTS,
  provider: "gitlab",
  deadlineMs: 9500, // GitLab times out after 10 s, and disables a hook after several failures.
  algorithm: "token",
  // `X-Gitlab-Event-UUID` does not identify a delivery: webhooks that cause one another share it.
  headers: [{ signature: "x-gitlab-token", id: "idempotency-key", event: "x-gitlab-event" }],
  secretHeaders: ["x-gitlab-token"],
  prefix: "",
  template: "",
});

/**
 * Bitbucket Cloud, for hooks with a secret. The id is not signed: consider `replayGuard`. Deadline
 * 5 s. Bitbucket never sends a payload larger than 256 KB.
 * https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
 */
export const bitbucket = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "bitbucket",
  headers: [{ signature: "x-hub-signature", id: "x-request-uuid", event: "x-event-key" }],
  prefix: "sha256=",
  attemptHeader: "x-attempt-number",
});

/**
 * Jira Cloud, for webhooks with a secret. The identifier stays the same over retries and is not
 * signed: consider `replayGuard`. Deadline 5 s.
 * https://developer.atlassian.com/cloud/jira/platform/webhooks/
 */
export const jira = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "jira",
  headers: [{ signature: "x-hub-signature", id: "x-atlassian-webhook-identifier" }],
  prefix: "sha256=",
  eventFields: ["webhookEvent"],
  retryHeader: "x-atlassian-webhook-retry",
});

/** Options of `meta`. */
export interface MetaOptions extends VerifierOptions {
  /**
   * The token that was entered in the app's dashboard. As for `secret`: a variable's name,
   * `{ value }`, or a list of these.
   */
  readonly verifyToken: Secret | ReadonlyArray<Secret>;
}

/**
 * Meta (Facebook, Instagram, WhatsApp), with the app secret. Each element of `entry` is an input of
 * its own, deduplicated by its hash. The GET that subscribes is answered by the gateway. Deadline
 * 5 s. Meta signs escaped Unicode as it was sent.
 * https://developers.facebook.com/docs/graph-api/webhooks/getting-started
 */
export const meta = provider<MetaOptions>(
  {
    ...bodyOnly,
    provider: "meta",
    headers: [{ signature: "x-hub-signature-256" }],
    prefix: "sha256=",
    eventFields: ["object"],
    hashId: true,
    batch: { member: "entry", hashId: true, eventFields: ["entry.0.changes.0.field", "object"] },
  },
  {
    options: ["verifyToken"],
    verifier: (scheme, options) =>
      verifierOf(scheme, options, { greeting: metaGreeting("meta", options.verifyToken) }),
  },
);

/**
 * Typeform. The event's id is in the signed body. Deadline 5 s.
 * https://www.typeform.com/developers/webhooks/secure-your-webhooks/
 */
export const typeform = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "typeform",
  encoding: "base64",
  headers: [{ signature: "typeform-signature" }],
  prefix: "sha256=",
  idFields: ["event_id"],
  eventFields: ["event_type"],
});

/**
 * Intercom, with the app's client secret. The gateway answers its ping and the HEAD that tests the
 * URL. Deadline 4.5 s. https://developers.intercom.com/docs/webhooks/webhook-notifications
 */
export const intercom = provider<VerifierOptions>(
  {
    ...bodyOnly,
    provider: "intercom",
    deadlineMs: 4500, // Intercom times out after 5 s.
    algorithm: "hmac-sha1",
    headers: [{ signature: "x-hub-signature" }],
    prefix: "sha1=",
    idFields: ["id"],
    eventFields: ["topic"],
    handshake: intercomHandshake,
  },
  { verifier: (scheme, options) => verifierOf(scheme, options, { greeting: probeGreeting }) },
);

/**
 * Sentry's integrations, with the client secret. The id is not signed: consider `replayGuard`.
 * Deadline 5 s. https://docs.sentry.io/organization/integrations/integration-platform/webhooks/
 */
export const sentry = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "sentry",
  headers: [
    { signature: "sentry-hook-signature", id: "request-id", event: "sentry-hook-resource" },
  ],
});

/**
 * PagerDuty's v3 webhooks. The header has one signature per live secret. Deadline 5 s.
 * https://developer.pagerduty.com/docs/webhooks/webhook-signatures/
 */
export const pagerduty = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "pagerduty",
  headers: [{ signature: "x-pagerduty-signature", id: "x-webhook-id" }],
  separator: ",",
  prefix: "v1=",
  idFields: ["event.id"],
  eventFields: ["event.event_type"],
});

/**
 * Notion, with the verification token that its first request brings (`docs/guides/webhooks.md`).
 * Deadline 5 s. https://developers.notion.com/reference/webhooks
 */
export const notion = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "notion",
  headers: [{ signature: "x-notion-signature" }],
  prefix: "sha256=",
  idFields: ["id"],
  eventFields: ["type"],
});

/** Vercel. The event's id is signed. Deadline 5 s. https://vercel.com/docs/webhooks/webhooks-api */
export const vercel = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "vercel",
  algorithm: "hmac-sha1",
  headers: [{ signature: "x-vercel-signature" }],
  idFields: ["id"],
  eventFields: ["type"],
});

/**
 * DocuSign Connect, with the first of its HMAC keys. Events have no id and are deduplicated by the
 * body's hash. Deadline 5 s. https://developers.docusign.com/platform/webhooks/connect/validate/
 */
export const docusign = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "docusign",
  encoding: "base64",
  headers: [{ signature: "x-docusign-signature-1" }],
  eventFields: ["event"],
  hashId: true,
});

/**
 * Cal.com. Events have no id and are deduplicated by the body's hash. Deadline 5 s.
 * https://cal.com/docs/developing/guides/automation/webhooks
 */
export const calcom = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "calcom",
  headers: [{ signature: "x-cal-signature-256" }],
  eventFields: ["triggerEvent"],
  hashId: true,
});

/**
 * Attio. The id is not signed: consider `replayGuard`. Deadline 5 s.
 * https://docs.attio.com/rest-api/guides/webhooks
 */
export const attio = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "attio",
  headers: [{ signature: "attio-signature", id: "idempotency-key" }],
  eventFields: ["events.0.event_type"],
});

/**
 * Vapi, with an HMAC credential. Events have no id and are deduplicated by the body's hash.
 * Deadline 5 s. https://docs.vapi.ai/server-url/server-authentication
 */
export const vapi = provider<VerifierOptions>({
  ...bodyOnly,
  provider: "vapi",
  headers: [{ signature: "x-vapi-signature" }],
  eventFields: ["message.type"],
  hashId: true,
});
