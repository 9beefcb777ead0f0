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
  /** As in any key-value bucket: `DEL` and `PURGE` are tombstones. */
  operation: "KV-Operation",
  /** The server's own tombstone, e.g. when the age limit removed the lease. */
  marker: "Nats-Marker-Reason",
} as const;

type Message = Pick<StoredMessage, "subject" | "seq" | "data" | "header">;

export const isLive = (message: Pick<Message, "header">): boolean =>
  message.header(LeaseHeader.operation) === undefined &&
  message.header(LeaseHeader.marker) === undefined;

export const isReleased = (message: Pick<Message, "header">): boolean =>
  message.header(LeaseHeader.operation) === "DEL";

/** By when a lease must have been renewed, in TTLs: one more than the server grants, for clocks of servers that differ. */
const OVER_TTLS = 2;

/**
 * Whether a lease stored then can't live any more, given the newest message of its bucket: by the stream's own time. A replica
 * that had been down may keep what the others have expired.
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
