/**
 * One durable input, as it is stored in the inbox: a `Frame` whose head is the envelope and whose
 * body is the input's raw bytes (a webhook's body exactly as it was signed).
 *
 * Written by gateways, timers, mail and workflows; read by the host. The inbox adapter stores an
 * envelope past the broker's payload limit elsewhere (claim check).
 */
import * as Schema from "effect/Schema";
import * as SchemaGetter from "effect/SchemaGetter";
import { CorruptFrame, decoded, decodeFrame, encodeFrame } from "./Frame.ts";
import { isObject } from "./plainCheck.ts";

const Headers = Schema.Record(Schema.String, Schema.String);
/** Milliseconds. Null is `Infinity`, which JSON does not have; older releases let it pass. */
const DelayMs = Schema.NullOr(Schema.Number).pipe(
  Schema.decodeTo(Schema.Number, {
    decode: SchemaGetter.transform((ms) => ms ?? Number.MAX_SAFE_INTEGER),
    encode: SchemaGetter.passthrough(),
  }),
);

export const InboxHead = Schema.Struct({
  /** Dedup key, unique for the agent: `<provider>:<provider's id>`, or `gen:<uuid>` without one. */
  key: Schema.String,
  /** Further keys by which it counts as seen: a body hash, where the verifier has `replayGuard`. */
  alsoKeys: Schema.optionalKey(Schema.Array(Schema.String)),
  /**
   * `redrive`: a job from the dead letters that an operator runs again. Its `type` is the callback,
   * its body the payload as JSON. `queue` and `schedule` are triggers only: the agent's tables have
   * the job.
   */
  kind: Schema.Literals(["webhook", "queue", "schedule", "mail", "workflow", "redrive"]),
  /**
   * For a `redrive`, and for a job in the dead letters: the kind of the job, the key under which it
   * ran, a queue item's own id, and its retry policy. Inputs of older releases have no `id` and
   * `retry`, and their dead letters no `job`.
   */
  job: Schema.optionalKey(
    Schema.Struct({
      kind: Schema.Literals(["queue", "schedule"]),
      key: Schema.String,
      id: Schema.optionalKey(Schema.String),
      retry: Schema.optionalKey(
        Schema.Struct({
          maxAttempts: Schema.Number,
          baseDelayMs: DelayMs,
          maxDelayMs: DelayMs,
        }),
      ),
    }),
  ),
  /**
   * Sequence of the dead letter that this input was, if its steps were undone: its steps, or those
   * of its job, have other idempotency keys. Absent: the usual ones.
   */
  redrive: Schema.optionalKey(Schema.Number),
  /** When the gateway accepted it, milliseconds since the epoch. */
  time: Schema.Number,
  provider: Schema.optionalKey(Schema.String),
  /** Path of a webhook's route, as declared. Absent for other kinds and in older inputs. */
  route: Schema.optionalKey(Schema.String),
  /** False: the webhook's route is `unsigned()`. Absent: its signature was verified. */
  verified: Schema.optionalKey(Schema.Boolean),
  /** The provider's event type, e.g. GitHub's `push`. */
  type: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  /** The full URL as the caller saw it. */
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Headers),
  /** For a `webhook`: the entity as it was sent, where `slug` converted it to the agent's name. */
  entity: Schema.optionalKey(Schema.String),
  /**
   * For a `mail`: sender (empty for a bounce) and recipient of its envelope, and whether it is a
   * signed reply.
   */
  mail: Schema.optionalKey(
    Schema.Struct({
      from: Schema.String,
      to: Schema.String,
      secureRouted: Schema.optionalKey(Schema.Boolean),
    }),
  ),
  /** For a `webhook`: its request (`schemas/DeliveryRecord`). Absent in older releases' inputs. */
  delivery: Schema.optionalKey(Schema.String),
  /**
   * For a `webhook`: paths of fields of its body that are kept nowhere but here, until it is done
   * (`core/redaction/FieldRedaction`). Absent: its route names none.
   */
  redact: Schema.optionalKey(Schema.Array(Schema.String)),
  /** W3C trace context of what caused the input. Absent: it is not traced. */
  traceparent: Schema.optionalKey(Schema.String),
  /**
   * Core subject on which the gateway waits for the agent's answer, the id of the answer, and the
   * milliseconds from `time` that it waits. `ms` is absent in inputs of older releases.
   */
  reply: Schema.optionalKey(
    Schema.Struct({
      subject: Schema.String,
      id: Schema.String,
      ms: Schema.optionalKey(Schema.Number),
    }),
  ),
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
  // Where an input past the broker's payload limit has no body any more.
  if ("claim" in frame.head) throw new CorruptFrame({ message: "the input's stored body is lost" });
  return { head: decoded(decodeHead(frame.head), "an inbox envelope"), body: frame.body };
}

/**
 * The schema of a webhook's head by hand, for the path of every input: the schema takes ten times
 * as long. True only for a head that the schema accepts unchanged, by test. After false the schema
 * decides.
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
      case "delivery":
      case "traceparent":
        if (typeof value !== "string") return false;
        break;
      case "verified":
        if (typeof value !== "boolean") return false;
        break;
      case "headers":
        if (!isObject(value)) return false;
        for (const header in value) if (typeof value[header] !== "string") return false;
        break;
      case "reply":
        if (!isObject(value)) return false;
        if (typeof value["subject"] !== "string" || typeof value["id"] !== "string") return false;
        if (value["ms"] !== undefined && typeof value["ms"] !== "number") return false;
        for (const field in value)
          if (field !== "subject" && field !== "id" && field !== "ms") return false;
        break;
      default:
        return false;
    }
  }
  return known === REQUIRED_FIELDS;
}

/** `key`, `kind` and `time`. */
const REQUIRED_FIELDS = 3;
