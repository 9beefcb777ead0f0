/**
 * Providers that sign with a private key: one row each. The options hold the public key, which is
 * not a secret. PayPal's public key is in a certificate that each request names: see `paypal.ts`.
 *
 * `providers.ts` says how to add a row. All exports are public.
 */
import type { Verifier } from "../../../core/webhook/WebhookRoute.ts";
import type { Secret } from "../verifier/Secrets.ts";
import { SCHEME_DEFAULTS, type SignatureScheme } from "../verifier/SignatureScheme.ts";
import { verifierOf, type TimestampedOptions } from "../verifier/verifierOf.ts";
import { discordHandshake } from "./handshakes.ts";
import { provider } from "./Provider.ts";

/** Options of providers that sign with a private key. */
export interface PublicKeyOptions extends Omit<TimestampedOptions, "secret"> {
  /**
   * Name of the environment variable that holds the provider's public key as its dashboard shows
   * it; or `{ value }` with the key itself; or a list of these, all live, for a rotation.
   */
  readonly publicKey: Secret | ReadonlyArray<Secret>;
}

const byPublicKey = {
  options: ["publicKey"],
  verifier: (scheme: SignatureScheme, options: PublicKeyOptions): Verifier =>
    verifierOf(scheme, { ...options, secret: options.publicKey }),
} as const;

/**
 * Discord, with the application's public key: webhook events and interactions. The gateway answers
 * their pings. Discord sends wrong signatures on purpose and expects 401. The time may be up to
 * 15 min from now. Deadline 2.5 s.
 * https://docs.discord.com/developers/events/webhook-events and …/interactions/overview
 */
export const discord = provider<PublicKeyOptions>(
  {
    ...SCHEME_DEFAULTS,
    provider: "discord",
    deadlineMs: 2500, // Discord times out after 3 s.
    algorithm: "ed25519",
    headers: [{ signature: "x-signature-ed25519", timestamp: "x-signature-timestamp" }],
    prefix: "",
    template: "{timestamp}{body}",
    // Discord demands no window. Retries back off for up to 10 min and may keep the first time.
    timestamp: { unit: "s", toleranceSeconds: 15 * 60 },
    secretFormat: "ed25519-hex",
    idFields: ["id"],
    hashId: true,
    eventFields: ["event.type", "type"],
    handshake: discordHandshake,
  },
  byPublicKey,
);

/**
 * SendGrid's event webhook, with its verification key. Each event of the list is an input of its
 * own. The time may be up to 10 min from now. Deadline 5 s.
 * https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
 */
export const sendgrid = provider<PublicKeyOptions>(
  {
    ...SCHEME_DEFAULTS,
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
  },
  byPublicKey,
);
