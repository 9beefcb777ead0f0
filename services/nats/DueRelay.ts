/**
 * Stores timers that are due in their agents' inboxes. The server moves a due timer to a `due` subject of the timers'
 * stream, and the hosts carry it from there to the inbox's stream, which takes no scheduled messages.
 *
 * 1. A due timer is acked only when its input is stored. A crash in between stores it twice, and the second one is
 *    stale: each alarm is checked against its agent's schedules.
 * 2. All hosts share one consumer for each stream group, so nothing has to be handed over with a shard. What a host
 *    pulled and did not store, because it died or is frozen, goes to another one after `ACK_WAIT_MS`.
 * 3. Whoever needs the consumer creates it: a server that restarts forgets it, and its state is nothing to keep,
 *    since the stream is a work queue.
 *
 * Runs while the process consumes a lane (`NatsInbox`). Feeds the lanes through the inbox's stream.
 */
import type { Msg } from "@nats-io/nats-core";
import type { StreamPublisher } from "./GroupPublisher.ts";
import type { NatsShape } from "./Nats.ts";
import { plain } from "./ReplyInbox.ts";
import { retryPause } from "./retryPause.ts";
import { NANOS_PER_MS } from "./streamConfigs.ts";

const CONSUMER = "due-relay";
/** A lease's default TTL: the timers of a host that died with them wait as long as its agents do. */
const ACK_WAIT_MS = 5_000;
/** Timers under way in one pull: one batch of group commit is as large, and a frozen host keeps no more. */
const PULL_MESSAGES = 256;
/**
 * Bounds how long a frozen host is still sent timers, and costs each host one message in this time. No longer than
 * `ACK_WAIT_MS`: what it was sent would be sent to it again.
 */
const PULL_EXPIRES_MS = 5_000;
/** After it the server has forgotten the pull. */
const SILENCE_MAX_MS = PULL_EXPIRES_MS + 2_000;
/** A timer that can't be stored now is pulled again after this. */
const PUT_OFF_MS = 250;
const encoder = new TextEncoder();
const ACK = encoder.encode("+ACK");
const NAK = encoder.encode(`-NAK {"delay":${PUT_OFF_MS * NANOS_PER_MS}}`);

export class DueRelay {
  private readonly nats: NatsShape;
  private lanes = 0;
  private stopping: AbortController | undefined;

  constructor(nats: NatsShape) {
    this.nats = nats;
  }

  /** Runs until every caller has called the returned function. */
  join(): () => void {
    this.lanes++;
    this.start();
    let joined = true;
    return () => {
      if (!joined) return;
      joined = false;
      if (--this.lanes > 0) return;
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
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await this.createConsumer(stream);
        for (; !signal.aborted; attempt = 0) await this.pull(stream, group, signal);
      } catch (error) {
        if (signal.aborted || nats.connection.client.isClosed()) return;
        nats.connection.log("warn", "due timers are asked for again", {
          stream,
          why: String(error),
        });
        await retryPause(nats.connection, attempt, signal);
      }
    }
  }

  /** Rule 3. Nothing changes where it is there. */
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

  /** Resolves when the pull is over; rejects when it was not served. */
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
    const subscription = connection.client.subscribe(inbox, {
      callback: (error, message) => (error === null ? receive(message) : end(error)),
    });
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
      // The server sends nothing more to a pull that nobody listens to.
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

/** Of a pull's last word: undefined when its time is over or it has all it asked for. */
function statusError(message: Msg): Error | undefined {
  const code = message.headers?.code;
  return code === 404 || code === 408 ? undefined : new Error(`status ${code}`);
}
