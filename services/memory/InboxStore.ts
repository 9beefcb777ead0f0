/**
 * The inbox of a `MemoryBroker`: stored envelopes and, for each shard, the one lane that consumes
 * it. As in the real one, a lane that is taken over delivers nothing more, its acks count for nothing, and
 * what it held is the next lane's.
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

/** What a lane gives to the broker: called with each input of its shard, in order. */
export interface Lane {
  readonly shard: ShardId;
  readonly epoch: Epoch;
  readonly offer: (input: StoredInput) => void;
}

export class InboxStore {
  private readonly time: TimeShape;
  private readonly shards: number;
  private readonly inputs = new Map<number, StoredInput>();
  private readonly lanes = new Map<ShardId, Lane>();
  private lastSeq = 0;

  constructor(time: TimeShape, shards: number) {
    this.time = time;
    this.shards = shards;
  }

  publish(id: AgentId, data: Uint8Array): Sequence {
    const seq = ++this.lastSeq as Sequence;
    const shard = shardOf(id, this.shards);
    const input = { id, seq, shard, data: data.slice() };
    this.inputs.set(seq, input);
    this.lanes.get(shard)?.offer(input);
    return seq;
  }

  /**
   * `lane` gets all that its shard holds, in order, and everything after; the lane before it nothing. False: that
   * one is of a later epoch, and stays.
   */
  takeOver(lane: Lane): boolean {
    const { shard, epoch } = lane;
    if ((this.lanes.get(shard)?.epoch ?? epoch) > epoch) return false;
    this.lanes.set(shard, lane);
    this.offerAll(lane);
    return true;
  }

  /** Everything unacked again: after a connection was lost. */
  offerAll(lane: Lane): void {
    if (!this.owns(lane)) return;
    for (const input of this.inputs.values()) if (input.shard === lane.shard) lane.offer(input);
  }

  owns(lane: Lane): boolean {
    return this.lanes.get(lane.shard) === lane;
  }

  leave(lane: Lane): void {
    if (this.owns(lane)) this.lanes.delete(lane.shard);
  }

  ack(lane: Lane, seq: Sequence): void {
    if (this.owns(lane)) this.inputs.delete(seq);
  }

  /** Offers it again after `delayMs`, if it is still there and the lane still its shard's. */
  putOff(lane: Lane, seq: Sequence, delayMs: number): void {
    this.time.after(delayMs, () => {
      const input = this.inputs.get(seq);
      if (input !== undefined && this.owns(lane)) lane.offer(input);
    });
  }

  get(seq: Sequence): StoredInput | undefined {
    return this.inputs.get(seq);
  }

  /** Removes what waits for the agent; how many. */
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
