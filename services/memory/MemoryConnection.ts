/**
 * One process's connection to a `MemoryBroker`. It can be cut on its own (`disconnect`), as a network
 * partition would, while the broker and the others go on.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import { away, type MemoryBroker } from "./MemoryBroker.ts";

/** As the real adapters' first pauses: long enough that virtual time moves. */
const RETRY_MS = 50;

export class MemoryConnection {
  readonly broker: MemoryBroker;
  readonly name: string;
  private linked = true;
  private closed = false;
  private readonly listeners = new Set<(connected: boolean) => void>();

  constructor(broker: MemoryBroker, name: string) {
    this.broker = broker;
    this.name = name;
  }

  get time(): TimeShape {
    return this.broker.time;
  }

  get connected(): boolean {
    return this.linked && !this.closed && this.broker.running;
  }

  onChange(f: (connected: boolean) => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  /** Cuts this connection: what the broker has for it waits. */
  disconnect(): void {
    this.linked = false;
    this.changed();
  }

  reconnect(): void {
    this.linked = true;
    this.changed();
  }

  /** For good: the process is gone. */
  close(): void {
    this.closed = true;
    this.changed();
    this.listeners.clear();
  }

  changed(): void {
    const { connected } = this;
    for (const f of this.listeners) f(connected);
  }

  /** Passes the interceptor, then asks whether the broker can be reached. Rejects with `BrokerUnavailable`. */
  async operation(kind: string, key: string): Promise<void> {
    await this.broker.intercept?.({ kind, connection: this.name, key });
    if (!this.connected) throw away();
  }

  /** The wait between two tries; ends early when `signal` fires. */
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
