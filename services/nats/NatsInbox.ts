/**
 * The inbox in a work-queue stream, one subject per agent within its shard. Publishes inputs;
 * `ShardConsumer` consumes them. A process that consumes any shard also moves due timers
 * (`DueRelay`).
 *
 * An envelope past the payload limit is a claim check (`claimCheck.ts`). The host that has
 * processed the input removes its body. `agents erase` finds bodies that a crash leaves behind by
 * their names' prefix.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { NotPermitted } from "../../core/bus/Bus.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import {
  Inbox,
  ConsumerTaken,
  type InboxShape,
  type PublishResult,
} from "../../core/inbox/Inbox.ts";
import { shardOf, type AgentId, type Epoch } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { newClaimCheck, resolveClaimCheck } from "./layout/claimCheck.ts";
import type { StreamPublisher } from "./client/GroupPublisher.ts";
import { DueRelay } from "./DueRelay.ts";
import { orUnavailable, unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { retryPause } from "./client/retryPause.ts";
import { ShardConsumer } from "./ShardConsumer.ts";

/** Earlier than the epoch of every lease. */
const EPOCH_NONE = 0 as Epoch;

export function makeNatsInbox(nats: NatsShape, blobs: BlobsShape): InboxShape {
  const { subjects } = nats;
  const relay = new DueRelay(nats);
  return {
    publish: async (id, data, { signal }) => {
      const shard = shardOf(id, nats.shards);
      const subject = subjects.inbox(shard, id);
      const publisher = nats.inboxPublishers[subjects.groupOfShard(shard)]!;
      if (data.length <= nats.messageBytesMax) {
        const result = await publish(nats, publisher, { subject, data, signal });
        if (result !== TOO_LARGE) return result;
      }
      return publishClaimCheck({ nats, blobs, publisher }, id, { subject, data, signal });
    },
    consume: async (shard, handler, { epoch = EPOCH_NONE, signal } = {}) => {
      const consumer = new ShardConsumer(nats, blobs, { shard, epoch }, handler);
      await takeOver(consumer, signal);
      const leaveRelay = relay.join();
      return {
        get caughtUp() {
          return consumer.caughtUp;
        },
        stop: () => consumer.stop().finally(leaveRelay),
      };
    },
    get: async (id, seq) => {
      const stream = subjects.streamOf("inbox", subjects.groupOf(id));
      try {
        // A replica that lags lacks new messages. Only the leader can report that a message is
        // gone.
        const found =
          (await nats.reader.direct(stream, { seq })) ??
          (await nats.reader.byLeader(stream, { seq }));
        return found === undefined ? undefined : await resolveClaimCheck(blobs, found.data);
      } catch (error) {
        throw error instanceof CorruptFrame ? error : unavailable(error);
      }
    },
    depth: () =>
      orUnavailable(async () => {
        const depths = subjects
          .streamsOf("inbox")
          .map((stream) => nats.api.call<DepthInfo>(`STREAM.INFO.${stream}`));
        return (await Promise.all(depths)).reduce((sum, info) => sum + info.state.messages, 0);
      }),
  };
}

interface DepthInfo {
  readonly state: { readonly messages: number };
}

interface Publication {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly signal: AbortSignal;
}

interface PublishingParts {
  readonly nats: NatsShape;
  readonly blobs: BlobsShape;
  readonly publisher: StreamPublisher;
}

/** The server's limit is lower than it was: a claim check takes the input's place. */
const TOO_LARGE = Symbol("too large");

async function publish(
  nats: NatsShape,
  publisher: StreamPublisher,
  { subject, data, signal }: Publication,
): Promise<PublishResult | typeof TOO_LARGE> {
  let message = "not tried";
  for (let attempt = 0; !signal.aborted; attempt++) {
    const outcome = await publisher.publish(subject, data, { signal });
    if (outcome._tag === "Stored") return outcome;
    // An ambiguous input may be stored twice. The host recognises it by its key, as any repeated
    // webhook.
    message = outcome.message;
    if (outcome._tag === "TooLarge") return TOO_LARGE;
    if (outcome._tag === "Denied") break;
    await retryPause(nats.connection, attempt, signal);
  }
  return { _tag: "Unavailable", message };
}

/** Stores an input past the broker's limit as a blob, and a claim check in its place. */
async function publishClaimCheck(
  { nats, blobs, publisher }: PublishingParts,
  id: AgentId,
  { subject, data, signal }: Publication,
): Promise<PublishResult> {
  const { check, frame } = newClaimCheck("inbox", id, data);
  for (let attempt = 0; ; attempt++) {
    try {
      await blobs.put(check.blob, data);
      const result = await publish(nats, publisher, { subject, data: frame, signal });
      if (result !== TOO_LARGE) return result;
      return { _tag: "Unavailable", message: "the server's max_payload is too low" };
    } catch (error) {
      const isFinal = error instanceof NotPermitted;
      if (!isFinal) await retryPause(nats.connection, attempt, signal);
      if (isFinal || signal.aborted) return { _tag: "Unavailable", message: messageOf(error) };
    }
  }
}

/** Rejects with `ConsumerTaken`, or with `BrokerUnavailable`, as when `signal` fires. */
async function takeOver(consumer: ShardConsumer, signal: AbortSignal | undefined): Promise<void> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(new Error("given up: the shard was lost"));
  });
  signal?.addEventListener("abort", onAbort);
  if (signal?.aborted === true) onAbort();
  try {
    await Promise.race([aborted, consumer.takeOver()]);
  } catch (error) {
    await consumer.stop();
    throw error instanceof ConsumerTaken ? error : unavailable(error);
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}

export const layer: Layer.Layer<Inbox, never, Nats | Blobs> = Layer.effect(
  Inbox,
  Effect.gen(function* () {
    return makeNatsInbox(yield* Nats, yield* Blobs);
  }),
);
