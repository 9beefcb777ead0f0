/**
 * What the process can't store at the broker, for `/readyz` and `agents_unstored_seconds`: events
 * (`NatsJournal`), timers (`NatsTimers`), consumers of shards (`ShardConsumer`) and of due timers
 * (`DueRelay`). A body that can't be read is here, too (`DeliveryBodies`): inputs wait for it.
 *
 * A write that is tried in one place begins and ends there. One whose caller tries again later is
 * refused each time. It waits until one of its kind is stored, or nobody has tried for a while.
 */
import type { NatsConnectionShape } from "./NatsConnection.ts";

/** What is sent again and again until it is stored. */
export interface WaitingWrite {
  /** For people, what the broker has not done: "stored an event of agents_JOURNAL". */
  readonly what: string;
  /** By `performance.now()`. */
  readonly sinceMs: number;
  /** The reason of the last attempt. */
  why: string;
}

/** Agents whose events are refused start again within half a minute (`SlotStart`). */
const TRIED_MS_MAX = 45_000;

export class WaitingWrites {
  private readonly begun = new Set<WaitingWrite>();
  private readonly refused = new Map<string, { write: WaitingWrite; expiry: NodeJS.Timeout }>();

  constructor(private readonly connection: Pick<NatsConnectionShape, "connected">) {}

  get all(): ReadonlyArray<WaitingWrite> {
    return [...this.begun, ...Array.from(this.refused.values(), ({ write }) => write)];
  }

  begin(what: string): WaitingWrite {
    const write = { what, sinceMs: performance.now(), why: "not tried" };
    this.begun.add(write);
    return write;
  }

  end(write: WaitingWrite): void {
    this.begun.delete(write);
  }

  /**
   * Returns whether a line of the log is due. One refusal may be the end of an election, and a lost
   * connection has a line of its own.
   */
  refuse(what: string, why: string): boolean {
    const known = this.refused.get(what);
    clearTimeout(known?.expiry);
    const write = known?.write ?? { what, sinceMs: performance.now(), why };
    write.why = why;
    const expiry = setTimeout(() => this.stored(what), TRIED_MS_MAX).unref();
    this.refused.set(what, { write, expiry });
    return known !== undefined && this.connection.connected();
  }

  get hasRefused(): boolean {
    return this.refused.size > 0;
  }

  stored(what: string): void {
    clearTimeout(this.refused.get(what)?.expiry);
    this.refused.delete(what);
  }
}
