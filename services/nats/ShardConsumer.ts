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
 * 4. A creation without an answer (during an election) may still happen. Its name is kept and
 *    deleted before the next attempt, or this consumer would pass for another host's for ever.
 * 5. The body of a claim check is fetched before the delivery; later deliveries wait.
 * 6. The body is removed once the message has left the stream. An ack alone may be lost, and the
 *    next owner would find the input without its body.
 */
import type { Msg, Subscription } from "@nats-io/nats-core";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { ConsumerTaken, type Delivery } from "../../core/inbox/Inbox.ts";
import type { Epoch, ShardId } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { findClaimCheck, readClaimCheck, resolveClaimCheck } from "./layout/claimCheck.ts";
import { ApiCode, ApiRefusal } from "./client/JetStreamApi.ts";
import { DeliveryLedger } from "./DeliveryLedger.ts";
import type { NatsShape } from "./client/Nats.ts";
import { retryPause } from "./client/retryPause.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

/**
 * Nothing waits for it, because take-over and healing redeliver at once. It only frees what a bug
 * might leave unacked for ever, and is longer than the slowest turn and the longest nak delay.
 */
const ACK_WAIT_MS = 60 * 60 * 1_000;
/** A slow agent must not stall its shard. Past a few inputs the host keeps only their sequences. */
const ACK_PENDING_MAX = 100_000;
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
/** How long after an ack the stream is checked for the message, and how many times. */
const BODY_CHECK_MS = 1_000;
const BODY_CHECKS = 5;
const RECONNECTED = "reconnected";
/** Precedes the epoch in a consumer's name. No UUID begins like this. */
const EPOCH_MARK = "epoch";

/** Fed by `NatsInbox`; feeds the host's mailboxes. */
export class ShardConsumer {
  private readonly nats: NatsShape;
  private readonly blobs: BlobsShape;
  private readonly shard: ShardId;
  private readonly stream: string;
  private readonly epoch: Epoch;
  private readonly handler: (delivery: Delivery) => void;
  private readonly ledger = new DeliveryLedger();
  private readonly stopping = new AbortController();
  private readonly offChange: () => void;
  private readonly watchdog: NodeJS.Timeout;
  /** The JetStream consumer's name; empty before the first take-over. */
  private consumerName = "";
  /** Consumers whose creation was not answered (rule 4). */
  private readonly unconfirmed = new Set<string>();
  private subscription: Subscription | undefined;
  /** Messages that open pulls may still deliver. */
  private requested = 0;
  private lastMessageMs = performance.now();
  private healing: Promise<void> | undefined;
  /** Set while a body is fetched: the deliveries that wait for it (rule 5). */
  private waiting: Delivery[] | undefined;

  constructor(
    nats: NatsShape,
    blobs: BlobsShape,
    { shard, epoch }: { readonly shard: ShardId; readonly epoch: Epoch },
    handler: (delivery: Delivery) => void,
  ) {
    this.nats = nats;
    this.blobs = blobs;
    this.shard = shard;
    this.stream = nats.subjects.streamOf("inbox", nats.subjects.groupOfShard(shard));
    this.epoch = epoch;
    this.handler = handler;
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
      const names = await this.consumersOfShard();
      if (names.some((name) => this.epochOf(name) > this.epoch))
        throw new ConsumerTaken({ shard: this.shard });
      for (const name of names) await this.deleteConsumer(name);
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
    return this.ledger.pending === 0 && this.waiting === undefined && isFresh;
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
      await this.deleteConsumer(this.consumerName);
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
      const info = await this.nats.api.call<{ num_ack_pending: number }>(
        `CONSUMER.INFO.${this.stream}.${this.consumerName}`,
      );
      if (info.num_ack_pending <= this.ledger.unacked) return;
      await new Promise((resolve) => setTimeout(resolve, STOP_POLL_MS));
    }
  }

  private async createConsumer(): Promise<void> {
    const name = `${this.namePrefix}${EPOCH_MARK}${this.epoch}-${randomUUID()}`;
    this.unconfirmed.add(name);
    const config = {
      name,
      durable_name: name,
      filter_subject: this.nats.subjects.inboxOfShard(this.shard),
      deliver_policy: "all",
      ack_policy: "explicit",
      ack_wait: ACK_WAIT_MS * NANOS_PER_MS,
      max_deliver: -1,
      max_ack_pending: ACK_PENDING_MAX,
      // Its state is expendable (rule 2). On disk it would be a file that is written and renamed
      // ten times a second for each busy shard: a quarter of the broker's work under load.
      mem_storage: true,
    };
    const created = await this.nats.api.call<{ num_pending: number }>(
      `CONSUMER.CREATE.${this.stream}.${name}`,
      { stream_name: this.stream, action: "create", config },
    );
    this.unconfirmed.clear(); // a late creation is refused now that this consumer exists
    this.consumerName = name;
    this.subscription?.unsubscribe();
    const inbox = this.nats.connection.newInbox();
    this.subscription = this.nats.connection.client.subscribe(inbox, {
      callback: (error, message) => {
        if (error === null) this.receive(message, inbox);
        else this.heal(String(error));
      },
    });
    this.ledger.pending = created.num_pending;
    this.lastMessageMs = performance.now();
    this.requested = 0;
    this.pull(inbox);
  }

  private pull(inbox: string): void {
    if (this.stopping.signal.aborted) return;
    const batch = PULL_MESSAGES - this.requested;
    this.requested = PULL_MESSAGES;
    this.nats.connection.client.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${this.stream}.${this.consumerName}`,
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
    if (delivery !== undefined) this.enqueue(delivery);
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

  private enqueue(delivery: Delivery): void {
    if (this.stopping.signal.aborted) return;
    if (this.waiting !== undefined) this.waiting.push(delivery);
    else if (readClaimCheck(delivery.data) === undefined) this.deliver(delivery);
    else {
      this.waiting = [delivery];
      void this.deliverWaiting(this.waiting);
    }
  }

  private async deliverWaiting(queue: Delivery[]): Promise<void> {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const data = await this.fetchBody(next);
      if (this.stopping.signal.aborted) return;
      this.deliver({ ...next, data, ack: () => this.ackWithBody(next) });
    }
    this.waiting = undefined;
  }

  /** Rule 6. */
  private ackWithBody({ seq, data, ack }: Delivery): void {
    ack();
    const check = findClaimCheck(data);
    if (check !== undefined)
      void this.removeBody(seq, check.blob).catch((error: unknown) =>
        this.nats.connection.log("warn", "the body of an acked input could not be removed", {
          blob: check.blob,
          error: String(error),
        }),
      );
  }

  private async removeBody(seq: number, blob: string): Promise<void> {
    const { signal } = this.stopping;
    for (let check = 0; check < BODY_CHECKS && !signal.aborted; check++) {
      await delay(BODY_CHECK_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return; // it stays until its agent is erased
      if ((await this.nats.reader.byLeader(this.stream, { seq })) !== undefined) continue;
      return this.blobs.remove(blob);
    }
  }

  private async fetchBody(delivery: Delivery): Promise<Uint8Array> {
    for (let attempt = 0; !this.stopping.signal.aborted; attempt++) {
      try {
        return await resolveClaimCheck(this.blobs, delivery.data);
      } catch (error) {
        // A claim check has no envelope: the host treats the input as corrupt.
        if (error instanceof CorruptFrame) break;
        await retryPause(this.nats.connection, attempt, this.stopping.signal);
      }
    }
    return delivery.data;
  }

  private deliver(delivery: Delivery): void {
    try {
      this.handler(delivery);
    } catch (error) {
      // A throw here would silently end the client's read loop. It is made fatal instead.
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
    const { signal } = this.stopping;
    for (let attempt = firstAttempt; !signal.aborted; attempt++) {
      await retryPause(this.nats.connection, attempt, signal);
      try {
        for (const name of [this.consumerName, ...this.unconfirmed])
          await this.deleteConsumer(name);
        return await this.createConsumer();
      } catch (error) {
        if (!isNotUnique(error)) continue;
        attempt = STAND_BY_ATTEMPT; // another host consumes the shard now
        await this.deleteEarlier().catch(() => undefined); // retried
      }
    }
  }

  /** Deletes consumers of earlier epochs: a late owner may have died before it gave way. */
  private async deleteEarlier(): Promise<void> {
    for (const name of await this.consumersOfShard())
      if (this.epochOf(name) < this.epoch) await this.deleteConsumer(name);
  }

  /** 0 for a name without one. */
  private epochOf(name: string): number {
    const rest = name.slice(this.namePrefix.length);
    return rest.startsWith(EPOCH_MARK) ? Number.parseInt(rest.slice(EPOCH_MARK.length), 10) : 0;
  }

  private get namePrefix(): string {
    return `shard-${this.shard}-`;
  }

  private async consumersOfShard(): Promise<readonly string[]> {
    const names: string[] = [];
    for (let offset = 0; ;) {
      const page = await this.nats.api.call<{ total: number; consumers: string[] | null }>(
        `CONSUMER.NAMES.${this.stream}`,
        { offset },
      );
      const found = page.consumers ?? [];
      names.push(...found);
      offset += found.length;
      if (found.length === 0 || offset >= page.total)
        return names.filter((name) => name.startsWith(this.namePrefix));
    }
  }

  private async deleteConsumer(name: string): Promise<void> {
    try {
      await this.nats.api.call(`CONSUMER.DELETE.${this.stream}.${name}`);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}

const isNotFound = (error: unknown): boolean =>
  error instanceof ApiRefusal && error.code === ApiCode.consumerNotFound;

const isNotUnique = (error: unknown): boolean =>
  error instanceof ApiRefusal && error.code === ApiCode.consumerNotUnique;
