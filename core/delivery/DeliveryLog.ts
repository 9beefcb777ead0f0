/**
 * The delivery log: what became of each request to a webhook route, kept for a bounded time and
 * size. It is written beside the path of a request and never waited for. What the journal and the
 * inbox say of an input is true whatever this log has.
 *
 * 1. `record` returns at once, and never throws. Records that can't be stored are dropped and
 *    counted (`agents_delivery_records_dropped_total`).
 * 2. Refused requests can be sent by anybody at any rate. They are kept apart from the others, in
 *    less room, and at most some a second of each process: no stranger can push out another's.
 * 3. Records of one process are stored in order. A process that ends without notice loses those of
 *    its last moment.
 *
 * Adapters are under `services`.
 */
import * as Context from "effect/Context";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";

export interface DeliveryLogShape {
  /** Rule 1. */
  readonly record: (record: DeliveryRecord) => void;
}

export class DeliveryLog extends Context.Service<DeliveryLog, DeliveryLogShape>()(
  "agents/core/delivery/DeliveryLog",
) {}
