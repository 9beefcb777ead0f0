/**
 * PayPal, which signs by a certificate that each request names. The certificate is configured, or
 * fetched before verification from PayPal's one host and kept (`PaypalCertificates`).
 *
 * What is signed of the body is its CRC-32, which is no protection by itself: whoever has seen one
 * request can make another body with the same. So a second delivery under one transmission id, which is
 * signed, is refused, and one from before PayPal's last retry too.
 */
import { InvalidWebhook, type Verifier } from "../../core/webhook/WebhookRoute.ts";
import { PAYPAL_HOSTS, PaypalCertificates } from "./PaypalCertificates.ts";
import { base } from "./providers.ts";
import { Secrets, type Secret } from "./Secrets.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { verifierOf, type TimestampedOptions, type VerifierParts } from "./verifierOf.ts";

export interface PaypalOptions extends Omit<TimestampedOptions, "secret"> {
  /** The webhook's id in PayPal's dashboard: the name of an environment variable, or `{ value }`. */
  readonly webhookId: Secret;
  /**
   * PayPal's certificate in PEM, by a variable's name or `{ value }`, or a list of them. Then nothing is
   * fetched; when PayPal changes it, so must you.
   */
  readonly certificate?: Secret | ReadonlyArray<Secret>;
  /** Whose certificates are accepted; `live` unless said otherwise. */
  readonly environment?: keyof typeof PAYPAL_HOSTS;
  /** Fetches a certificate; the global `fetch` unless given. Only ever asked for PayPal's own URLs. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** https://developer.paypal.com/api/rest/webhooks/rest/#verify-the-signature-offline */
export const paypalScheme: SignatureScheme = {
  ...base,
  provider: "paypal",
  algorithm: "rsa-sha256",
  encoding: "base64",
  headers: [
    {
      signature: "paypal-transmission-sig",
      timestamp: "paypal-transmission-time",
      id: "paypal-transmission-id",
    },
  ],
  prefix: "",
  template: "{id}|{timestamp}|{webhook}|{crc32}",
  // PayPal tries for three days, perhaps with the first time; a day more, and less than ids are remembered.
  timestamp: { unit: "iso", toleranceSeconds: 4 * 24 * 3600 },
  secretFormat: "certificate",
  replayById: true,
  idFields: ["id"],
  eventFields: ["event_type"],
};

/** PayPal's REST webhooks. The event's id is in the body. Throws `InvalidWebhook` for options that can't work. */
export function paypal(options: PaypalOptions): Verifier {
  const { certificate, environment = "live", webhookId } = options;
  const host = PAYPAL_HOSTS[environment];
  if (host === undefined)
    throw new InvalidWebhook({
      message: `paypal({ environment: "${String(environment)}" }): it is "live" or "sandbox"`,
    });
  const webhooks = new Secrets("paypal", webhookId, "plain", "webhookId");
  const { fetch: fetchCertificate = (url, init) => fetch(url, init) } = options;
  const parts: VerifierParts = {
    keys:
      certificate === undefined
        ? new PaypalCertificates(host, fetchCertificate)
        : new Secrets("paypal", certificate, "certificate", "certificate"),
    webhook: (request) => {
      const found = webhooks.keysFor(request);
      if (found._tag === "Misconfigured") return found;
      return found._tag === "Keys" ? found.keys[0]!.export().toString() : "";
    },
  };
  return verifierOf(paypalScheme, options, parts);
}
