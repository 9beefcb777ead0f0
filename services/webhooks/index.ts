/**
 * `agents/webhooks`: declare which webhooks are received, who may send them, and which agent each one
 * goes to. The gateway serves what is declared; `sign` makes requests that these verifiers accept.
 */
export { webhook, type AgentReference, type WebhookOptions } from "./webhook.ts";
export {
  body,
  constant,
  header,
  path,
  slug,
  type EntityOptions,
  type Transform,
} from "./entities.ts";
export { github, shopify, slack, standardWebhooks, stripe, svix } from "./providers.ts";
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
export type { TimestampedOptions, VerifierOptions } from "./verifierOf.ts";
export {
  InvalidWebhook,
  type EntityResult,
  type EntitySource,
  type PlainAnswer,
  type Verdict,
  type Verifier,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
