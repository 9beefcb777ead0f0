/**
 * One process's connection to a `MemoryBroker`. A test can cut it on its own (`disconnect`), as a
 * network partition would, while the broker and the other connections continue.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { BaseStore } from "./BaseStore.ts";
import type { BusStore } from "./BusStore.ts";
import type { DeadLetterStore } from "./DeadLetterStore.ts";
import type { DeliveryStore } from "./DeliveryStore.ts";
import type { InboxStore } from "./InboxStore.ts";
import type { JournalStore } from "./JournalStore.ts";
import type { LeaseStore } from "./LeaseStore.ts";

/** As the first pauses of the NATS adapters: long enough that virtual time moves. */
const RETRY_MS = 50;

/** One operation on the broker. */
export interface Operation {
  /** `append`, `publish`, `ack`, `claim`, … */
  readonly kind: string;
  readonly connection: string;
  /** What the operation is about: an agent's address, a lease's key, a sequence, a blob's name. */
  readonly key: string;
}

/** What a connection and the adapters over it need of the broker. `MemoryBroker` provides it. */
export interface ConnectedBroker {
  readonly time: TimeShape;
  readonly running: boolean;
  readonly intercept: ((operation: Operation) => void | Promise<void>) | undefined;
  readonly leaseTtlMs: number;
  readonly payloadBytesMax: number;
  readonly journal: JournalStore;
  readonly inbox: InboxStore;
  readonly leases: LeaseStore;
  readonly bus: BusStore;
  readonly snapshots: Map<string, Uint8Array[]>;
  readonly quarantines: Map<string, { readonly id: AgentId; readonly data: Uint8Array }>;
  readonly bases: BaseStore;
  readonly blobs: Map<string, Uint8Array>;
  readonly deadLetters: DeadLetterStore;
  readonly deliveries: DeliveryStore;
  readonly timers: Map<string, () => void>;
}

export class MemoryConnection {
  private linked = true;
  private closed = false;
  private readonly listeners = new Set<(connected: boolean) => void>();

  constructor(
    readonly broker: ConnectedBroker,
    readonly name: string,
  ) {}

  get time(): TimeShape {
    return this.broker.time;
  }

  get connected(): boolean {
    return this.linked && !this.closed && this.broker.running;
  }

  /** Calls `f` when the state may have changed. The returned function removes it. */
  onChange(f: (connected: boolean) => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  /** Cuts this connection until `reconnect`. Stored inputs wait in the broker. */
  disconnect(): void {
    this.linked = false;
    this.changed();
  }

  reconnect(): void {
    this.linked = true;
    this.changed();
  }

  /** Closes the connection for good, as the end of its process would. */
  close(): void {
    this.closed = true;
    this.changed();
    this.listeners.clear();
  }

  /** Notifies the listeners. The broker calls it when it starts or stops. */
  changed(): void {
    const { connected } = this;
    for (const f of this.listeners) f(connected);
  }

  /**
   * Awaits the interceptor, then checks the connection. Rejects with the interceptor's error, or
   * with `BrokerUnavailable`.
   */
  async operation(kind: string, key: string): Promise<void> {
    await this.broker.intercept?.({ kind, connection: this.name, key });
    if (!this.connected) throw disconnected();
  }

  /** The wait between two attempts; it ends early when `signal` fires. */
  pause(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        cancel();
        signal.removeEventListener("abort", finish);
        resolve();
      };
      const cancel = this.time.after(RETRY_MS, finish);
      signal.addEventListener("abort", finish);
      if (signal.aborted) finish();
    });
  }
}

/** The error of an operation on a connection that is down. */
const disconnected = (): BrokerUnavailable =>
  new BrokerUnavailable({ message: "the connection to the broker is down" });
