/**
 * How a lease lies in its bucket: the value as the message's data, the rest in headers. Written by
 * `NatsLeases`, read by it and by `LeaseWatch`.
 */
import type { Lease } from "../../core/lease/Leases.ts";
import { decodeToken, type Epoch } from "../../schemas/Address.ts";
import type { StoredMessage } from "./StreamReading.ts";

export const LeaseHeader = {
  /** Unique for each write. */
  mark: "Agents-Mark",
  /** Of a renewal: the sequence of its claim. A claim has none: its own sequence is the epoch. */
  epoch: "Agents-Epoch",
  /**
   * As in any key-value bucket: `DEL` and `PURGE` are tombstones. A release is one; see `RELEASED`.
   */
  operation: "KV-Operation",
  /** The server's own tombstone, e.g. when the age limit removed the lease. */
  marker: "Nats-Marker-Reason",
} as const;

/**
 * A release is a `PURGE`. nats-server 2.15.1 leaves an expiry marker for a `DEL` that has reached
 * the age limit, and may store it behind a newer acknowledged message of the key. The marker is a
 * rollup, so it wipes that message: 6 of 3,154 claims that were made within 400 ms of a `DEL`'s
 * expiry on three servers were gone. The server leaves no marker for a `PURGE`
 * (`isSubjectDeleteMarker` in its `sdm.go`): 0 of 3,186.
 */
export const RELEASED = "PURGE";
/** What releases were before; a host of an older release still writes it. */
const RELEASED_BEFORE = "DEL";

type Message = Pick<StoredMessage, "subject" | "seq" | "data" | "header">;

export const isLive = (message: Pick<Message, "header">): boolean =>
  message.header(LeaseHeader.operation) === undefined &&
  message.header(LeaseHeader.marker) === undefined;

export const isReleased = (message: Pick<Message, "header">): boolean => {
  const operation = message.header(LeaseHeader.operation);
  return operation === RELEASED || operation === RELEASED_BEFORE;
};

/**
 * By when a lease must have been renewed, in TTLs: one more than the server grants, for clocks of
 * servers that differ.
 */
const OVER_TTLS = 2;

/**
 * Whether a lease stored then can't live any more, given the newest message of its bucket: by the
 * stream's own time. A replica that had been down may keep what the others have expired.
 */
export const isOver = (storedMs: number, newestMs: number, ttlMs: number): boolean =>
  newestMs - storedMs > OVER_TTLS * ttlMs;

/** The key of a subject; `prefix` is `$KV.<bucket>.`. */
export const leaseKey = (subject: string, prefix: string): string =>
  subject.slice(prefix.length).split(".").map(decodeToken).join(".");

export const leaseOf = (message: Message, prefix: string): Lease => ({
  key: leaseKey(message.subject, prefix),
  value: Buffer.from(message.data).toString(),
  epoch: Number(message.header(LeaseHeader.epoch) ?? message.seq) as Epoch,
});
