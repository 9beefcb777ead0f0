/**
 * The delivery log in memory. A batch is stored, or dropped, by one operation of the connection.
 */
import * as Layer from "effect/Layer";
import { DeliveryLog, type DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import { RecordBuffer } from "../../core/delivery/RecordBuffer.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryDeliveryLog(connection: MemoryConnection): DeliveryLogShape {
  const { deliveries, time } = connection.broker;
  const buffer = new RecordBuffer(time, async (kind, records) => {
    try {
      await connection.operation("storeRecords", kind);
    } catch {
      return false; // the broker is away: the buffer counts them
    }
    deliveries.add(kind, time.nowMs(), records);
    return true;
  });
  return {
    record: (record) => buffer.record(record),
    flush: () => buffer.flush(),
    dropped: () => buffer.dropped,
    recent: async function* (kind) {
      await connection.operation("readRecords", kind);
      for (const { records } of deliveries.batches[kind].toReversed()) yield records.toReversed();
    },
    since: async function* (kind, sinceMs) {
      await connection.operation("readRecords", kind);
      for (const { timeMs, records } of deliveries.batches[kind])
        if (timeMs >= sinceMs) yield records;
    },
    follow: (handler) => {
      deliveries.followers.add(handler);
      return () => void deliveries.followers.delete(handler);
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<DeliveryLog> =>
  Layer.succeed(DeliveryLog, makeMemoryDeliveryLog(connection));
