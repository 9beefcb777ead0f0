/**
 * How one provider signs a request, as data: the row that the verifier (`verifierOf`) and the signer
 * (`sign`) are both driven by, so that what one makes the other accepts. A new provider is a new row,
 * in the file for what it signs: `providers`, `bodySigned`, `timeSigned`, `urlSigned`, `keySigned`.
 */
import type { KeyObject } from "node:crypto";
import type { PlainAnswer, WebhookRequest } from "../../core/webhook/WebhookRoute.ts";
import type { SecretFormat } from "./keyOf.ts";
import type { Algorithm, PublicKeyAlgorithm, SignatureEncoding } from "./Signatures.ts";
import type { TimestampUnit } from "./timestamp.ts";

/** The headers of one way to send a signature. Lower-case names. */
export interface SignatureHeaders {
  readonly signature: string;
  /** Where the signed time is, when it has a header of its own. */
  readonly timestamp?: string;
  /** The event's or delivery's id: `{id}` of the template, and the dedup key unless the body has one. */
  readonly id?: string;
  /** The event's type, when the provider sends it as a header. */
  readonly event?: string;
}

/** Where an event's id, type and delivery count are. Fields are dotted paths in the body. */
export interface DetailFields {
  /** The event's id when it is in the body: these fields, joined by `:`. The first must be there. */
  readonly idFields?: ReadonlyArray<string>;
  /** Without any other id the body's hash is one: each event's body is its own, and stays over retries. */
  readonly hashId?: true;
  /** The event's type when it is in the body: the first of these that is there. */
  readonly eventFields?: ReadonlyArray<string>;
  /** Counts retries from 1; not sent with the first delivery. */
  readonly retryHeader?: string;
  /** Counts deliveries from 1. */
  readonly attemptHeader?: string;
  /** Counts retries from 0. */
  readonly retryField?: string;
}

export interface SignatureScheme extends DetailFields {
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
  /** Blanks may follow the separator. */
  readonly spaced?: true;
  /** Marks a signature, e.g. `sha256=`; in a list, items without it are passed over. */
  readonly prefix: string;
  /** What is signed: a template (`signedBytes`). */
  readonly template: string;
  /** For providers with both kinds of key: how a signature that a public key verifies is made and marked. */
  readonly asymmetric?: { readonly algorithm: PublicKeyAlgorithm; readonly prefix: string };
  /**
   * The signed time: an `item` of the signature's list, after this prefix; a `field` of the signed body;
   * else `headers.timestamp`. Without a tolerance any time will do, unless the user says otherwise.
   */
  readonly timestamp?: {
    readonly item?: string;
    readonly field?: string;
    readonly unit: TimestampUnit;
    readonly toleranceSeconds?: number;
  };
  readonly secretFormat: SecretFormat;
  /** Headers that carry the secret itself and no signature, in lower case: they are not stored. */
  readonly secretHeaders?: ReadonlyArray<string>;
  /** The id's header is signed and the body only weakly: a second delivery under this id is refused. */
  readonly replayById?: true;
  /** Other spellings of the URL that the provider may have signed, the likeliest first. */
  readonly urls?: (url: string) => ReadonlyArray<string>;
  /** With `{form}`: a query parameter of the signed URL that has the body's SHA-256 when it is no form. */
  readonly bodyHashParameter?: string;
  /** The body is a list of events, or has one: in `member`, or else it is the body itself. */
  readonly batch?: DetailFields & { readonly member?: string };
  /** Answers a request that is the provider's handshake, once its signature was found right with `key`. */
  readonly handshake?: (request: WebhookRequest, key: KeyObject) => PlainAnswer | undefined;
}
