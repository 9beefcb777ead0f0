/** All ports over one NATS connection, as one layer. Each process provides it at its start. */
import * as Layer from "effect/Layer";
import type { Blobs } from "../../core/journal/Blobs.ts";
import type { BrokerUnavailable, Bus } from "../../core/bus/Bus.ts";
import type { DeadLetters } from "../../core/dead/DeadLetters.ts";
import type { DeliveryLog } from "../../core/delivery/DeliveryLog.ts";
import type { Inbox } from "../../core/inbox/Inbox.ts";
import type { Journal } from "../../core/journal/Journal.ts";
import type { JournalFeed } from "../../core/journal/JournalFeed.ts";
import type { Leases } from "../../core/lease/Leases.ts";
import type { Quarantines } from "../../core/quarantine/Quarantines.ts";
import type { Timers } from "../../core/schedule/Timers.ts";
import type { Snapshots } from "../../core/journal/Snapshots.ts";
import type { Nats } from "./client/Nats.ts";
import { layer as blobs } from "./NatsBlobs.ts";
import { layer as bus } from "./NatsBus.ts";
import { layer as connection, type LoggedConnectionOptions } from "./client/NatsConnection.ts";
import { layer as deliveryLog } from "./NatsDeliveryLog.ts";
import { layer as deadLetters } from "./NatsDeadLetters.ts";
import { layer as inbox } from "./NatsInbox.ts";
import { layer as journal } from "./NatsJournal.ts";
import { layer as feed } from "./NatsJournalFeed.ts";
import { layer as leases } from "./NatsLeases.ts";
import { layer as quarantines } from "./NatsQuarantines.ts";
import { layer as snapshots } from "./NatsSnapshots.ts";
import { layer as timers } from "./NatsTimers.ts";
import { layer as natsCore, type OpenError, type OpenOptions } from "./setup/openNats.ts";

export interface NatsOptions extends LoggedConnectionOptions, OpenOptions {
  /** Default `agents`. */
  readonly namespace?: string;
}

type Ports =
  | Journal
  | JournalFeed
  | Inbox
  | Leases
  | Quarantines
  | Snapshots
  | Blobs
  | Bus
  | DeadLetters
  | DeliveryLog
  | Timers;

/** Provides `Nats` too, for the number of shards and group commit. Fails with `OpenError`. */
export const natsLayer = (
  options: NatsOptions,
): Layer.Layer<Ports | Nats, OpenError | BrokerUnavailable> =>
  Layer.mergeAll(
    journal,
    feed,
    inbox,
    leases,
    quarantines,
    snapshots,
    bus,
    deadLetters,
    deliveryLog,
    timers,
  ).pipe(
    Layer.provideMerge(blobs),
    Layer.provideMerge(natsCore(options)),
    Layer.provide(connection(options)),
  );
