/**
 * `agents/webhooks`: declare which webhooks are received, who may send them, and which agent each one
 * goes to. The gateway serves what is declared; `sign` makes requests that these verifiers accept.
 */
export { webhook, type AgentReference, type WebhookOptions } from "./webhook.ts";
export { body, constant, header, path, type EntityOptions, type Transform } from "./entities.ts";
export { escapedSlug, slug, type Slug } from "./slug.ts";
export type { RedactNames } from "../../core/redaction/Redaction.ts";
export { github, shopify, slack, standardWebhooks, stripe, svix } from "./providers.ts";
export {
  attio,
  bitbucket,
  calcom,
  docusign,
  gitlabToken,
  intercom,
  jira,
  meta,
  notion,
  pagerduty,
  sentry,
  typeform,
  vapi,
  vercel,
  type MetaOptions,
} from "./bodySigned.ts";
export {
  calendly,
  elevenlabs,
  gitlab,
  linear,
  retell,
  workos,
  zendesk,
  zoom,
} from "./timeSigned.ts";
export { hubspot, square, twilio, type HubspotOptions } from "./urlSigned.ts";
export { discord, sendgrid, type PublicKeyOptions } from "./keySigned.ts";
export { paypal, type PaypalOptions } from "./paypal.ts";
export {
  hmac,
  unsigned,
  type DetailSource,
  type HmacOptions,
  type HmacScheme,
  type UnsignedOptions,
} from "./hmac.ts";
export { sign, type Sign, type SignOptions } from "./sign.ts";
export type { Secret } from "./Secrets.ts";
export type { TimestampedOptions, UrlOptions, VerifierOptions } from "./verifierOf.ts";
export {
  InvalidWebhook,
  type BatchItem,
  type EntityResult,
  type EntitySource,
  type PlainAnswer,
  type Verdict,
  type Verifier,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
