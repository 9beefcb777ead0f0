/**
 * Signs requests as the providers do, from the rows that verify them. For tests, for trying a route
 * by hand, and for sending webhooks to receivers that verify them this way. Each function returns
 * the headers to send with the body, in lower case and without `content-type`.
 */
import { randomUUID } from "node:crypto";
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import { hmacScheme } from "./hmac.ts";
import type { HmacScheme } from "./HmacOptions.ts";
import { signingKeyOf } from "./verifier/keyOf.ts";
import * as providers from "./providers.ts";
import { HUBSPOT_VERSIONS } from "./providers/hubspot.ts";
import { PAYPAL_HOSTS } from "./providers/PaypalCertificates.ts";
import { schemeOf, type Provider } from "./providers/Provider.ts";
import type { SignatureScheme } from "./verifier/SignatureScheme.ts";
import { signatureOf } from "./verifier/Signatures.ts";
import { parseTemplate, signedBytes, sortedForm } from "./verifier/signedBytes.ts";
import { formatTimestamp } from "./verifier/timestamp.ts";

/** Options of a signer. */
export interface SignOptions {
  /** The event's or delivery's id, where the provider sends one as a header. Default: random. */
  readonly id?: string;
  /** The event's type, where the provider sends it as a header, like `push`. Default: not sent. */
  readonly event?: string;
  /** The time of signing, milliseconds since the epoch. Default: now. */
  readonly nowMs?: number;
  /** The full URL as the receiver knows it, for providers that sign it. Default: empty. */
  readonly url?: string;
  /** The request's method, for providers that sign it. Default `POST`. */
  readonly method?: string;
  /** PayPal only: the webhook's id. Default: empty. */
  readonly webhookId?: string;
  /** PayPal only: the URL of the certificate. Default: one of PayPal's live host. */
  readonly certUrl?: string;
}

/**
 * Signs a body and returns the headers to send with it.
 *
 * `secret` is the secret itself, or several, each of which makes one signature where the provider's
 * header is a list. For a provider that signs with a private key it is that key: PEM, Discord's 64
 * hexadecimal digits, or `whsk_…`. Throws `InvalidWebhook` for a secret that the provider could not
 * have issued, for several where the header holds one signature, and for a body that is neither
 * text nor bytes, or is not the form that the provider signs.
 */
export type Sign = (
  body: string | Uint8Array,
  secret: string | ReadonlyArray<string>,
  options?: SignOptions,
) => Record<string, string>;

/** One signer per provider of a table, under the same names. */
type Signers<Table> = { readonly [Name in keyof Table]: Sign };

const signersOf = <Table extends Readonly<Record<string, Provider<never>>>>(
  table: Table,
): Signers<Table> => {
  const signers = Object.entries(table).map(([name, of]) => [name, signerOf(schemeOf(of))]);
  return Object.fromEntries(signers) as Signers<Table>;
};

const signPaypal = signerOf(schemeOf(providers.paypal), { "paypal-auth-algo": "SHA256withRSA" });

/**
 * A signer for each provider, by its name: `sign.github(body, secret)`. For HubSpot's older
 * versions there are `hubspotV2` and `hubspotV1`.
 */
export const sign = {
  ...signersOf(providers),
  hubspotV2: signerOf(HUBSPOT_VERSIONS.v2, { "x-hubspot-signature-version": "v2" }),
  hubspotV1: signerOf(HUBSPOT_VERSIONS.v1, { "x-hubspot-signature-version": "v1" }),
  /** Also sends the certificate's URL: `certUrl`, or one of PayPal's live host. */
  paypal: ((body, secret, options = {}) => ({
    ...signPaypal(body, secret, options),
    "paypal-cert-url":
      options.certUrl ?? `https://${PAYPAL_HOSTS.live}/v1/notifications/certs/CERT-1`,
  })) satisfies Sign,
  /** Signs as the receiver's `hmac(…)` verifies; `scheme` has the options of that. */
  hmac: (
    body: string | Uint8Array,
    secret: string | ReadonlyArray<string>,
    options: SignOptions & { readonly scheme?: HmacScheme } = {},
  ): Record<string, string> => signerOf(hmacScheme(options.scheme ?? {}))(body, secret, options),
} as const;

/** The signer of a row; `alsoSent` are constant headers. */
function signerOf(scheme: SignatureScheme, alsoSent: Readonly<Record<string, string>> = {}): Sign {
  const template = parseTemplate(scheme.template);
  const names = scheme.headers[0]!;
  const { separator, timestamp: time } = scheme;
  const wrong = (why: string) => new InvalidWebhook({ message: `sign.${scheme.provider}: ${why}` });
  return (body, secret, options = {}) => {
    const secrets: unknown = typeof secret === "string" ? [secret] : secret;
    if (!isTexts(secrets))
      throw wrong("its arguments are the body, the secret itself (or a list), and options");
    if (typeof body !== "string" && !ArrayBuffer.isView(body))
      throw wrong(`the body is of type ${typeof body}: sign the text or the bytes that are sent`);
    const sendsTime = time !== undefined && time.field === undefined;
    const timestamp = sendsTime ? formatTimestamp(options.nowMs ?? Date.now(), time.unit) : "";
    const id = options.id ?? randomUUID();
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const url = options.url ?? "";
    const hashed = scheme.bodyHashParameter !== undefined && url.includes(scheme.bodyHashParameter);
    const form = template.includes("form") && !hashed ? sortedForm(bytes) : "";
    if (form === undefined) throw wrong("the body is not a form: put its bodySHA256 into the URL");
    const message = signedBytes(template, {
      body: bytes,
      timestamp,
      id,
      url,
      form,
      method: options.method ?? "POST",
      webhook: options.webhookId ?? "",
    });
    if (secrets.length !== 1 && (secrets.length === 0 || separator === undefined))
      throw wrong(`${secrets.length} secrets, and its header holds one signature`);
    const signatures = secrets.map((each) => {
      const key = signingKeyOf(each, scheme.secretFormat);
      if (typeof key === "string") throw wrong(`the secret ${key}`);
      const { asymmetric } = scheme;
      const way = asymmetric !== undefined && key.type === "private" ? asymmetric : scheme;
      const { algorithm, prefix } = way;
      return prefix + signatureOf({ algorithm, encoding: scheme.encoding }, message, key);
    });
    const items = time?.item === undefined ? signatures : [time.item + timestamp, ...signatures];
    return {
      [names.signature]: items.join(separator ?? ""),
      ...(names.timestamp !== undefined && { [names.timestamp]: timestamp }),
      ...(names.id !== undefined && { [names.id]: id }),
      ...(names.event !== undefined &&
        options.event !== undefined && { [names.event]: options.event }),
      ...alsoSent,
    };
  };
}

const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every((each) => typeof each === "string");
