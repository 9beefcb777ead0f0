/**
 * Replaces the inbox stream of an older release, which held the timers too. Such a stream accepts
 * scheduled messages and therefore rollups, with which any user who may publish to it can empty it;
 * the server refuses to turn them off. Called by `provision`.
 *
 * 1. Nothing is deleted before its copy is stored in the timers' stream: timers as timers, inputs
 *    as due timers. An interrupted run is completed by the next one, or by the hosts (`DueRelay`).
 * 2. Hosts must be stopped, because timers they arm and acks they send meanwhile would be lost. The
 *    move is refused while a host is live.
 * 3. Nothing can be stored in the inbox during the move. Gateways hold their requests, or answer
 *    503.
 * 4. Inputs keep their order. Those that an interrupted run leaves twice are recognised by their
 *    keys.
 */
import { setTimeout as delay } from "node:timers/promises";
import { BrokerUnavailable } from "../../../core/bus/Bus.ts";
import type { Subjects } from "../../../schemas/Subjects.ts";
import type { PublishOutcome } from "../client/AckPublisher.ts";
import { isLive } from "../layout/leaseMessage.ts";
import type { NatsShape } from "../client/Nats.ts";
import { headers } from "../client/ReplyInbox.ts";
import { NANOS_PER_MS, type StreamConfig } from "../layout/streamConfigs.ts";

type Broker = Pick<NatsShape, "api" | "publisher" | "reader">;

/** The leases of hosts that were just killed have expired after this many TTLs. */
const HOSTS_GONE_TTLS = 2;
/** Short compared with a TTL. */
const CHECK_INTERVAL_MS = 250;
/** Enough to hide the round trip. */
const COPIES_AT_ONCE = 256;
const SCHEDULE = "Nats-Schedule";
const TARGET = "Nats-Schedule-Target";

/**
 * Returns undefined as soon as no host is live, or a live host's name after two TTLs. Rejects with
 * `ApiRefusal` or `BrokerUnavailable`.
 */
export async function liveHost(broker: Broker, subjects: Subjects): Promise<string | undefined> {
  const bucket = `KV_${subjects.bucket.leases}`;
  const start = `$KV.${subjects.bucket.leases}.host`;
  const { config } = await broker.api.call<{ readonly config: StreamConfig }>(
    `STREAM.INFO.${bucket}`,
  );
  const ttlMs = Number(config["max_age"]) / NANOS_PER_MS;
  const deadlineMs = performance.now() + HOSTS_GONE_TTLS * ttlMs;
  for (;;) {
    let live: string | undefined;
    for await (const lease of broker.reader.messages(bucket, `${start}.>`, { fromSeq: 1 }))
      if (isLive(lease)) live = lease.subject.slice(start.length + 1);
    if (live === undefined || performance.now() > deadlineMs) return live;
    await delay(CHECK_INTERVAL_MS);
  }
}

/** The first step: the old stream receives no more messages, and its subjects are free. */
export const retireInbox = (
  { api }: Pick<Broker, "api">,
  { namespace }: Subjects,
  old: StreamConfig,
): Promise<unknown> =>
  // A stream needs a subject.
  api.call(`STREAM.UPDATE.${old.name}`, { ...old, subjects: [`${namespace}.retired.${old.name}`] });

/**
 * Moves one stream group's inbox. `old`: the configuration of its retired stream; `create` creates
 * the new stream of the same name. The group's stream of timers must exist. Rejects with
 * `ApiRefusal` or `BrokerUnavailable`; another run continues.
 */
export async function moveInbox(
  { api, publisher, reader }: Broker,
  subjects: Subjects,
  group: number,
  { old, create }: { readonly old: StreamConfig; readonly create: () => Promise<unknown> },
): Promise<void> {
  const { namespace } = subjects;
  const timers = subjects.streamOf("timers", group);
  const inboxStart = `${namespace}.inbox.`;
  const dueStart = `${namespace}.due.`;
  // Timers first. One that fires meanwhile is copied again as an input, so that none is missed.
  const armed = reader.messages(old.name, `${namespace}.timer.>`, { fromSeq: 1 });
  await inOrder(armed, (timer) =>
    publisher.publish(timer.subject, timer.data, {
      headers: headers(
        [SCHEDULE, timer.header(SCHEDULE) ?? ""],
        [TARGET, (timer.header(TARGET) ?? "").replace(inboxStart, dueStart)],
      ),
    }),
  );
  const inputs = reader.messages(old.name, `${inboxStart}>`, { fromSeq: 1 });
  await inOrder(inputs, ({ subject, data }) =>
    publisher.publish(subject.replace(inboxStart, dueStart), data),
  );
  // Another run may have replaced the stream meanwhile. The new one must not be deleted.
  const { config } = await api.call<{ readonly config: StreamConfig }>(`STREAM.INFO.${old.name}`);
  if (config["allow_msg_schedules"] !== true)
    throw new BrokerUnavailable({ message: `${old.name} is being replaced by another process` });
  await api.call(`STREAM.DELETE.${old.name}`);
  await create();
  const due = reader.messages(timers, subjects.dues, { fromSeq: 1 });
  const moved: number[] = [];
  await inOrder(due, ({ subject, seq, data }) => {
    moved.push(seq);
    return publisher.publish(subjects.inboxOfDue(subject), data);
  });
  for (const seq of moved) await api.call(`STREAM.MSG.DELETE.${timers}`, { seq });
}

/** Publishes in the order of `messages`. Rejects unless each is known to be stored. */
async function inOrder<A>(
  messages: AsyncIterable<A>,
  publish: (message: A) => Promise<PublishOutcome>,
): Promise<void> {
  let group: Array<Promise<PublishOutcome>> = [];
  const settle = async (): Promise<void> => {
    for (const outcome of await Promise.all(group))
      if (outcome._tag !== "Stored")
        throw new BrokerUnavailable({
          message: `the inbox could not be moved: ${outcome.message}; run "agents provision" again to continue`,
        });
    group = [];
  };
  for await (const message of messages) {
    group.push(publish(message));
    if (group.length === COPIES_AT_ONCE) await settle();
  }
  await settle();
}
