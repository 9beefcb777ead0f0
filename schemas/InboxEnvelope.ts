/**
 * One durable input, as it lies in the inbox: a `Frame` whose head is the envelope and whose body
 * is the input's raw bytes (a webhook's body exactly as it was signed).
 *
 * Written by the gateway (and later by timers, mail and workflows), read by the host. An
 * envelope past the broker's payload limit is the inbox adapter's to store elsewhere (claim check).
 */
import * as Schema from "effect/Schema";
import { CorruptFrame, decodeFrame, encodeFrame } from "./Frame.ts";

const Headers = Schema.Record(Schema.String, Schema.String);

export const InboxHead = Schema.Struct({
  /** Dedup key, unique for the agent: `<provider>:<provider's id>`, or `gen:<uuid>` where there is none. */
  key: Schema.String,
  /** Further keys under which this input counts as seen (a body hash, where the route asks for the replay guard). */
  alsoKeys: Schema.optionalKey(Schema.Array(Schema.String)),
  /**
   * `redrive`: a job from the dead letters that an operator wants again; `type` is its callback, the
   * body its payload as JSON. `queue` and `schedule` are triggers only: the agent's tables say what runs.
   */
  kind: Schema.Literals(["webhook", "queue", "schedule", "mail", "workflow", "redrive"]),
  /** Of a `redrive`: what the job was, and the key that it ran under. */
  job: Schema.optionalKey(
    Schema.Struct({ kind: Schema.Literals(["queue", "schedule"]), key: Schema.String }),
  ),
  /** When the gateway took it, milliseconds since the epoch. */
  time: Schema.Number,
  provider: Schema.optionalKey(Schema.String),
  /** Path of a webhook's route as the module declares it. Absent: another kind, or an older release stored it. */
  route: Schema.optionalKey(Schema.String),
  /** False: the webhook's route is `unsigned()`. Absent: its signature was verified. */
  verified: Schema.optionalKey(Schema.Boolean),
  /** The provider's event type, e.g. GitHub's `push`. */
  type: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  /** The full URL as the caller saw it. */
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Headers),
  /** Of a `webhook`: the entity as it was sent, where `slug` made the agent's name of it. */
  entity: Schema.optionalKey(Schema.String),
  /** Of a `mail`: its envelope's sender (empty for a bounce) and recipient, and whether it came by a signed reply. */
  mail: Schema.optionalKey(
    Schema.Struct({
      from: Schema.String,
      to: Schema.String,
      secureRouted: Schema.optionalKey(Schema.Boolean),
    }),
  ),
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
  if (isPlainHead(frame.head)) return { head: frame.head, body: frame.body };
  const head = decodeHead(frame.head);
  if (head._tag === "Failure")
    throw new CorruptFrame({ message: `not an inbox envelope: ${String(head.failure)}` });
  return { head: head.success, body: frame.body };
}

/**
 * The schema by hand, for the per-input path (the schema takes ten times as long): true only for what the
 * schema accepts and leaves as it is. Whatever is false goes to the schema, which decides. By test.
 */
export function isPlainHead(head: Readonly<Record<string, unknown>>): head is InboxHead {
  let known = 0;
  for (const name in head) {
    const value = head[name];
    switch (name) {
      case "key":
        if (typeof value !== "string") return false;
        known++;
        break;
      case "kind":
        if (value !== "webhook") return false;
        known++;
        break;
      case "time":
        if (typeof value !== "number") return false;
        known++;
        break;
      case "provider":
      case "route":
      case "type":
      case "method":
      case "url":
      case "entity":
        if (typeof value !== "string") return false;
        break;
      case "verified":
        if (typeof value !== "boolean") return false;
        break;
      case "headers":
        if (!isPlainObject(value)) return false;
        for (const header in value) if (typeof value[header] !== "string") return false;
        break;
      case "reply":
        if (!isPlainObject(value)) return false;
        if (typeof value["subject"] !== "string" || typeof value["id"] !== "string") return false;
        for (const field in value) if (field !== "subject" && field !== "id") return false;
        break;
      default:
        return false;
    }
  }
  return known === REQUIRED_FIELDS;
}

/** `key`, `kind` and `time`. */
const REQUIRED_FIELDS = 3;

const isPlainObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
