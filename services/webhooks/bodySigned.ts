/**
 * Providers that sign the body alone: one row each, and the function that users write in a route.
 * Nothing in such a request says when it was signed, and an id in a header is not signed either:
 * `replayGuard` refuses a body that was seen before.
 */
import type { Verifier } from "../../core/webhook/WebhookRoute.ts";
import { intercomHandshake, metaGreeting, probeGreeting } from "./handshakes.ts";
import { base } from "./providers.ts";
import type { Secret } from "./Secrets.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { verifierOf, type VerifierOptions } from "./verifierOf.ts";

const bodyOnly = { ...base, template: "{body}", prefix: "" } as const;

/** https://docs.gitlab.com/user/project/integrations/webhooks/: the secret itself, in a header. */
export const gitlabTokenScheme: SignatureScheme = {
  ...base,
  provider: "gitlab",
  deadlineMs: 9500, // GitLab gives up after 10 s, and switches a hook off after several failures.
  algorithm: "token",
  // `X-Gitlab-Event-UUID` is no id of a delivery: webhooks that cause one another share it.
  headers: [{ signature: "x-gitlab-token", id: "idempotency-key", event: "x-gitlab-event" }],
  secretHeaders: ["x-gitlab-token"],
  prefix: "",
  template: "",
};

/** https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/; a payload past 256 KB is never sent. */
export const bitbucketScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "bitbucket",
  headers: [{ signature: "x-hub-signature", id: "x-request-uuid", event: "x-event-key" }],
  prefix: "sha256=",
  attemptHeader: "x-attempt-number",
};

/** https://developer.atlassian.com/cloud/jira/platform/webhooks/; the identifier stays over retries. */
export const jiraScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "jira",
  headers: [{ signature: "x-hub-signature", id: "x-atlassian-webhook-identifier" }],
  prefix: "sha256=",
  eventFields: ["webhookEvent"],
  retryHeader: "x-atlassian-webhook-retry",
};

/** https://developers.facebook.com/docs/graph-api/webhooks/getting-started: escaped Unicode is signed as sent. */
export const metaScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "meta",
  headers: [{ signature: "x-hub-signature-256" }],
  prefix: "sha256=",
  eventFields: ["object"],
  hashId: true,
  batch: { member: "entry", hashId: true, eventFields: ["entry.0.changes.0.field", "object"] },
};

/** https://www.typeform.com/developers/webhooks/secure-your-webhooks/ */
export const typeformScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "typeform",
  encoding: "base64",
  headers: [{ signature: "typeform-signature" }],
  prefix: "sha256=",
  idFields: ["event_id"],
  eventFields: ["event_type"],
};

/** https://developers.intercom.com/docs/webhooks/webhook-notifications; signed with the client secret. */
export const intercomScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "intercom",
  deadlineMs: 4500, // Intercom gives up after 5 s.
  algorithm: "hmac-sha1",
  headers: [{ signature: "x-hub-signature" }],
  prefix: "sha1=",
  idFields: ["id"],
  eventFields: ["topic"],
  handshake: intercomHandshake,
};

/** https://docs.sentry.io/organization/integrations/integration-platform/webhooks/ */
export const sentryScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "sentry",
  headers: [
    { signature: "sentry-hook-signature", id: "request-id", event: "sentry-hook-resource" },
  ],
};

/** https://developer.pagerduty.com/docs/webhooks/webhook-signatures/: one signature per live secret. */
export const pagerdutyScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "pagerduty",
  headers: [{ signature: "x-pagerduty-signature", id: "x-webhook-id" }],
  separator: ",",
  prefix: "v1=",
  idFields: ["event.id"],
  eventFields: ["event.event_type"],
};

/** https://developers.notion.com/reference/webhooks; signed with the subscription's verification token. */
export const notionScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "notion",
  headers: [{ signature: "x-notion-signature" }],
  prefix: "sha256=",
  idFields: ["id"],
  eventFields: ["type"],
};

/** https://vercel.com/docs/webhooks/webhooks-api */
export const vercelScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "vercel",
  algorithm: "hmac-sha1",
  headers: [{ signature: "x-vercel-signature" }],
  idFields: ["id"],
  eventFields: ["type"],
};

/** https://developers.docusign.com/platform/webhooks/connect/validate/: the first of its HMAC keys. */
export const docusignScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "docusign",
  encoding: "base64",
  headers: [{ signature: "x-docusign-signature-1" }],
  eventFields: ["event"],
  hashId: true,
};

/** https://cal.com/docs/developing/guides/automation/webhooks */
export const calcomScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "calcom",
  headers: [{ signature: "x-cal-signature-256" }],
  eventFields: ["triggerEvent"],
  hashId: true,
};

/** https://docs.attio.com/rest-api/guides/webhooks */
export const attioScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "attio",
  headers: [{ signature: "attio-signature", id: "idempotency-key" }],
  eventFields: ["events.0.event_type"],
};

/** https://docs.vapi.ai/server-url/server-authentication */
export const vapiScheme: SignatureScheme = {
  ...bodyOnly,
  provider: "vapi",
  headers: [{ signature: "x-vapi-signature" }],
  eventFields: ["message.type"],
  hashId: true,
};

/** GitLab by the old plain token: nothing is signed, so prefer `gitlab` with a signing token. */
export const gitlabToken = (options: VerifierOptions): Verifier =>
  verifierOf(gitlabTokenScheme, options);

/** Bitbucket Cloud, for hooks with a secret. The id is not signed: consider `replayGuard`. */
export const bitbucket = (options: VerifierOptions): Verifier =>
  verifierOf(bitbucketScheme, options);

/** Jira Cloud, for webhooks with a secret. The identifier is not signed: consider `replayGuard`. */
export const jira = (options: VerifierOptions): Verifier => verifierOf(jiraScheme, options);

export interface MetaOptions extends VerifierOptions {
  /** The token that the app's dashboard was given, as `secret` is given: a variable's name or `{ value }`. */
  readonly verifyToken: Secret | ReadonlyArray<Secret>;
}

/**
 * Meta (Facebook, Instagram, WhatsApp), with the app secret. Each element of `entry` is an input of its
 * own, by its hash. The GET that subscribes is answered here.
 */
export const meta = (options: MetaOptions): Verifier =>
  verifierOf(metaScheme, options, { greeting: metaGreeting("meta", options.verifyToken) });

/** Typeform. The event's id is in the signed body. */
export const typeform = (options: VerifierOptions): Verifier => verifierOf(typeformScheme, options);

/** Intercom, with the app's client secret. Its ping and the HEAD that tests the URL are answered here. */
export const intercom = (options: VerifierOptions): Verifier =>
  verifierOf(intercomScheme, options, { greeting: probeGreeting });

/** Sentry's integrations, with the client secret. The id is not signed: consider `replayGuard`. */
export const sentry = (options: VerifierOptions): Verifier => verifierOf(sentryScheme, options);

/** PagerDuty's v3 webhooks. */
export const pagerduty = (options: VerifierOptions): Verifier =>
  verifierOf(pagerdutyScheme, options);

/** Notion, with the verification token that its first request brings (`docs/guides/webhooks.md`). */
export const notion = (options: VerifierOptions): Verifier => verifierOf(notionScheme, options);

/** Vercel. */
export const vercel = (options: VerifierOptions): Verifier => verifierOf(vercelScheme, options);

/** DocuSign Connect, with its first HMAC key. Without an id of its own: by the body's hash. */
export const docusign = (options: VerifierOptions): Verifier => verifierOf(docusignScheme, options);

/** Cal.com. Without an id of its own: by the body's hash. */
export const calcom = (options: VerifierOptions): Verifier => verifierOf(calcomScheme, options);

/** Attio. The id is not signed: consider `replayGuard`. */
export const attio = (options: VerifierOptions): Verifier => verifierOf(attioScheme, options);

/** Vapi, by its HMAC. Without an id of its own: by the body's hash. */
export const vapi = (options: VerifierOptions): Verifier => verifierOf(vapiScheme, options);
