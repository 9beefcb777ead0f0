/**
 * One shard's consumer: a pull consumer on the shard's inbox, its deliveries, and its healing.
 *
 * 1. Taking over creates a consumer with a new name, after deleting the shard's others. A reset is
 *    not enough: pull requests of a frozen host outlive it (measured on 2.15.1), and what it then
 *    pulls is lost until `ack_wait`. A work queue allows one consumer per subject, so the replaced
 *    owner cannot return (`consumerNotUnique`) and stands by until stopped. The name contains the
 *    epoch. An owner stops for a later epoch, and deletes consumers of earlier ones even while
 *    it heals. A host that comes long after it lost its lease therefore takes nothing and keeps no
 *    successor out.
 * 2. Unacked messages stay in the stream; a new consumer delivers them all, at once and in order.
 * 3. Healing (connection lost, consumer gone, broker silent) takes over from itself, which
 *    redelivers lost messages. A message that the host still holds, acked or put off is recognised
 *    by its sequence and not delivered twice.
 */
import type { Msg, Subscription } from "@nats-io/nats-core";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { Epoch, ShardId } from "../../schemas/Address.ts";
import { ConsumersOfShard, isNotFound, isNotUnique } from "./ConsumersOfShard.ts";
import { DeliveryBodies } from "./DeliveryBodies.ts";
import { DeliveryLedger } from "./DeliveryLedger.ts";
import type { NatsShape } from "./client/Nats.ts";
import { retryPause } from "./client/retryPause.ts";
import { subscribe } from "./client/subscribe.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

/** Enough to hide the round trip of a pull. */
const PULL_MESSAGES = 512;
/** Bounds what the server queues for this connection, which it closes past 64 MiB. */
const PULL_BYTES = 4 * 1024 * 1024;
const PULL_EXPIRES_MS = 30_000;
/** One message per idle consumer: those of 64 shards cost the broker nothing. */
const HEARTBEAT_MS = 2_000;
/**
 * More than two heartbeats. When a server of a cluster dies, the consumers that it led are silent
 * and their inputs wait this long, so it is no longer than the election that happens meanwhile.
 */
const SILENCE_MAX_MS = 5_000;
/** Longer silence means that messages may exist that have not arrived: more than a heartbeat. */
const FRESH_MAX_MS = HEARTBEAT_MS + 500;
/** How often silence is checked; adds to `SILENCE_MAX_MS`. */
const CHECK_INTERVAL_MS = 500;
/** The `retryPause` attempt of a replaced or deleted consumer, so that its successor is first. */
const STAND_BY_ATTEMPT = 10;
/** Two hosts may take a shard over at once; each attempt deletes the other's consumer. */
const TAKE_OVERS_MAX = 20;
/** For sent acks to be counted before the consumer is deleted, and how often that is checked. */
const STOP_DRAIN_MS = 1_000;
const STOP_POLL_MS = 10;
const RECONNECTED = "reconnected";

/** Fed by `NatsInbox`; feeds the host's mailboxes. */
export class ShardConsumer {
  private readonly shard: ShardId;
  private readonly consumers: ConsumersOfShard;
  private readonly bodies: DeliveryBodies;
  private readonly ledger = new DeliveryLedger();
  private readonly stopping = new AbortController();
  private readonly offChange: () => void;
  private readonly watchdog: NodeJS.Timeout;
  /** The JetStream consumer's name; empty before the first take-over. */
  private consumerName = "";
  private subscription: Subscription | undefined;
  /** Messages that open pulls may still deliver. */
  private requested = 0;
  private lastMessageMs = performance.now();
  private healing: Promise<void> | undefined;

  constructor(
    private readonly nats: NatsShape,
    blobs: BlobsShape,
    owned: { readonly shard: ShardId; readonly epoch: Epoch },
    private readonly handler: (delivery: Delivery) => void,
  ) {
    this.shard = owned.shard;
    this.consumers = new ConsumersOfShard(nats, owned);
    this.bodies = new DeliveryBodies(nats, blobs, {
      stream: this.consumers.stream,
      signal: this.stopping.signal,
      deliver: (delivery) => this.deliver(delivery),
    });
    this.offChange = nats.connection.onChange((up) => {
      this.ledger.pending = undefined;
      if (up) this.heal(RECONNECTED);
    });
    this.watchdog = setInterval(() => {
      if (performance.now() - this.lastMessageMs > SILENCE_MAX_MS)
        this.heal("the broker is silent");
    }, CHECK_INTERVAL_MS);
  }

  /**
   * Takes the shard over (rule 1). Rejects with `BrokerUnavailable`, `ApiRefusal` or
   * `ConsumerTaken`. After `stop` it ends with the request in flight, and leaves no consumer.
   */
  async takeOver(): Promise<void> {
    for (let attempt = 1; !this.stopping.signal.aborted; attempt++) {
      await this.consumers.deleteOthers();
      if (this.stopping.signal.aborted) return;
      try {
        await this.createConsumer();
        if (this.stopping.signal.aborted) await this.leave();
        return;
      } catch (error) {
        if (!isNotUnique(error) || attempt === TAKE_OVERS_MAX) throw error;
      }
    }
  }

  /** As `InboxConsumer.caughtUp`. False also while the broker is silent. */
  get caughtUp(): boolean {
    const isFresh = performance.now() - this.lastMessageMs < FRESH_MAX_MS;
    return this.ledger.pending === 0 && !this.bodies.isFetching && isFresh;
  }

  /** As `InboxConsumer.stop`. */
  async stop(): Promise<void> {
    if (this.stopping.signal.aborted) return;
    this.stopping.abort();
    this.offChange();
    clearInterval(this.watchdog);
    await this.healing;
    if (this.consumerName !== "") await this.leave();
  }

  private async leave(): Promise<void> {
    try {
      await this.drainAcks();
      await this.consumers.delete(this.consumerName);
    } catch (error) {
      // Deleted by the next owner, or the connection is lost: that has one line for all shards.
      if (isNotFound(error) || error instanceof BrokerUnavailable) return;
      // The next owner deletes it. Inputs whose acks were not counted are redelivered.
      this.nats.connection.log("warn", "a shard's consumer could not be removed", {
        shard: this.shard,
        error: String(error),
      });
    } finally {
      this.subscription?.unsubscribe();
    }
  }

  /**
   * Waits until the server has counted the acks that were sent; deleting the consumer earlier would
   * lose them. Messages that still arrive are recorded in the ledger and not delivered.
   */
  private async drainAcks(): Promise<void> {
    const deadline = performance.now() + STOP_DRAIN_MS;
    while (performance.now() < deadline) {
      if ((await this.consumers.unacked(this.consumerName)) <= this.ledger.unacked) return;
      await new Promise((resolve) => setTimeout(resolve, STOP_POLL_MS));
    }
  }

  private async createConsumer(): Promise<void> {
    const { name, pending } = await this.consumers.create();
    this.consumerName = name;
    this.subscription?.unsubscribe();
    const inbox = this.nats.connection.newInbox();
    this.subscription = subscribe(this.nats.connection.client, inbox, (error, message) => {
      if (error === null) this.receive(message, inbox);
      else this.heal(String(error));
    });
    this.ledger.pending = pending;
    this.lastMessageMs = performance.now();
    this.requested = 0;
    this.pull(inbox);
  }

  private pull(inbox: string): void {
    if (this.stopping.signal.aborted) return;
    const batch = PULL_MESSAGES - this.requested;
    this.requested = PULL_MESSAGES;
    this.nats.connection.client.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${this.consumers.stream}.${this.consumerName}`,
      JSON.stringify({
        batch,
        max_bytes: Math.max(PULL_BYTES, 2 * this.nats.messageBytesMax),
        expires: PULL_EXPIRES_MS * NANOS_PER_MS,
        idle_heartbeat: HEARTBEAT_MS * NANOS_PER_MS,
      }),
      { reply: inbox },
    );
  }

  private receive(message: Msg, inbox: string): void {
    this.lastMessageMs = performance.now();
    if (message.subject === inbox) return this.receiveStatus(message, inbox);
    this.requested--;
    const delivery = this.ledger.take(message, this.nats);
    if (delivery !== undefined) this.bodies.deliver(delivery);
    if (this.requested <= PULL_MESSAGES / 2) this.pull(inbox);
  }

  private receiveStatus(message: Msg, inbox: string): void {
    const code = message.headers?.code;
    if (code === 100) return; // a heartbeat
    const left = message.headers?.get("Nats-Pending-Messages") ?? "";
    // The pull is over (expired, complete, full by bytes, leader changed); the header has what is
    // left of it. Without the header, the consumer is gone or nothing serves it.
    if (left === "") return this.heal(`status ${code}`);
    this.requested = Math.max(0, this.requested - Number(left));
    if (this.requested <= PULL_MESSAGES / 2) this.pull(inbox);
  }

  private deliver(delivery: Delivery): void {
    try {
      this.handler(delivery);
    } catch (error) {
      // A throw here would keep back the deliveries after it. It is made fatal instead.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  private heal(why: string): void {
    // Before the first consumer there is nothing to heal; the caller of `takeOver` retries.
    const taken = this.consumerName !== "";
    if (!taken || this.stopping.signal.aborted || this.healing !== undefined) return;
    const level = why === RECONNECTED ? "info" : "warn";
    this.nats.connection.log(level, "a shard's consumer was created again", {
      shard: this.shard,
      why,
    });
    this.healing = this.recreate(why === RECONNECTED ? 0 : STAND_BY_ATTEMPT).finally(() => {
      this.healing = undefined;
    });
  }

  private async recreate(firstAttempt: number): Promise<void> {
    const { connection, waitingWrites } = this.nats;
    const { stopping, shard } = this;
    const { signal } = stopping;
    const what = `stored the consumer of shard ${shard}`;
    for (let attempt = firstAttempt; !signal.aborted; attempt++) {
      await retryPause(connection, attempt, signal);
      try {
        await this.consumers.deleteOwn(this.consumerName);
        await this.createConsumer();
        break;
      } catch (error) {
        if (isNotUnique(error)) {
          attempt = STAND_BY_ATTEMPT; // another host consumes the shard now
          waitingWrites.stored(what);
          await this.consumers.deleteEarlier().catch(() => undefined); // retried
          continue;
        }
        if (waitingWrites.refuse(what, error))
          connection.log("warn", "a shard's consumer could not be created; its inputs wait", {
            shard,
            why: messageOf(error),
          });
      }
    }
    waitingWrites.stored(what);
  }
}
