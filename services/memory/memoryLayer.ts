/**
 * All ports of one connection to a `MemoryBroker`, as one layer. Tests provide it instead of
 * `natsLayer`.
 */
import * as Layer from "effect/Layer";
import { Time } from "../../core/time/Time.ts";
import { layer as blobs } from "./MemoryBlobs.ts";
import { layer as bus } from "./MemoryBus.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";
import { layer as deadLetters } from "./MemoryDeadLetters.ts";
import { layer as deliveryLog } from "./MemoryDeliveryLog.ts";
import { layer as inbox } from "./MemoryInbox.ts";
import { layer as journal } from "./MemoryJournal.ts";
import { layer as feed } from "./MemoryJournalFeed.ts";
import { layer as leases } from "./MemoryLeases.ts";
import { layer as quarantines } from "./MemoryQuarantines.ts";
import { layer as snapshots } from "./MemorySnapshots.ts";
import { layer as timers } from "./MemoryTimers.ts";

/** Includes the broker's `Time`. */
export const memoryLayer = (connection: MemoryConnection) =>
  Layer.mergeAll(
    journal(connection),
    feed(connection),
    inbox(connection),
    leases(connection),
    quarantines(connection),
    snapshots(connection),
    blobs(connection),
    deadLetters(connection),
    deliveryLog(connection),
    bus(connection),
    timers(connection),
    Layer.succeed(Time, connection.time),
  );
