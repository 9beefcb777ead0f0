/**
 * Moves due timers to their agents' inboxes. The server moves a due timer to a `due` subject of the
 * timers' stream. The hosts publish it from there to the inbox's stream, which does not accept
 * scheduled messages.
 *
 * 1. A due timer is acked only after its input is stored. A crash in between stores the input
 *    twice, and the second one is stale: each alarm is checked against its agent's schedules.
 * 2. All hosts share one consumer per stream group, so a shard's move needs no handover. Timers
 *    that a host pulled and did not store, because it died or is frozen, go to another host after
 *    `ACK_WAIT_MS`.
 * 3. Each host creates the consumer when it needs it. A restarted server forgets it, and its state
 *    is expendable, because the stream is a work queue.
 *
 * Runs while the process consumes a shard (`NatsInbox`). Feeds `ShardConsumer` through the inbox's
 * stream.
 */
import type { Msg } from "@nats-io/nats-core";
import type { StreamPublisher } from "./client/GroupPublisher.ts";
import type { NatsShape } from "./client/Nats.ts";
import { plain } from "./client/ReplyInbox.ts";
import { retryPause } from "./client/retryPause.ts";
import { subscribe } from "./client/subscribe.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

const CONSUMER = "due-relay";
/** A lease's default TTL: the timers that a dead host had pulled wait as long as its agents do. */
const ACK_WAIT_MS = 5_000;
/** The timers of one pull: no more than a group commit needs; all that a frozen host holds. */
const PULL_MESSAGES = 256;
/**
 * Bounds how long a frozen host is still sent timers. Each host sends one message in this time. No
 * longer than `ACK_WAIT_MS`; otherwise the host would be sent the same timers again.
 */
const PULL_EXPIRES_MS = 5_000;
/** The server has ended the pull by then. */
const SILENCE_MAX_MS = PULL_EXPIRES_MS + 2_000;
/** A timer that cannot be stored is delivered again after this time. */
const NAK_DELAY_MS = 250;
const encoder = new TextEncoder();
const ACK = encoder.encode("+ACK");
const NAK = encoder.encode(`-NAK {"delay":${NAK_DELAY_MS * NANOS_PER_MS}}`);

export class DueRelay {
  private users = 0;
  private stopping: AbortController | undefined;

  constructor(private readonly nats: NatsShape) {}

  /** Runs until every caller has called the returned function. */
  join(): () => void {
    this.users++;
    this.start();
    let joined = true;
    return () => {
      if (!joined) return;
      joined = false;
      if (--this.users > 0) return;
      this.stopping?.abort();
      this.stopping = undefined;
    };
  }

  private start(): void {
    if (this.stopping !== undefined) return;
    const { signal } = (this.stopping = new AbortController());
    for (const group of this.nats.subjects.groups) void this.relay(group, signal);
  }

  private async relay(group: number, signal: AbortSignal): Promise<void> {
    const { nats } = this;
    const stream = nats.subjects.streamOf("timers", group);
    const what = `stored the consumer of due timers of ${stream}`;
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await this.createConsumer(stream);
        nats.waitingWrites.stored(what);
        for (; !signal.aborted; attempt = 0) await this.pull(stream, group, signal);
      } catch (error) {
        if (signal.aborted || nats.connection.client.isClosed()) return;
        nats.waitingWrites.refuse(what, error);
        nats.connection.log("warn", "the pull of due timers is retried", {
          stream,
          why: String(error),
        });
        await retryPause(nats.connection, attempt, signal);
      }
    }
  }

  /** Rule 3. Has no effect on an existing consumer. */
  private createConsumer(stream: string): Promise<unknown> {
    return this.nats.api.call(`CONSUMER.CREATE.${stream}.${CONSUMER}`, {
      stream_name: stream,
      config: {
        name: CONSUMER,
        durable_name: CONSUMER,
        filter_subject: this.nats.subjects.dues,
        deliver_policy: "all",
        ack_policy: "explicit",
        ack_wait: ACK_WAIT_MS * NANOS_PER_MS,
        max_deliver: -1,
        mem_storage: true,
      },
    });
  }

  /** Resolves when the pull is over and its timers are handled; rejects when it was not served. */
  private async pull(stream: string, group: number, signal: AbortSignal): Promise<void> {
    const { connection, inboxPublishers } = this.nats;
    const inbox = connection.newInbox();
    const storing: Array<Promise<void>> = [];
    let end: (error?: Error) => void = () => undefined;
    const ended = new Promise<void>((resolve, reject) => {
      end = (error) => (error === undefined ? resolve() : reject(error));
    });
    const receive = (message: Msg): void => {
      if (message.subject === inbox) return end(statusError(message));
      storing.push(this.store(inboxPublishers[group]!, message, signal));
      if (storing.length === PULL_MESSAGES) end();
    };
    const subscription = subscribe(connection.client, inbox, (error, message) =>
      error === null ? receive(message) : end(error),
    );
    const offChange = connection.onChange(() => end(new Error("the connection was lost")));
    const silence = setTimeout(() => end(new Error("the broker is silent")), SILENCE_MAX_MS);
    const onAbort = (): void => end();
    signal.addEventListener("abort", onAbort);
    try {
      connection.client.publish(
        `$JS.API.CONSUMER.MSG.NEXT.${stream}.${CONSUMER}`,
        JSON.stringify({ batch: PULL_MESSAGES, expires: PULL_EXPIRES_MS * NANOS_PER_MS }),
        { reply: inbox },
      );
      await ended;
      await Promise.all(storing);
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", onAbort);
      offChange();
      // The server ends a pull whose reply subject has no subscription.
      subscription.unsubscribe();
    }
  }

  /** Rule 1. */
  private async store(
    publisher: StreamPublisher,
    { subject, data, reply = "" }: Msg,
    signal: AbortSignal,
  ): Promise<void> {
    const { connection, subjects } = this.nats;
    const outcome = await publisher.publish(subjects.inboxOfDue(subject), plain(data), { signal });
    if (connection.connected())
      connection.client.publish(reply, outcome._tag === "Stored" ? ACK : NAK);
  }
}

/** Undefined for a status that ends a pull regularly: it has expired, or nothing was left. */
function statusError(message: Msg): Error | undefined {
  const code = message.headers?.code;
  return code === 404 || code === 408 ? undefined : new Error(`status ${code}`);
}
