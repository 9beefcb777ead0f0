/**
 * Providers that sign with a private key of theirs: one row each, and the function that users write in
 * a route. What is configured is the public key, which is no secret. PayPal's is in a certificate that
 * each request names: see `paypal`.
 */
import type { Verifier } from "../../core/webhook/WebhookRoute.ts";
import { discordHandshake } from "./handshakes.ts";
import { base } from "./providers.ts";
import type { Secret } from "./Secrets.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { verifierOf, type TimestampedOptions } from "./verifierOf.ts";

export interface PublicKeyOptions extends Omit<TimestampedOptions, "secret"> {
  /**
   * Name of the environment variable that holds the provider's public key as its dashboard shows it; or
   * `{ value }` with the key itself; or a list of these, all live, for a rotation.
   */
  readonly publicKey: Secret | ReadonlyArray<Secret>;
}

/** https://docs.discord.com/developers/events/webhook-events and …/interactions/overview */
export const discordScheme: SignatureScheme = {
  ...base,
  provider: "discord",
  deadlineMs: 2500, // Discord gives up after 3 s.
  algorithm: "ed25519",
  headers: [{ signature: "x-signature-ed25519", timestamp: "x-signature-timestamp" }],
  prefix: "",
  template: "{timestamp}{body}",
  // It asks for no window of time; its retries back off for up to 10 min and may keep their first time.
  timestamp: { unit: "s", toleranceSeconds: 15 * 60 },
  secretFormat: "ed25519-hex",
  idFields: ["id"],
  hashId: true,
  eventFields: ["event.type", "type"],
  handshake: discordHandshake,
};

/** https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features */
export const sendgridScheme: SignatureScheme = {
  ...base,
  provider: "sendgrid",
  algorithm: "ecdsa-sha256",
  encoding: "base64",
  headers: [
    {
      signature: "x-twilio-email-event-webhook-signature",
      timestamp: "x-twilio-email-event-webhook-timestamp",
    },
  ],
  prefix: "",
  template: "{timestamp}{body}",
  timestamp: { unit: "s", toleranceSeconds: 10 * 60 },
  secretFormat: "spki",
  batch: { idFields: ["sg_event_id"], eventFields: ["event"] },
};

/**
 * Discord, with the application's public key: webhook events and interactions, whose pings are answered
 * here. It sends wrong signatures on purpose, and must read 401. Deadline 2.5 s.
 */
export const discord = (options: PublicKeyOptions): Verifier =>
  verifierOf(discordScheme, { ...options, secret: options.publicKey });

/** SendGrid's event webhook, with its verification key. Each event of the list is an input of its own. */
export const sendgrid = (options: PublicKeyOptions): Verifier =>
  verifierOf(sendgridScheme, { ...options, secret: options.publicKey });
