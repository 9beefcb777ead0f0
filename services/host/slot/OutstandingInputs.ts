/**
 * The inputs of one agent that were delivered and not acked, in stored order. They outlive the
 * agent in memory: when it is discarded, they begin again on the next one (`AgentSlot`, rule 2).
 */
import { withEntry, without } from "../../../core/collections/sparse.ts";
import type { Delivery, InputHandle } from "../../../core/inbox/Inbox.ts";
import type { Mailbox } from "../../../core/input/Mailbox.ts";

/** An input that its consumer or another slot delivers. Without its bytes it is read again. */
export type Delivered = InputHandle & Pick<Partial<Delivery>, "data">;

/** Inputs kept with their bytes while an agent starts; the others are read again. */
const EARLY_MAX = 16;

export class OutstandingInputs {
  private handles: Map<number, InputHandle> | undefined;
  /** Bytes of the first inputs that arrived before the agent had started, by sequence. */
  private early: Map<number, Uint8Array> | undefined;

  get size(): number {
    return this.handles?.size ?? 0;
  }

  /**
   * Returns the handle to run the input by. Undefined for an input that is outstanding already,
   * which a broker restart delivers again: its handle is replaced, and it runs once.
   */
  add(delivery: Delivered): InputHandle | undefined {
    const { id, seq, deliveries } = delivery;
    const handle: InputHandle = {
      id,
      seq,
      deliveries,
      ack: () => {
        this.delete(seq);
        delivery.ack();
      },
      nak: (delayMs) => {
        this.delete(seq);
        delivery.nak(delayMs);
      },
    };
    const isKnown = this.handles?.has(seq) === true;
    this.handles = withEntry(this.handles, seq, handle);
    return isKnown ? undefined : handle;
  }

  /** Keeps the bytes until the agent has started: the input that wakes it is not read twice. */
  keepBytes({ seq, data }: Pick<Delivered, "seq" | "data">): void {
    if (data !== undefined && (this.early?.size ?? 0) < EARLY_MAX)
      this.early = withEntry(this.early, seq, data);
  }

  /** Delivers all of them to the mailbox of an agent that has just started. */
  deliverTo(mailbox: Mailbox): void {
    for (const handle of this.values()) mailbox.deliver(handle, this.early?.get(handle.seq));
    this.early = undefined;
  }

  /** Forgets an input whose handle is settled by another way. */
  delete(seq: number): void {
    this.handles = without(this.handles, seq);
  }

  values(): Iterable<InputHandle> {
    return this.handles?.values() ?? [];
  }

  ackAll(): void {
    for (const handle of this.values()) handle.ack();
    this.early = undefined;
  }

  /** Forgets all of them, neither acked nor nacked. */
  clear(): void {
    this.handles = undefined;
    this.early = undefined;
  }
}
