/**
 * Timers as JetStream scheduled messages: one subject for each timer. When it is due, the server moves it to a
 * `due` subject of the same stream (measured on 2.15.1: 0-251 ms late, never early), and `DueRelay` stores it in
 * the agent's inbox. Publishing to the subject again replaces the timer; purging the subject disarms it.
 *
 * The stream is not the inbox's, because a stream with scheduled messages takes rollups too: whoever may publish
 * to it may empty it. Only hosts and the operator publish to this one (`deploy/nats/permissions.conf`).
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { shardOf } from "../../schemas/Address.ts";
import { unavailable } from "./JetStreamApi.ts";
import { Nats, type NatsShape } from "./Nats.ts";
import { headers } from "./ReplyInbox.ts";

export function makeNatsTimers(nats: NatsShape): TimersShape {
  const { subjects, shards, publisher, api } = nats;
  return {
    arm: async (id, name, atMs, envelope) => {
      const shard = shardOf(id, shards);
      const outcome = await publisher.publish(subjects.timer(shard, id, name), envelope, {
        headers: headers(
          ["Nats-Schedule", `@at ${instant(atMs)}`],
          ["Nats-Schedule-Target", subjects.due(shard, id)],
        ),
      });
      // An ambiguous one may be stored: the caller arms it again, which replaces it.
      if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
    },
    disarm: async (id, name) => {
      try {
        const shard = shardOf(id, shards);
        const stream = subjects.streamOf("timers", subjects.groupOfShard(shard));
        await api.call(`STREAM.PURGE.${stream}`, { filter: subjects.timer(shard, id, name) });
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
}

/** The server knows no years before 0; all of them are past. A fraction of a millisecond is not early. */
const instant = (ms: number): string => new Date(Math.max(0, Math.ceil(ms))).toISOString();

export const layer: Layer.Layer<Timers, never, Nats> = Layer.effect(
  Timers,
  Effect.map(Nats, makeNatsTimers),
);
