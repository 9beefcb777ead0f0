/**
 * One durable input, as it lies in the inbox: a `Frame` whose head is the envelope and whose body
 * is the input's raw bytes (a webhook's body exactly as it was signed).
 *
 * Written by the gateway (and later by timers, mail and workflows), read by the host. An
 * envelope past the broker's payload limit is the inbox adapter's to store elsewhere (claim check).
 */
import { Schema } from "effect";
import { CorruptFrame, decodeFrame, encodeFrame } from "./Frame.ts";

const Headers = Schema.Record(Schema.String, Schema.String);

export const InboxHead = Schema.Struct({
  /** Dedup key, unique for the agent: `<provider>:<provider's id>`, or `gen:<uuid>` where there is none. */
  key: Schema.String,
  /** Further keys under which this input counts as seen (a body hash, where the route asks for the replay guard). */
  alsoKeys: Schema.optionalKey(Schema.Array(Schema.String)),
  kind: Schema.Literals(["webhook", "queue", "schedule", "mail", "workflow"]),
  /** When the gateway took it, milliseconds since the epoch. */
  time: Schema.Number,
  provider: Schema.optionalKey(Schema.String),
  /** The provider's event type, e.g. GitHub's `push`. */
  type: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  /** The full URL as the caller saw it. */
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Headers),
  /** Core subject on which somebody waits for the agent's answer, and the id to answer under. */
  reply: Schema.optionalKey(Schema.Struct({ subject: Schema.String, id: Schema.String })),
});
export type InboxHead = typeof InboxHead.Type;

export interface InboxEnvelope {
  readonly head: InboxHead;
  readonly body: Uint8Array;
}

export const encodeEnvelope = (head: InboxHead, body?: Uint8Array): Uint8Array =>
  encodeFrame(head, body);

const decodeHead = Schema.decodeUnknownResult(InboxHead);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeEnvelope(bytes: Uint8Array): InboxEnvelope {
  const frame = decodeFrame(bytes);
  const head = decodeHead(frame.head);
  if (head._tag === "Failure")
    throw new CorruptFrame({ message: `not an inbox envelope: ${String(head.failure)}` });
  return { head: head.success, body: frame.body };
}
