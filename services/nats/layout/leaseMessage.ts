/**
 * The layout of a lease's message: the value is the data, the rest is in headers.
 * Written by `NatsLeases`, read by it and by `LeaseWatch`.
 */
import type { Lease } from "../../../core/lease/Leases.ts";
import { decodeToken, InvalidAddress, type Epoch } from "../../../schemas/Address.ts";
import type { StoredMessage } from "../client/StreamReading.ts";

export const LeaseHeader = {
  /** Unique for each write. */
  mark: "Agents-Mark",
  /** On a renewal: the sequence of its claim. A claim has none; its own sequence is the epoch. */
  epoch: "Agents-Epoch",
  /** As in any key-value bucket: `DEL` and `PURGE` are tombstones. For a release see `RELEASED`. */
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
/** The release of an older release of this project, whose hosts still write it. */
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
 * The TTLs after which a lease is certainly over: one more than the server grants, for differing
 * clocks of the servers.
 */
const OVER_TTLS = 2;

/**
 * Whether a lease stored at `storedMs` is over, given the storage time of the bucket's newest
 * message. A replica that had been down may keep leases that the others have expired.
 */
export const isOver = (storedMs: number, newestMs: number, ttlMs: number): boolean =>
  newestMs - storedMs > OVER_TTLS * ttlMs;

/**
 * The key in a subject; `prefix` is `$KV.<bucket>.`. Undefined for a subject that no release
 * writes: whoever may publish a lease may publish any subject of its bucket.
 */
export function leaseKey(subject: string, prefix: string): string | undefined {
  try {
    return subject.slice(prefix.length).split(".").map(decodeToken).join(".");
  } catch (error) {
    if (error instanceof InvalidAddress) return undefined;
    throw error;
  }
}

export const leaseOf = (message: Omit<Message, "subject">, key: string): Lease => ({
  key,
  value: Buffer.from(message.data).toString(),
  epoch: Number(message.header(LeaseHeader.epoch) ?? message.seq) as Epoch,
});
