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
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { shardOf } from "../../schemas/Address.ts";
import { orUnavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape, type WaitingWrite } from "./client/Nats.ts";
import { headers } from "./client/ReplyInbox.ts";

/**
 * A turn whose timer is not stored tries again sooner, also after an ack's timeout. Past this time
 * nobody tries any more.
 */
const TRIED_MS_MAX = 10_000;

export function makeNatsTimers(nats: NatsShape): TimersShape {
  const { subjects, shards, publisher, api } = nats;
  const refused = new RefusedTimers(nats);
  return {
    arm: async (id, name, atMs, envelope) => {
      const shard = shardOf(id, shards);
      const outcome = await publisher.publish(subjects.timer(shard, id, name), envelope, {
        headers: headers(
          ["Nats-Schedule", `@at ${instant(atMs)}`],
          ["Nats-Schedule-Target", subjects.due(shard, id)],
        ),
      });
      const stream = subjects.streamOf("timers", subjects.groupOfShard(shard));
      if (outcome._tag === "Stored") return refused.end(stream);
      refused.add(stream, outcome.message);
      // An ambiguous timer may be stored. The caller arms it again, which replaces it.
      throw new BrokerUnavailable({ message: outcome.message });
    },
    disarm: (id, name) =>
      orUnavailable(async () => {
        const shard = shardOf(id, shards);
        const stream = subjects.streamOf("timers", subjects.groupOfShard(shard));
        await api.call(`STREAM.PURGE.${stream}`, { filter: subjects.timer(shard, id, name) });
      }),
  };
}

/** The streams that store no timer now: one of `waitingWrites` each, while turns try again. */
class RefusedTimers {
  private readonly byStream = new Map<string, { write: WaitingWrite; expiry: NodeJS.Timeout }>();

  constructor(private readonly nats: NatsShape) {}

  add(stream: string, why: string): void {
    const { connection, waitingWrites } = this.nats;
    const known = this.byStream.get(stream);
    clearTimeout(known?.expiry);
    const sinceMs = performance.now();
    const write = known?.write ?? { what: `a timer of ${stream}`, sinceMs, why };
    write.why = why;
    waitingWrites.add(write);
    const expiry = setTimeout(() => this.end(stream), TRIED_MS_MAX).unref();
    this.byStream.set(stream, { write, expiry });
    // One refusal may be the end of an election; a lost connection has a line of its own.
    if (known !== undefined && connection.connected())
      connection.log("warn", "a timer could not be stored; its turn waits", { stream, why });
  }

  end(stream: string): void {
    const known = this.byStream.get(stream);
    if (known === undefined) return;
    clearTimeout(known.expiry);
    this.byStream.delete(stream);
    this.nats.waitingWrites.delete(known.write);
  }
}

/** Not before 1970, as the server accepts no years before 0. Rounded up, never to be early. */
const instant = (ms: number): string => new Date(Math.max(0, Math.ceil(ms))).toISOString();

export const layer: Layer.Layer<Timers, never, Nats> = Layer.effect(
  Timers,
  Effect.map(Nats, makeNatsTimers),
);
