/**
 * How one provider signs a request, as data. The same row drives the verifier (`verifierOf`) and
 * the signer (`sign`), so the verifier accepts what the signer makes. The rows are in `providers/`,
 * one file per kind of signature; the header of `providers.ts` says how to add one.
 */
import type { KeyObject } from "node:crypto";
import type { PlainAnswer, WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";
import type { SecretFormat } from "./keyOf.ts";
import type { Algorithm, PublicKeyAlgorithm, SignatureEncoding } from "./Signatures.ts";
import type { TimestampUnit } from "./timestamp.ts";

/** For providers that wait longer than ten seconds or don't say: sockets are held no longer. */
export const DEADLINE_MS_DEFAULT = 5000;
/** Five minutes: the value of the vendors' own libraries and of the Standard Webhooks document. */
export const TOLERANCE_SECONDS_DEFAULT = 300;

/** Field values that most rows share. */
export const SCHEME_DEFAULTS = {
  deadlineMs: DEADLINE_MS_DEFAULT,
  algorithm: "hmac-sha256",
  encoding: "hex",
  secretFormat: "plain",
} as const;

/** The headers of one way to send a signature. Lower-case names. */
export interface SignatureHeaders {
  readonly signature: string;
  /** The signed time, where it has a header of its own. */
  readonly timestamp?: string;
  /**
   * The id of the event or delivery: `{id}` of the template, and the dedup key unless the body has
   * one.
   */
  readonly id?: string;
  /** The event's type, where the provider sends it as a header. */
  readonly event?: string;
}

/** The places of an event's id, type and delivery count. Fields are dotted paths in the body. */
export interface DetailFields {
  /** The event's id where it is in the body: these fields, joined by `:`. The first is required. */
  readonly idFields?: ReadonlyArray<string>;
  /**
   * The body's hash is the id when there is no other. For providers whose events have distinct
   * bodies that stay the same over retries.
   */
  readonly hashId?: true;
  /** The event's type where it is in the body: the first of these fields that exists. */
  readonly eventFields?: ReadonlyArray<string>;
  /** Header that counts retries from 1; not sent with the first delivery. */
  readonly retryHeader?: string;
  /** Header that counts deliveries from 1. */
  readonly attemptHeader?: string;
  /** Field of the body that counts retries from 0. */
  readonly retryField?: string;
}

export interface SignatureScheme extends DetailFields {
  /** The provider's name in dedup keys and logs. */
  readonly provider: string;
  /** Milliseconds to wait for the agent: the provider's own timeout, less the round trip. */
  readonly deadlineMs: number;
  readonly algorithm: Algorithm;
  /** A header that may name another algorithm, unsigned. Undefined: the provider has none. */
  readonly algorithmHeader?: {
    readonly name: string;
    readonly algorithmIn: (value: string) => Algorithm | undefined;
  };
  readonly encoding: SignatureEncoding;
  /** Tried in order: the first whose signature header was sent is the one that is verified. */
  readonly headers: ReadonlyArray<SignatureHeaders>;
  /** Separates the items of a header that is a list. Absent: the header is one signature. */
  readonly separator?: string;
  /** White space may follow the separator. */
  readonly spaced?: true;
  /** Text before a signature, like `sha256=`. Items of a list without it are skipped. */
  readonly prefix: string;
  /** The template of the signed bytes (`signedBytes`). */
  readonly template: string;
  /** For providers with both kinds of key: algorithm and prefix of signatures by a private key. */
  readonly asymmetric?: { readonly algorithm: PublicKeyAlgorithm; readonly prefix: string };
  /**
   * The signed time: an `item` of the signature's list, after this prefix; a `field` of the signed
   * body; else `headers.timestamp`. Without a tolerance any time is accepted, unless the user's
   * options have one.
   */
  readonly timestamp?: {
    readonly item?: string;
    readonly field?: string;
    readonly unit: TimestampUnit;
    readonly toleranceSeconds?: number;
  };
  readonly secretFormat: SecretFormat;
  /** Headers that carry the secret instead of a signature, in lower case. They are not stored. */
  readonly secretHeaders?: ReadonlyArray<string>;
  /**
   * A second delivery under one id of the header is refused. For providers that sign the id and
   * protect the body only weakly.
   */
  readonly replayById?: true;
  /** The spellings of the URL that the provider may have signed, the likeliest first. */
  readonly urls?: (url: string) => ReadonlyArray<string>;
  /** With `{form}`: the query parameter with the body's SHA-256, for a body that is not a form. */
  readonly bodyHashParameter?: string;
  /** The body is a list of events, or contains one in `member`. */
  readonly batch?: DetailFields & { readonly member?: string };
  /** Answers the provider's handshake, once `key` has verified the request's signature. */
  readonly handshake?: (request: WebhookRequest, key: KeyObject) => PlainAnswer | undefined;
}
