/**
 * The delivery log: what became of each request to a webhook route, kept for a bounded time and
 * size. It is written beside the path of a request and never waited for. Only the journal and the
 * inbox are the truth about an input.
 *
 * 1. `record` returns at once, and never throws. Records that can't be stored are dropped and
 *    counted.
 * 2. Anyone can send refused requests at any rate. They are stored apart from the others, in
 *    less space, and each process stores only some per second, so strangers can't displace other
 *    records.
 * 3. Records of one process are stored in order, in batches. A process that ends without notice
 *    loses those of its last moment.
 *
 * Adapters: `services/nats/NatsDeliveryLog`, `services/memory/MemoryDeliveryLog`; one conformance
 * suite. Both gather records by `RecordBuffer`.
 */
import * as Context from "effect/Context";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";

/** Rule 2. `refused`: answered by a gateway for an unauthenticated caller. */
export const RECORD_KINDS = ["taken", "refused"] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];

export const kindOf = ({ status, agent, parts }: DeliveryRecord): RecordKind =>
  agent === undefined && parts === undefined && status !== "filtered" ? "refused" : "taken";

export interface DeliveryLogShape {
  /** Rule 1. */
  readonly record: (record: DeliveryRecord) => void;
  /** Resolves when all records so far are stored or dropped. */
  readonly flush: () => Promise<void>;
  /** Records that this process has dropped. */
  readonly dropped: () => number;
  /** Batches of one kind, the newest first. Rejects with `BrokerUnavailable`. */
  readonly recent: (kind: RecordKind) => AsyncIterable<ReadonlyArray<DeliveryRecord>>;
  /** Batches of one kind since `timeMs`, oldest first. Rejects with `BrokerUnavailable`. */
  readonly since: (
    kind: RecordKind,
    timeMs: number,
  ) => AsyncIterable<ReadonlyArray<DeliveryRecord>>;
  /** Calls `handler` with each batch from now on, until the returned function is called. */
  readonly follow: (handler: (records: ReadonlyArray<DeliveryRecord>) => void) => () => void;
}

export class DeliveryLog extends Context.Service<DeliveryLog, DeliveryLogShape>()(
  "agents/core/delivery/DeliveryLog",
) {}
