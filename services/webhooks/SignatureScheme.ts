/**
 * How one provider signs a request, as data: the row that the verifier (`verifierOf`) and the signer
 * (`sign`) are both driven by, so that what one makes the other accepts. A new provider is a new row in
 * `providers.ts`; a new kind of key (Ed25519, ECDSA, RSA) is a new `Algorithm` and its `SecretFormat`.
 */
import { createHmac, timingSafeEqual, type KeyObject } from "node:crypto";
import {
  InvalidWebhook,
  type PlainAnswer,
  type WebhookRequest,
} from "../../core/webhook/WebhookRoute.ts";
import type { SecretFormat } from "./Secrets.ts";
import type { TimestampUnit } from "./timestamp.ts";

export type Algorithm = "hmac-sha256" | "hmac-sha1" | "hmac-sha512";
/** Lower-case hex, or base64 with its padding: compared as text, so there is one spelling of a digest. */
export type SignatureEncoding = "hex" | "base64";

/** The headers of one way to send a signature. Lower-case names. */
export interface SignatureHeaders {
  readonly signature: string;
  /** Where the signed time is, when it has a header of its own. */
  readonly timestamp?: string;
  /** The event's id: the dedup key, and `{id}` of the template. */
  readonly id?: string;
  /** The event's type, when the provider sends it as a header. */
  readonly event?: string;
}

export interface SignatureScheme {
  /** Part of dedup keys and logs. */
  readonly provider: string;
  /** How long to wait for the agent: what the provider waits, less the way there and back. */
  readonly deadlineMs: number;
  readonly algorithm: Algorithm;
  readonly encoding: SignatureEncoding;
  /** Tried in order: the first whose signature header was sent is the one that must be right. */
  readonly headers: ReadonlyArray<SignatureHeaders>;
  /** The header is a list, split by this; absent: it is one signature. */
  readonly separator?: string;
  /** Marks a signature, e.g. `sha256=`; in a list, items without it are passed over. */
  readonly prefix: string;
  /** What is signed: text with `{body}`, `{timestamp}`, `{id}`, `{url}` and `{method}`. */
  readonly template: string;
  /** `item`: the time is in the signature's list, after this prefix; else in `headers.timestamp`. */
  readonly timestamp?: {
    readonly item?: string;
    readonly unit: TimestampUnit;
    readonly toleranceSeconds: number;
  };
  readonly secretFormat: SecretFormat;
  /** The event's id when it is in the body: a dotted path. */
  readonly idField?: string;
  /** The event's type when it is in the body: dotted paths, of which the first that is there. */
  readonly eventFields?: ReadonlyArray<string>;
  /** Counts retries from 1; not sent with the first delivery. */
  readonly retryHeader?: string;
  /** Answers a request that is the provider's handshake, once its signature was found right. */
  readonly handshake?: (request: WebhookRequest) => PlainAnswer | undefined;
}

/** What fills a template, besides the request's own parts. */
export interface SignedParts {
  readonly body: Uint8Array;
  readonly timestamp: string;
  readonly id: string;
  readonly url: string;
  readonly method: string;
}

export type TemplatePart = { readonly _tag: "Text"; readonly text: string } | keyof SignedParts;

/** Throws `InvalidWebhook` for a placeholder that there isn't, naming those that there are. */
export function parseTemplate(template: string): ReadonlyArray<TemplatePart> {
  return template
    .split(/(\{[^{}]*\})/)
    .filter((piece) => piece !== "")
    .map((piece): TemplatePart => {
      const name = /^\{(body|timestamp|id|url|method)\}$/.exec(piece)?.[1];
      if (name !== undefined) return name as keyof SignedParts;
      if (/[{}]/.test(piece))
        throw new InvalidWebhook({
          message: `template "${template}": "${piece}" is not one of {body}, {timestamp}, {id}, {url}, {method}`,
        });
      return { _tag: "Text", text: piece };
    });
}

const HASH = { "hmac-sha256": "sha256", "hmac-sha1": "sha1", "hmac-sha512": "sha512" } as const;

/** The signature of these parts as text, without its prefix. */
export function signatureOf(
  scheme: Pick<SignatureScheme, "algorithm" | "encoding">,
  template: ReadonlyArray<TemplatePart>,
  key: KeyObject,
  parts: SignedParts,
): string {
  const mac = createHmac(HASH[scheme.algorithm], key);
  for (const part of template)
    mac.update(typeof part === "string" ? parts[part] : Buffer.from(part.text));
  return mac.digest(scheme.encoding);
}

/** Whether two signatures are one, in a time that depends on their lengths only. */
export function sameSignature(expected: string, given: string): boolean {
  if (expected.length !== given.length) return false;
  const a = Buffer.from(expected);
  const b = Buffer.from(given);
  return a.length === b.length && timingSafeEqual(a, b);
}
