/**
 * Timers as JetStream scheduled messages, one subject per timer. The server moves a due timer to a
 * `due` subject of the same stream (measured on 2.15.1: 0-251 ms late, never early), and `DueRelay`
 * stores it in the agent's inbox. Publishing to the subject again replaces the timer; purging the
 * subject disarms it.
 *
 * The inbox has another stream, because one with scheduled messages accepts rollups too, and any
 * user who may publish to it can then empty it. Only hosts and the operator publish to the timers'
 * stream (`deploy/nats/permissions.conf`).
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { shardOf } from "../../schemas/Address.ts";
import { errorOf } from "./client/AckPublisher.ts";
import { orUnavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { headers } from "./client/ReplyInbox.ts";

export function makeNatsTimers(nats: NatsShape): TimersShape {
  const { subjects, shards, publisher, api, waitingWrites, connection } = nats;
  return {
    arm: async (id, name, atMs, envelope) => {
      const shard = shardOf(id, shards);
      const outcome = await publisher.publish(subjects.timer(shard, id, name), envelope, {
        headers: headers(
          ["Nats-Schedule", `@at ${instant(atMs)}`],
          ["Nats-Schedule-Target", subjects.due(shard, id)],
        ),
      });
      if (outcome._tag === "Stored" && !waitingWrites.hasRefused) return;
      const stream = subjects.streamOf("timers", subjects.groupOfShard(shard));
      const what = `stored a timer of ${stream}`;
      if (outcome._tag === "Stored") return waitingWrites.stored(what);
      const error = errorOf(outcome);
      if (waitingWrites.refuse(what, error))
        connection.log("warn", "a timer could not be stored; its turn waits", {
          stream,
          why: error.message,
        });
      // An ambiguous timer may be stored. The caller arms it again, which replaces it.
      throw error;
    },
    disarm: (id, name) =>
      orUnavailable(async () => {
        const shard = shardOf(id, shards);
        const stream = subjects.streamOf("timers", subjects.groupOfShard(shard));
        await api.call(`STREAM.PURGE.${stream}`, { filter: subjects.timer(shard, id, name) });
      }),
  };
}

/** Not before 1970, as the server accepts no years before 0. Rounded up, never to be early. */
const instant = (ms: number): string => new Date(Math.max(0, Math.ceil(ms))).toISOString();

export const layer: Layer.Layer<Timers, never, Nats> = Layer.effect(
  Timers,
  Effect.map(Nats, makeNatsTimers),
);
