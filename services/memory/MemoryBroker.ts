/**
 * A broker in this process: what all hosts and gateways of one test share, as they would share a
 * nats-server. It keeps what is stored; `MemoryJournal`, `MemoryInbox` and the others are views of it, one set for
 * each `connect()`. It refuses what the real one refuses: stale appends, second owners, messages
 * past the payload limit, requests that nobody listens to.
 *
 * 1. Time is the given `Time` only; with `VirtualTime` and one seed a run repeats exactly.
 * 2. `stop()` is the broker's death with its disk intact: connections drop, leases' clocks stand still,
 *    deliveries in flight are lost. `start()` brings all of it back; unacked inputs come again.
 * 3. Every operation passes `intercept` first: where a test delays, refuses or loses it.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { SHARDS_DEFAULT } from "../../schemas/Address.ts";
import { MemoryConnection } from "./MemoryConnection.ts";
import { BusStore } from "./BusStore.ts";
import { DeadLetterStore } from "./DeadLetterStore.ts";
import { InboxStore } from "./InboxStore.ts";
import { JournalStore } from "./JournalStore.ts";
import { LeaseStore } from "./LeaseStore.ts";

/** As nats-server's default. */
const PAYLOAD_BYTES_DEFAULT = 1024 * 1024;
const LEASE_TTL_MS_DEFAULT = 5_000;

/** One use of the broker: `append`, `publish`, `ack`, `claim`, …, and what it is about. */
export interface Operation {
  readonly kind: string;
  readonly connection: string;
  readonly key: string;
}

export interface MemoryBrokerOptions {
  readonly time: TimeShape;
  readonly shards?: number;
  readonly leaseTtlMs?: number;
  readonly payloadBytesMax?: number;
  readonly namespace?: string;
}

export class MemoryBroker {
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
  readonly blobs = new Map<string, Uint8Array>();
  readonly deadLetters = new DeadLetterStore();
  /** Armed timers, by agent and name: what cancels each. */
  readonly timers = new Map<string, () => void>();
  /** Awaited before each operation; a rejection is the operation's. */
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

  /** A process's connection; `name` shows in operations. */
  connect(name = `connection-${this.connections.size + 1}`): MemoryConnection {
    const connection = new MemoryConnection(this, name);
    this.connections.add(connection);
    return connection;
  }

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

export const away = (): BrokerUnavailable =>
  new BrokerUnavailable({ message: "the connection to the broker is down" });
