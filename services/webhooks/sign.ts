/**
 * Signs requests as the providers do, from the same rows that verify them: for tests, for trying a
 * route by hand, and for sending webhooks to whoever verifies them so. Each function gives the headers
 * to send with the body (lower-case names), `content-type` not among them.
 */
import { randomUUID } from "node:crypto";
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import * as bodySigned from "./bodySigned.ts";
import { hmacScheme, type HmacScheme } from "./hmac.ts";
import { discordScheme, sendgridScheme } from "./keySigned.ts";
import { signingKeyOf } from "./keyOf.ts";
import { paypalScheme } from "./paypal.ts";
import { PAYPAL_HOSTS } from "./PaypalCertificates.ts";
import * as providers from "./providers.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { signatureOf } from "./Signatures.ts";
import { parseTemplate, signedBytes, sortedForm } from "./signedBytes.ts";
import * as timeSigned from "./timeSigned.ts";
import { formatTimestamp } from "./timestamp.ts";
import * as urlSigned from "./urlSigned.ts";

export interface SignOptions {
  /** The event's or delivery's id where the provider sends one as a header; random unless given. */
  readonly id?: string;
  /** The event's type where the provider sends it as a header, like `push`; not sent unless given. */
  readonly event?: string;
  /** When it is signed, milliseconds since the epoch; now unless given. */
  readonly nowMs?: number;
  /** For templates that sign it: the full URL as the receiver knows it. */
  readonly url?: string;
  readonly method?: string;
  /** PayPal's: the webhook's id, and where its certificate is. */
  readonly webhookId?: string;
  readonly certUrl?: string;
}

/**
 * `secret`: the secret itself, or several: one signature each, where the provider's header is a list.
 * For a provider that signs with a private key, that: PEM, Discord's 64 hexadecimal digits, or `whsk_…`.
 */
export type Sign = (
  body: string | Uint8Array,
  secret: string | ReadonlyArray<string>,
  options?: SignOptions,
) => Record<string, string>;

const signPaypal = signerOf(paypalScheme, { "paypal-auth-algo": "SHA256withRSA" });

export const sign = {
  github: signerOf(providers.githubScheme),
  stripe: signerOf(providers.stripeScheme),
  slack: signerOf(providers.slackScheme),
  shopify: signerOf(providers.shopifyScheme),
  standardWebhooks: signerOf(providers.standardWebhooksScheme),
  svix: signerOf(providers.svixScheme),
  gitlabToken: signerOf(bodySigned.gitlabTokenScheme),
  bitbucket: signerOf(bodySigned.bitbucketScheme),
  jira: signerOf(bodySigned.jiraScheme),
  meta: signerOf(bodySigned.metaScheme),
  typeform: signerOf(bodySigned.typeformScheme),
  intercom: signerOf(bodySigned.intercomScheme),
  sentry: signerOf(bodySigned.sentryScheme),
  pagerduty: signerOf(bodySigned.pagerdutyScheme),
  notion: signerOf(bodySigned.notionScheme),
  vercel: signerOf(bodySigned.vercelScheme),
  docusign: signerOf(bodySigned.docusignScheme),
  calcom: signerOf(bodySigned.calcomScheme),
  attio: signerOf(bodySigned.attioScheme),
  vapi: signerOf(bodySigned.vapiScheme),
  gitlab: signerOf(timeSigned.gitlabScheme),
  /** The time is in the body: give it a fresh `webhookTimestamp` (milliseconds). */
  linear: signerOf(timeSigned.linearScheme),
  zendesk: signerOf(timeSigned.zendeskScheme),
  zoom: signerOf(timeSigned.zoomScheme),
  calendly: signerOf(timeSigned.calendlyScheme),
  workos: signerOf(timeSigned.workosScheme),
  elevenlabs: signerOf(timeSigned.elevenlabsScheme),
  retell: signerOf(timeSigned.retellScheme),
  /** A body that is no form needs a `url` with its SHA-256 (hex) as `bodySHA256`. */
  twilio: signerOf(urlSigned.twilioScheme),
  square: signerOf(urlSigned.squareScheme),
  hubspot: signerOf(urlSigned.hubspotScheme),
  hubspotV2: signerOf(urlSigned.hubspotV2Scheme, { "x-hubspot-signature-version": "v2" }),
  hubspotV1: signerOf(urlSigned.hubspotV1Scheme, { "x-hubspot-signature-version": "v1" }),
  discord: signerOf(discordScheme),
  sendgrid: signerOf(sendgridScheme),
  paypal: ((body, secret, options = {}) => ({
    ...signPaypal(body, secret, options),
    "paypal-cert-url":
      options.certUrl ?? `https://${PAYPAL_HOSTS.live}/v1/notifications/certs/CERT-1`,
  })) satisfies Sign,
  /** With the options of the receiver's `hmac(…)`. */
  hmac: (
    body: string | Uint8Array,
    secret: string | ReadonlyArray<string>,
    options: SignOptions & { readonly scheme?: HmacScheme } = {},
  ): Record<string, string> => signerOf(hmacScheme(options.scheme ?? {}))(body, secret, options),
} as const;

/** Throws `InvalidWebhook` for a secret that the provider could not have given. */
function signerOf(scheme: SignatureScheme, alsoSent: Readonly<Record<string, string>> = {}): Sign {
  const template = parseTemplate(scheme.template);
  const names = scheme.headers[0]!;
  const { separator, timestamp: time } = scheme;
  const wrong = (why: string) => new InvalidWebhook({ message: `sign.${scheme.provider}: ${why}` });
  return (body, secret, options = {}) => {
    const sendsTime = time !== undefined && time.field === undefined;
    const timestamp = sendsTime ? formatTimestamp(options.nowMs ?? Date.now(), time.unit) : "";
    const id = options.id ?? randomUUID();
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const url = options.url ?? "";
    const hashed = scheme.bodyHashParameter !== undefined && url.includes(scheme.bodyHashParameter);
    const form = template.includes("form") && !hashed ? sortedForm(bytes) : "";
    if (form === undefined) throw wrong("the body is no form: put its bodySHA256 into the URL");
    const message = signedBytes(template, {
      body: bytes,
      timestamp,
      id,
      url,
      form,
      method: options.method ?? "POST",
      webhook: options.webhookId ?? "",
    });
    const secrets = typeof secret === "string" ? [secret] : secret;
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
