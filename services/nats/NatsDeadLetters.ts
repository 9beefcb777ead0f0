/** Dead letters in a stream of their own, one subject an agent. Past the payload limit: a claim (`claims.ts`). */
import { Effect, Layer } from "effect";
import { Blobs, type BlobsShape } from "../../core/blob/Blobs.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { newClaim } from "./claims.ts";
import { unavailable } from "./JetStreamApi.ts";
import { Nats, type NatsShape } from "./Nats.ts";

export function makeNatsDeadLetters(nats: NatsShape, blobs: BlobsShape): DeadLettersShape {
  return {
    put: async (id, data) => {
      try {
        const big = data.length > nats.messageBytesMax ? newClaim("dead", id, data) : undefined;
        if (big !== undefined) await blobs.put(big.claim.blob, data);
        const message = big?.frame ?? data;
        const outcome = await nats.publisher.publish(nats.subjects.dead(id), message);
        if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
      } catch (error) {
        throw unavailable(error);
      }
    },
    count: async () => {
      try {
        const { state } = await nats.api.call<{ state: { messages: number } }>(
          `STREAM.INFO.${nats.subjects.stream.dead}`,
        );
        return state.messages;
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
}

export const layer: Layer.Layer<DeadLetters, never, Nats | Blobs> = Layer.effect(
  DeadLetters,
  Effect.gen(function* () {
    return makeNatsDeadLetters(yield* Nats, yield* Blobs);
  }),
);
