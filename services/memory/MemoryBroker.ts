/**
 * An in-process broker. All hosts and gateways of one test share it, as they would share a
 * nats-server. It holds the stored data; `MemoryJournal`, `MemoryInbox` and the other adapters are
 * views of it, one set for each `connect()`. It refuses what nats-server refuses: stale appends,
 * second owners, messages past the payload limit, requests to subjects without a listener.
 *
 * 1. Its only clock is the given `Time`. With `VirtualTime` and one seed, a run repeats exactly.
 * 2. `stop()` simulates a crash with the disk intact: connections drop, lease expiry is paused, and
 *    deliveries in flight are lost. `start()` restores all of it and redelivers unacked inputs.
 * 3. Every operation awaits `intercept` first. A test delays, refuses or loses operations there.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { SHARDS_DEFAULT, type AgentId } from "../../schemas/Address.ts";
import { BaseStore } from "./BaseStore.ts";
import { BusStore } from "./BusStore.ts";
import { DeliveryStore } from "./DeliveryStore.ts";
import { DeadLetterStore } from "./DeadLetterStore.ts";
import { InboxStore } from "./InboxStore.ts";
import { JournalStore } from "./JournalStore.ts";
import { LeaseStore } from "./LeaseStore.ts";
import { MemoryConnection, type ConnectedBroker, type Operation } from "./MemoryConnection.ts";

/** nats-server's default. */
const PAYLOAD_BYTES_DEFAULT = 1024 * 1024;
/** The default of `provision`. */
const LEASE_TTL_MS_DEFAULT = 5_000;

interface MemoryBrokerOptions {
  readonly time: TimeShape;
  /** Default `SHARDS_DEFAULT`. */
  readonly shards?: number;
  /** Default 5,000. */
  readonly leaseTtlMs?: number;
  /** Default 1 MiB. */
  readonly payloadBytesMax?: number;
  /** Default `agents`. */
  readonly namespace?: string;
}

export class MemoryBroker implements ConnectedBroker {
  readonly time: TimeShape;
  readonly shards: number;
  readonly leaseTtlMs: number;
  readonly payloadBytesMax: number;
  readonly subjects: Subjects;
  readonly journal: JournalStore;
  readonly inbox: InboxStore;
  readonly leases: LeaseStore;
  readonly bus: BusStore;
  readonly snapshots = new Map<string, Uint8Array[]>();
  readonly bases = new BaseStore();
  readonly blobs = new Map<string, Uint8Array>();
  readonly quarantines = new Map<string, { readonly id: AgentId; readonly data: Uint8Array }>();
  readonly deadLetters = new DeadLetterStore();
  readonly deliveries = new DeliveryStore();
  /** The cancel functions of armed timers, by agent and timer name. */
  readonly timers = new Map<string, () => void>();
  /** Awaited before each operation. Its rejection rejects the operation (rule 3). */
  intercept: ((operation: Operation) => void | Promise<void>) | undefined;
  private readonly connections = new Set<MemoryConnection>();
  private up = true;

  constructor(options: MemoryBrokerOptions) {
    this.time = options.time;
    this.shards = options.shards ?? SHARDS_DEFAULT;
    this.leaseTtlMs = options.leaseTtlMs ?? LEASE_TTL_MS_DEFAULT;
    this.payloadBytesMax = options.payloadBytesMax ?? PAYLOAD_BYTES_DEFAULT;
    this.subjects = new Subjects(options.namespace);
    this.journal = new JournalStore(this.time);
    this.inbox = new InboxStore(this.time, this.shards);
    this.leases = new LeaseStore(this.time, this.leaseTtlMs);
    this.bus = new BusStore();
  }

  get running(): boolean {
    return this.up;
  }

  /** Opens a process's connection. `name` appears in its operations. */
  connect(name = `connection-${this.connections.size + 1}`): MemoryConnection {
    const connection = new MemoryConnection(this, name);
    this.connections.add(connection);
    return connection;
  }

  /** Rule 2. */
  stop(): void {
    if (!this.up) return;
    this.up = false;
    this.leases.pause();
    for (const connection of this.connections) connection.changed();
  }

  start(): void {
    if (this.up) return;
    this.up = true;
    this.leases.resume();
    for (const connection of this.connections) connection.changed();
  }
}
