/**
 * PayPal, which signs with a certificate that each request names. The certificate is configured, or
 * fetched before verification from PayPal's one host and kept (`PaypalCertificates`).
 *
 * The signature covers only the CRC-32 of the body, which is no protection by itself: someone who
 * has seen one request can make another body with the same CRC-32. Therefore a second delivery
 * under one transmission id, which is signed, is refused, and so is a request older than PayPal's
 * last retry.
 */
import { InvalidWebhook } from "../../../core/webhook/WebhookRoute.ts";
import { Secrets, type Secret } from "../verifier/Secrets.ts";
import { SCHEME_DEFAULTS } from "../verifier/SignatureScheme.ts";
import { verifierOf, type TimestampedOptions, type VerifierParts } from "../verifier/verifierOf.ts";
import { PAYPAL_HOSTS, PaypalCertificates } from "./PaypalCertificates.ts";
import { provider } from "./Provider.ts";

/** Options of `paypal`. */
export interface PaypalOptions extends Omit<TimestampedOptions, "secret"> {
  /** The webhook's id in PayPal's dashboard: an environment variable's name, or `{ value }`. */
  readonly webhookId: Secret;
  /**
   * PayPal's certificate in PEM: the name of a variable, `{ value }`, or a list of these. With it
   * nothing is fetched, and you replace it when PayPal does. Default: fetched as requests name it.
   */
  readonly certificate?: Secret | ReadonlyArray<Secret>;
  /** The environment whose certificates are accepted. Default `live`. */
  readonly environment?: keyof typeof PAYPAL_HOSTS;
  /** Fetches a certificate; only called with PayPal's own URLs. Default: the global `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/**
 * PayPal's REST webhooks. The event's id is in the body. The time may be up to 4 days from now.
 * Deadline 5 s. A request that comes while the certificate can't be fetched is answered 503.
 * https://developer.paypal.com/api/rest/webhooks/rest/#verify-the-signature-offline
 */
export const paypal = provider<PaypalOptions>(
  {
    ...SCHEME_DEFAULTS,
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
    // PayPal retries for three days, perhaps with the first time. One day is added; ids are
    // remembered for longer.
    timestamp: { unit: "iso", toleranceSeconds: 4 * 24 * 3600 },
    secretFormat: "certificate",
    replayById: true,
    idFields: ["id"],
    eventFields: ["event_type"],
  },
  {
    options: ["webhookId", "certificate", "environment", "fetch"],
    verifier: (scheme, options) => verifierOf(scheme, options, partsOf(options)),
  },
);

function partsOf({
  certificate,
  environment = "live",
  webhookId,
  fetch: fetchCertificate = (url, init) => fetch(url, init),
}: PaypalOptions): VerifierParts {
  if (!Object.hasOwn(PAYPAL_HOSTS, environment))
    throw new InvalidWebhook({
      message: `paypal({ environment: "${String(environment)}" }): it is "live" or "sandbox"`,
    });
  const webhooks = new Secrets("paypal", webhookId, "plain", "webhookId");
  return {
    keys:
      certificate === undefined
        ? new PaypalCertificates(PAYPAL_HOSTS[environment], fetchCertificate)
        : new Secrets("paypal", certificate, "certificate", "certificate"),
    webhook: (request) => {
      const found = webhooks.keysFor(request);
      if (found._tag === "Misconfigured") return found;
      return found._tag === "Keys" ? found.keys[0]!.export().toString() : "";
    },
  };
}
