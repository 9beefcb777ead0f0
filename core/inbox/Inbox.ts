/**
 * The inbox port: a durable work queue of inputs, with one consumer per shard.
 *
 * 1. `publish` answers `Stored` only when the broker has stored the envelope.
 * 2. Everything stored and not acked is delivered, at least once, to the one consumer of its shard,
 *    in stored order for each agent on first delivery.
 * 3. `consume` first takes the shard over: everything that an earlier consumer received and did not
 *    ack is delivered again at once. A consumer of an epoch before the current one is refused: a
 *    host that was frozen after its claim may call this long after its successor.
 * 4. An acked input is never delivered again (to a consumer that starts after the ack was stored).
 * 5. A delivery does not keep its bytes in memory for the host. Past a bound, the host keeps only
 *    `seq` and reads the bytes again with `get`.
 *
 * Adapters: `services/nats/NatsInbox`, `services/memory/MemoryInbox`; one conformance suite.
 */
import * as Context from "effect/Context";
import * as Data from "effect/Data";
import type { AgentId, Epoch, Sequence, ShardId } from "../../schemas/Address.ts";

export interface Delivery {
  readonly id: AgentId;
  readonly seq: Sequence;
  /** 1 for the first delivery. Counts deliveries since the shard was last taken over. */
  readonly deliveries: number;
  /** An `InboxEnvelope` frame. */
  readonly data: Uint8Array;
  /** Done with: removed from the queue. A lost ack is a redelivery, which dedup drops. */
  readonly ack: () => void;
  /** Deliver again, `delayMs` from now. */
  readonly nak: (delayMs: number) => void;
}

/** A delivery without its bytes: what acks or returns it. */
export type InputHandle = Omit<Delivery, "data">;

export type PublishResult =
  | { readonly _tag: "Stored"; readonly seq: Sequence }
  /** Not known to be stored when `signal` fired. To publish again with the same key is safe. */
  | { readonly _tag: "Unavailable"; readonly message: string };

/** A later owner of the shard consumes its inputs. */
export class ConsumerTaken extends Data.TaggedError("ConsumerTaken")<{ readonly shard: ShardId }> {
  override get message(): string {
    return `A later owner of shard ${this.shard} already consumes it`;
  }
}

interface ConsumeOptions {
  /** Epoch of the shard's lease (rule 3). Without one it is earlier than every other. */
  readonly epoch?: Epoch;
  /** Taking over ends when it fires, with `BrokerUnavailable`. Afterwards it has no effect. */
  readonly signal?: AbortSignal;
}

export interface InboxConsumer {
  /**
   * As far as is known, everything that was stored has been handed on: what comes now by another
   * way overtakes nothing. False after a broken connection until that is known again.
   */
  readonly caughtUp: boolean;
  /** No delivery begins after this resolves. What is not acked goes to the next consumer. */
  readonly stop: () => Promise<void>;
}

export interface InboxShape {
  /** Stores one envelope for the agent, retrying while the broker is away until `signal` fires. */
  readonly publish: (
    id: AgentId,
    data: Uint8Array,
    options: { readonly signal: AbortSignal },
  ) => Promise<PublishResult>;
  /**
   * Takes the shard's inputs over, and then heals itself across broker restarts. Rejects with
   * `BrokerUnavailable` or `ConsumerTaken`.
   */
  readonly consume: (
    shard: ShardId,
    handler: (delivery: Delivery) => void,
    options?: ConsumeOptions,
  ) => Promise<InboxConsumer>;
  /** The agent's stored envelope; undefined when it was acked. Rejects with `BrokerUnavailable`. */
  readonly get: (id: AgentId, seq: Sequence) => Promise<Uint8Array | undefined>;
  /** Inputs stored and not acked yet, over all shards. */
  readonly depth: () => Promise<number>;
}

export class Inbox extends Context.Service<Inbox, InboxShape>()("agents/core/inbox/Inbox") {}
