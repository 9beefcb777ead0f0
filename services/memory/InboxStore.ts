/**
 * The inbox of a `MemoryBroker`: stored envelopes and, for each shard, its one consumer. As in
 * JetStream, a consumer that is replaced receives nothing more, its acks have no effect, and its
 * unacked inputs are delivered to its successor.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import {
  addressKey,
  shardOf,
  type AgentId,
  type Epoch,
  type Sequence,
  type ShardId,
} from "../../schemas/Address.ts";

export interface StoredInput {
  readonly id: AgentId;
  readonly seq: Sequence;
  readonly shard: ShardId;
  readonly data: Uint8Array;
}

/** A shard's consumer, as the store uses it. */
export interface StoreConsumer {
  readonly shard: ShardId;
  readonly epoch: Epoch;
  /** Called with each input of the shard, in stored order. */
  readonly offer: (input: StoredInput) => void;
}

export class InboxStore {
  private readonly inputs = new Map<number, StoredInput>();
  private readonly consumers = new Map<ShardId, StoreConsumer>();
  private lastSeq = 0;

  constructor(
    private readonly time: TimeShape,
    private readonly shards: number,
  ) {}

  publish(id: AgentId, data: Uint8Array): Sequence {
    const seq = ++this.lastSeq as Sequence;
    const shard = shardOf(id, this.shards);
    const input = { id, seq, shard, data: data.slice() };
    this.inputs.set(seq, input);
    this.consumers.get(shard)?.offer(input);
    return seq;
  }

  /**
   * Makes `consumer` its shard's consumer, in place of an earlier one, and offers it all stored
   * inputs in order. Returns false when the present consumer has a later epoch; that one stays.
   */
  takeOver(consumer: StoreConsumer): boolean {
    const { shard, epoch } = consumer;
    if ((this.consumers.get(shard)?.epoch ?? epoch) > epoch) return false;
    this.consumers.set(shard, consumer);
    this.offerAll(consumer);
    return true;
  }

  /** Offers everything unacked again, after a lost connection. */
  offerAll(consumer: StoreConsumer): void {
    if (!this.owns(consumer)) return;
    for (const input of this.inputs.values())
      if (input.shard === consumer.shard) consumer.offer(input);
  }

  /** Whether `consumer` is its shard's present consumer. */
  owns(consumer: StoreConsumer): boolean {
    return this.consumers.get(consumer.shard) === consumer;
  }

  leave(consumer: StoreConsumer): void {
    if (this.owns(consumer)) this.consumers.delete(consumer.shard);
  }

  /** Has no effect for a consumer that was replaced. */
  ack(consumer: StoreConsumer, seq: Sequence): void {
    if (this.owns(consumer)) this.inputs.delete(seq);
  }

  /** Offers the input again after `delayMs`, unless it was acked or the consumer was replaced. */
  putOff(consumer: StoreConsumer, seq: Sequence, delayMs: number): void {
    this.time.after(delayMs, () => {
      const input = this.inputs.get(seq);
      if (input !== undefined && this.owns(consumer)) consumer.offer(input);
    });
  }

  get(seq: Sequence): StoredInput | undefined {
    return this.inputs.get(seq);
  }

  /** Removes the agent's inputs. Returns their number. */
  purge(id: AgentId): number {
    const key = addressKey(id);
    let count = 0;
    for (const [seq, input] of this.inputs)
      if (addressKey(input.id) === key) {
        this.inputs.delete(seq);
        count++;
      }
    return count;
  }

  get depth(): number {
    return this.inputs.size;
  }
}
