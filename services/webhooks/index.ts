/**
 * The package's entry `agents/webhooks`: declares which webhooks are received, who may send them,
 * and which agent receives each one. The gateway serves the declared routes. `sign` makes requests
 * that these verifiers accept.
 */
export { webhook, type AgentReference, type WebhookOptions } from "./webhook.ts";
export type { FilteredRequest, WebhookFilter } from "./when.ts";
export { body, constant, header, path, type EntityOptions } from "./entities.ts";
export { escapedSlug, slug, type Slug, type Transform } from "./slug.ts";
export type { RedactNames } from "../../core/redaction/Redaction.ts";
// Every provider, by name: this is the one barrel whose names are listed by the table itself.
export * from "./providers.ts";
export type { Provider } from "./providers/Provider.ts";
export { hmac, unsigned } from "./hmac.ts";
export type { DetailSource, HmacOptions, HmacScheme, UnsignedOptions } from "./HmacOptions.ts";
export { sign, type Sign, type SignOptions } from "./sign.ts";
export type { Secret } from "./verifier/Secrets.ts";
export type { SignatureEncoding } from "./verifier/Signatures.ts";
export type { TimestampUnit } from "./verifier/timestamp.ts";
export type { TimestampedOptions, UrlOptions, VerifierOptions } from "./verifier/verifierOf.ts";
export {
  InvalidWebhook,
  type BatchItem,
  type EntityResult,
  type EntitySource,
  type EventDetails,
  type PlainAnswer,
  type SecretsCheck,
  type Verdict,
  type Verifier,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
