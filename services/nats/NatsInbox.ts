/**
 * The inbox in a work-queue stream, one subject an agent within its shard's lane. Publishing is
 * here; consuming is `ShardConsumer`. A process that consumes any lane also moves timers that are due (`DueRelay`).
 *
 * Envelopes past the payload limit are claims (`claimCheck.ts`). The host that has done the input removes its body; what a
 * crash leaves behind is found by `agents erase`, by its name's prefix.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { Inbox, LaneTaken, type InboxShape, type PublishResult } from "../../core/inbox/Inbox.ts";
import { shardOf, type Epoch } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { newClaimCheck, resolveClaimCheck } from "./claimCheck.ts";
import type { StreamPublisher } from "./GroupPublisher.ts";
import { DueRelay } from "./DueRelay.ts";
import { unavailable } from "./JetStreamApi.ts";
import { Nats, type NatsShape } from "./Nats.ts";
import { retryPause } from "./retryPause.ts";
import { ShardConsumer } from "./ShardConsumer.ts";

/** Earlier than every lease's. */
const EPOCH_NONE = 0 as Epoch;

export function makeNatsInbox(nats: NatsShape, blobs: BlobsShape): InboxShape {
  const { subjects } = nats;
  const relay = new DueRelay(nats);
  return {
    publish: async (id, data, { signal }) => {
      const shard = shardOf(id, nats.shards);
      const subject = subjects.inbox(shard, id);
      const publisher = nats.inboxPublishers[subjects.groupOfShard(shard)]!;
      if (data.length <= nats.messageBytesMax)
        return publish(nats, publisher, { subject, data, signal });
      const { claim, frame } = newClaimCheck("inbox", id, data);
      for (let attempt = 0; ; attempt++) {
        try {
          await blobs.put(claim.blob, data);
          return await publish(nats, publisher, { subject, data: frame, signal });
        } catch (error) {
          await retryPause(nats.connection, attempt, signal);
          if (signal.aborted) return { _tag: "Unavailable", message: String(error) };
        }
      }
    },
    consume: async (shard, handler, { epoch = EPOCH_NONE, signal } = {}) => {
      const lane = new ShardConsumer(nats, blobs, { shard, epoch }, handler);
      let giveUp = (): void => undefined;
      const givenUp = new Promise<never>((_resolve, reject) => {
        giveUp = () => reject(new Error("given up: the shard is lost"));
      });
      signal?.addEventListener("abort", giveUp);
      if (signal?.aborted === true) giveUp();
      try {
        await Promise.race([givenUp, lane.takeOver()]);
      } catch (error) {
        await lane.stop();
        throw error instanceof LaneTaken ? error : unavailable(error);
      } finally {
        signal?.removeEventListener("abort", giveUp);
      }
      const leave = relay.join();
      return {
        get caughtUp() {
          return lane.caughtUp;
        },
        stop: () => lane.stop().finally(leave),
      };
    },
    get: async (id, seq) => {
      const stream = subjects.streamOf("inbox", subjects.groupOf(id));
      try {
        // A replica that lags knows nothing of a new message; only the leader may say that it is gone.
        const found =
          (await nats.reader.direct(stream, { seq })) ??
          (await nats.reader.byLeader(stream, { seq }));
        return found === undefined ? undefined : await resolveClaimCheck(blobs, found.data);
      } catch (error) {
        throw error instanceof CorruptFrame ? error : unavailable(error);
      }
    },
    depth: async () => {
      try {
        const depths = subjects
          .streamsOf("inbox")
          .map((stream) => nats.api.call<DepthInfo>(`STREAM.INFO.${stream}`));
        return (await Promise.all(depths)).reduce((sum, info) => sum + info.state.messages, 0);
      } catch (error) {
        throw unavailable(error);
      }
    },
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

async function publish(
  nats: NatsShape,
  publisher: StreamPublisher,
  { subject, data, signal }: Publication,
): Promise<PublishResult> {
  let message = "not tried";
  for (let attempt = 0; !signal.aborted; attempt++) {
    const outcome = await publisher.publish(subject, data, { signal });
    if (outcome._tag === "Stored") return outcome;
    // An ambiguous one may then be stored twice: its key tells the host, as with any repeated webhook.
    message = outcome.message;
    await retryPause(nats.connection, attempt, signal);
  }
  return { _tag: "Unavailable", message };
}

export const layer: Layer.Layer<Inbox, never, Nats | Blobs> = Layer.effect(
  Inbox,
  Effect.gen(function* () {
    return makeNatsInbox(yield* Nats, yield* Blobs);
  }),
);
