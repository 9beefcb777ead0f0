/**
 * What became of one request to a webhook route, as the delivery log stores it. The gateway that
 * received the request writes the first record of its id. A process that learns its outcome later
 * (the host whose turn failed, ended after the 202, or gave up the input) writes another with the
 * fields that are new. A reader joins them (`joinRecords`).
 *
 * Records are stored in batches (`RecordBatch`). A record has no body, no header and no query: the
 * input's bytes are in the agent's journal, and those of a refused request are nowhere.
 */
import * as Schema from "effect/Schema";

/**
 * - `refused`: answered 4xx before an agent saw it; `why` has the reason.
 * - `unavailable`: it could not be verified or stored. The provider sends it again.
 * - `handshake`: the provider's handshake, answered by the gateway.
 * - `filtered`: no target of the route wanted the event.
 * - `stored`: accepted and stored, and no more is known yet.
 * - `failed`: a run failed, and another follows at `nextMs`.
 * - `answered`: the agent has done it.
 * - `duplicate`: the agent had done it before, at `duplicateOf`.
 * - `dead`: it exhausted its attempts, and is a dead letter.
 */
export const DELIVERY_STATUSES = [
  "refused", "unavailable", "handshake", "filtered", "stored", "failed", "answered", "duplicate",
  "dead",
] as const; // prettier-ignore
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export const DeliveryRecord = Schema.Struct({
  /** One of `deliveryIds`; with `.<n>` for one of the inputs of a request that has several. */
  id: Schema.String,
  /** When the record was written, milliseconds since the epoch. */
  at: Schema.Number,
  status: Schema.Literals(DELIVERY_STATUSES),
  /** When the request arrived. With the next fields, of first records only. */
  time: Schema.optionalKey(Schema.Number),
  /** The route's path as declared. */
  route: Schema.optionalKey(Schema.String),
  provider: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  /** The caller's address, where no agent was found: a signature vouches for the others. */
  from: Schema.optionalKey(Schema.String),
  /** Bytes of the body. */
  bytes: Schema.optionalKey(Schema.Number),
  /** Status of the HTTP answer, and milliseconds from the request's head to it. */
  http: Schema.optionalKey(Schema.Number),
  ms: Schema.optionalKey(Schema.Number),
  /** `[class, name]`. Absent: no agent was found, or there are several. */
  agent: Schema.optionalKey(Schema.Tuple([Schema.String, Schema.String])),
  /** Dedup key of the input. */
  key: Schema.optionalKey(Schema.String),
  /** The provider's event type. */
  type: Schema.optionalKey(Schema.String),
  /** Inputs that the request became, where it is a batch or goes to several agents. */
  parts: Schema.optionalKey(Schema.Number),
  /** Why it was refused, filtered or not available: nothing that a caller may not have in a log. */
  why: Schema.optionalKey(Schema.String),
  /** Journal sequence of the event that ended the input. */
  seq: Schema.optionalKey(Schema.Number),
  /** Journal sequence at which the input was done the first time. */
  duplicateOf: Schema.optionalKey(Schema.Number),
  /** Number of the run, from 1, and the most that there are. */
  attempt: Schema.optionalKey(Schema.Number),
  attempts: Schema.optionalKey(Schema.Number),
  /** When the next run is due, milliseconds since the epoch. */
  nextMs: Schema.optionalKey(Schema.Number),
  /** The error of the last run. */
  error: Schema.optionalKey(Schema.String),
  /** The delivery whose bytes these are, where an operator sent them again. */
  of: Schema.optionalKey(Schema.String),
  /** Further requests that were refused for the same reason without their own record. */
  more: Schema.optionalKey(Schema.Number),
  /** Trace id, 32 hex digits. */
  trace: Schema.optionalKey(Schema.String),
});
export type DeliveryRecord = typeof DeliveryRecord.Type;

/** The shortest digits that are letters and numbers of one case. */
const RADIX = 36;

/** Together with the time in each id, enough to distinguish a million processes. */
const ID_SEED_LENGTH = 6;

/**
 * Returns a generator of ids for the requests that arrive at one process. An id starts with the
 * time, so that its record is found without reading the whole log. `seed` is random text.
 */
export function deliveryIds(seed: string): (timeMs: number) => string {
  const process = seed
    .toLowerCase()
    .replace(/[^0-9a-z]/g, "")
    .slice(0, ID_SEED_LENGTH);
  let count = 0;
  // Several requests arrive in a millisecond.
  let last = { timeMs: NaN, prefix: "" };
  return (timeMs) => {
    const time = Math.floor(timeMs);
    if (last.timeMs !== time) last = { timeMs: time, prefix: `${time.toString(RADIX)}-${process}` };
    return last.prefix + (count++).toString(RADIX);
  };
}

/** When the request of an id arrived; undefined for a text that is no delivery's id. */
export function timeOfDelivery(id: string): number | undefined {
  const time = /^([0-9a-z]{7,9})-[0-9a-z]+(\.\d+)?$/.exec(id)?.[1];
  return time === undefined ? undefined : Number.parseInt(time, RADIX);
}

/** The id of the request that a part came with; of anything else the id itself. */
export const requestOf = (id: string): string => id.replace(/\.\d+$/, "");

/** Ends of an input: a record that comes late says nothing newer. */
const isEnd = (status: DeliveryStatus): boolean => status !== "stored" && status !== "failed";

/** Merges another record of the same id. */
export function joinRecords(
  known: DeliveryRecord | undefined,
  record: DeliveryRecord,
): DeliveryRecord {
  if (known === undefined) return record;
  const later = record.at >= known.at ? record : known;
  const earlier = later === record ? known : record;
  const joined = { ...earlier, ...later };
  // A 202 that was written after the agent was done, and a failed run before the input's end.
  return isEnd(earlier.status) && !isEnd(later.status)
    ? { ...joined, status: earlier.status }
    : joined;
}
