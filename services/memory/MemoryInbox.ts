/**
 * The inbox in memory: `InboxStore` as one connection uses it. Deliveries begin in a later
 * microtask, never inside `publish` or `consume`. After a lost connection a shard's consumer is
 * offered everything again, and delivers what its host does not hold, as
 * `services/nats/ShardConsumer` does.
 */
import * as Layer from "effect/Layer";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Inbox, ConsumerTaken, type Delivery, type InboxShape } from "../../core/inbox/Inbox.ts";
import { addressKey, type Epoch, type Sequence, type ShardId } from "../../schemas/Address.ts";
import type { StoreConsumer, StoredInput } from "./InboxStore.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryInbox(connection: MemoryConnection): InboxShape {
  const { inbox } = connection.broker;
  return {
    publish: async (id, data, { signal }) => {
      let message = "not tried";
      while (!signal.aborted) {
        try {
          await connection.operation("publish", addressKey(id));
          return { _tag: "Stored", seq: inbox.publish(id, data) };
        } catch (error) {
          message = String(error);
          await connection.pause(signal);
        }
      }
      return { _tag: "Unavailable", message };
    },
    consume: async (shard, handler, { epoch = EPOCH_NONE, signal } = {}) => {
      await connection.operation("consume", String(shard));
      if (signal?.aborted === true)
        throw new BrokerUnavailable({ message: "given up: the shard was lost" });
      const consumer = new MemoryShardConsumer(connection, { shard, epoch }, handler);
      if (inbox.takeOver(consumer)) return consumer;
      await consumer.stop();
      throw new ConsumerTaken({ shard });
    },
    get: async (_id, seq) => {
      await connection.operation("get", String(seq));
      return inbox.get(seq)?.data.slice();
    },
    depth: async () => {
      await connection.operation("depth", "");
      return inbox.depth;
    },
  };
}

/** Earlier than the epoch of every lease. */
const EPOCH_NONE = 0 as Epoch;

interface Held {
  deliveries: number;
  /** `due`: the host does not hold the input, and its next offer is delivered. */
  state: "held" | "due" | "acked";
}

class MemoryShardConsumer implements StoreConsumer {
  readonly shard: ShardId;
  readonly epoch: Epoch;
  private readonly held = new Map<Sequence, Held>();
  private readonly offChange: () => void;
  private readonly sending = new Set<Promise<void>>();
  private stopped = false;
  /** Offers whose delivery has not begun. */
  private offered = 0;

  constructor(
    private readonly connection: MemoryConnection,
    { shard, epoch }: Pick<StoreConsumer, "shard" | "epoch">,
    private readonly handler: (delivery: Delivery) => void,
  ) {
    this.shard = shard;
    this.epoch = epoch;
    this.offChange = connection.onChange((up) => {
      if (up) this.store.offerAll(this);
    });
  }

  private get store() {
    return this.connection.broker.inbox;
  }

  offer(input: StoredInput): void {
    this.offered++;
    queueMicrotask(() => {
      this.offered--;
      this.deliver(input);
    });
  }

  get caughtUp(): boolean {
    return this.offered === 0 && this.connection.connected && this.store.owns(this);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.offChange();
    await Promise.all(this.sending); // acks that were sent before the stop count
    this.store.leave(this);
  }

  private deliver({ id, seq, data }: StoredInput): void {
    // An input that was offered while the connection was down is offered again once it is up.
    if (this.stopped || !this.connection.connected || !this.store.owns(this)) return;
    const entry = this.held.get(seq) ?? { deliveries: 0, state: "due" };
    if (entry.state === "acked") return this.store.ack(this, seq); // the first ack was lost
    if (entry.state === "held") return;
    this.held.set(seq, entry);
    entry.state = "held";
    entry.deliveries++;
    this.handler({
      id,
      seq,
      deliveries: entry.deliveries,
      data: data.slice(),
      ack: () => {
        entry.state = "acked";
        this.send("ack", seq, () => {
          this.store.ack(this, seq);
          this.held.delete(seq);
        });
      },
      nak: (delayMs) => {
        if (entry.state !== "held") return;
        entry.state = "due";
        this.send("nak", seq, () => this.store.putOff(this, seq, delayMs));
      },
    });
  }

  /** Fire and forget: lost while the connection is down, or when the interceptor rejects. */
  private send(kind: string, seq: Sequence, arrive: () => void): void {
    const sent = this.connection.operation(kind, String(seq)).then(arrive, () => undefined);
    this.sending.add(sent);
    void sent.finally(() => this.sending.delete(sent));
  }
}

export const layer = (connection: MemoryConnection): Layer.Layer<Inbox> =>
  Layer.succeed(Inbox, makeMemoryInbox(connection));
