/**
 * Signs requests as the providers do, from the same rows that verify them: for tests, for trying a
 * route by hand, and for sending webhooks to whoever verifies them so. Each function gives the headers
 * to send with the body (lower-case names), `content-type` not among them.
 */
import { randomUUID } from "node:crypto";
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import { hmacScheme, type HmacScheme } from "./hmac.ts";
import {
  githubScheme,
  shopifyScheme,
  slackScheme,
  standardWebhooksScheme,
  stripeScheme,
  svixScheme,
} from "./providers.ts";
import { keyOf } from "./Secrets.ts";
import { parseTemplate, signatureOf, type SignatureScheme } from "./SignatureScheme.ts";
import { formatTimestamp } from "./timestamp.ts";

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
}

/** `secret`: the secret itself, or several: one signature each, where the provider's header is a list. */
export type Sign = (
  body: string | Uint8Array,
  secret: string | ReadonlyArray<string>,
  options?: SignOptions,
) => Record<string, string>;

export const sign = {
  github: signerOf(githubScheme),
  stripe: signerOf(stripeScheme),
  slack: signerOf(slackScheme),
  shopify: signerOf(shopifyScheme),
  standardWebhooks: signerOf(standardWebhooksScheme),
  svix: signerOf(svixScheme),
  /** With the options of the receiver's `hmac(…)`. */
  hmac: (
    body: string | Uint8Array,
    secret: string | ReadonlyArray<string>,
    options: SignOptions & { readonly scheme?: HmacScheme } = {},
  ): Record<string, string> => signerOf(hmacScheme(options.scheme ?? {}))(body, secret, options),
} as const;

/** Throws `InvalidWebhook` for a secret that the provider could not have given. */
function signerOf(scheme: SignatureScheme): Sign {
  const template = parseTemplate(scheme.template);
  const names = scheme.headers[0]!;
  return (body, secret, options = {}) => {
    const timestamp =
      scheme.timestamp === undefined
        ? ""
        : formatTimestamp(options.nowMs ?? Date.now(), scheme.timestamp.unit);
    const id = options.id ?? randomUUID();
    const parts = {
      body: typeof body === "string" ? Buffer.from(body) : body,
      timestamp,
      id,
      url: options.url ?? "",
      method: options.method ?? "POST",
    };
    const secrets = typeof secret === "string" ? [secret] : secret;
    if (secrets.length !== 1 && (secrets.length === 0 || scheme.separator === undefined))
      throw new InvalidWebhook({
        message: `sign.${scheme.provider}: ${secrets.length} secrets, and its header holds one signature`,
      });
    const signatures = secrets.map((each) => {
      const key = keyOf(each, scheme.secretFormat);
      if (typeof key === "string")
        throw new InvalidWebhook({ message: `sign.${scheme.provider}: the secret ${key}` });
      return scheme.prefix + signatureOf(scheme, template, key, parts);
    });
    const item = scheme.timestamp?.item;
    const items = item === undefined ? signatures : [item + timestamp, ...signatures];
    return {
      [names.signature]: items.join(scheme.separator ?? ""),
      ...(names.timestamp !== undefined && { [names.timestamp]: timestamp }),
      ...(names.id !== undefined && { [names.id]: id }),
      ...(names.event !== undefined &&
        options.event !== undefined && { [names.event]: options.event }),
    };
  };
}
