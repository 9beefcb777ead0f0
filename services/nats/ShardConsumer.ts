/**
 * One shard's lane of the inbox while this process consumes it: a pull consumer, its deliveries, and how it
 * heals. Fed by `NatsInbox`, feeds the host's mailboxes.
 *
 * 1. Taking over is a new consumer under a new name, after deleting the one before it. Resetting the
 *    old one is not enough: pull requests of a frozen host outlive a reset (measured on 2.15.1), and what
 *    it then pulls is lost to everybody until `ack_wait`. A work queue allows one consumer a subject, so the older
 *    lane can't come back while this one is there (`consumerNotUnique`): it stands by until stopped.
 *    The epoch is part of the name: who meets a consumer of a later one gives way, and deletes those of earlier
 *    ones even while it heals. So a host that comes long after its lease was lost takes nothing, and leaves nothing
 *    that keeps its successor out.
 * 2. Unacked messages stay in the stream, so a new consumer delivers them all, at once and in order.
 * 3. Healing (connection lost, consumer gone, broker silent) is taking over from oneself: what was
 *    lost on the way comes again. What the host still holds comes again too and is not handed on
 *    twice: the lane knows it by its sequence, and knows what it acked or put off.
 * 4. A creation without an answer (a broker that elects) may still be carried out: its name is kept and
 *    deleted before the next one, else our own consumer would pass for another host's, for ever.
 * 5. A delivery whose bytes are a claim is fetched before it is handed on, and what follows waits.
 * 6. Its body is removed once the message is gone from the stream: an ack alone may be lost, and the next owner would find
 *    the input without its body.
 */
import type { Msg, Subscription } from "@nats-io/nats-core";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { LaneTaken, type Delivery } from "../../core/inbox/Inbox.ts";
import type { Epoch, ShardId } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { claimIn, readClaimCheck, resolveClaimCheck } from "./claimCheck.ts";
import { ApiCode, ApiRefusal } from "./JetStreamApi.ts";
import { DeliveryLedger } from "./DeliveryLedger.ts";
import type { NatsShape } from "./Nats.ts";
import { retryPause } from "./retryPause.ts";
import { NANOS_PER_MS } from "./streamConfigs.ts";

/** Nothing waits for it: take-over and healing redeliver at once. It only frees what a bug might leave
 *  unacked for ever, and must be longer than the slowest turn and the longest put-off. */
const ACK_WAIT_MS = 60 * 60 * 1_000;
/** A slow agent must not stall its shard; past a few in memory the host keeps sequence numbers only. */
const ACK_PENDING_MAX = 100_000;
const PULL_MESSAGES = 512;
/** Bounds what the server queues for this connection: past 64 MiB it would cut it. */
const PULL_BYTES = 4 * 1024 * 1024;
const PULL_EXPIRES_MS = 30_000;
/** One message a lane that has nothing else to say: 64 lanes cost the broker nothing. */
const HEARTBEAT_MS = 2_000;
/**
 * Two heartbeats and some. When a server of a cluster dies, the lanes whose consumers it led are silent:
 * this is then what their inputs wait for, so it is no longer than the election that happens meanwhile.
 */
const SILENCE_MAX_MS = 5_000;
/** For what hangs on there being nothing to hear: a heartbeat and some. */
const HEARD_MAX_MS = HEARTBEAT_MS + 500;
/** How often silence is looked for: adds to it. */
const LOOK_MS = 500;
/** How long an overtaken or deleted lane waits, so that whoever takes it over is first. */
const STAND_BY_ATTEMPT = 10;
/** Two hosts that take one lane over at once: each try deletes the other's. */
const TAKE_OVERS_MAX = 20;
/** For acks that are on their way to be counted before a stopped lane's consumer is deleted. */
const STOP_DRAIN_MS = 1_000;
const STOP_POLL_MS = 10;
/** How long after an ack it is looked whether the message has gone, and how often. */
const BODY_LOOK_MS = 1_000;
const BODY_LOOKS = 5;
const RECONNECTED = "reconnected";
/** Before the epoch in a consumer's name; no id begins like this. */
const EPOCH_MARK = "epoch";

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
  private consumer = "";
  /** Consumers of ours whose creation was not answered: they may come to be, and would keep us out. */
  private readonly doubtful = new Set<string>();
  private subscription: Subscription | undefined;
  private wanted = 0;
  private heardMs = performance.now();
  private healing: Promise<void> | undefined;
  /** Set while a claim is fetched: deliveries behind it. */
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
      if (performance.now() - this.heardMs > SILENCE_MAX_MS) this.heal("the broker is silent");
    }, LOOK_MS);
  }

  /**
   * Takes the lane from whoever has it. Rejects with `BrokerUnavailable`, `ApiRefusal` or `LaneTaken`. One that is
   * stopped meanwhile ends with the request that is out, and leaves no consumer.
   */
  async takeOver(): Promise<void> {
    for (let attempt = 1; !this.stopping.signal.aborted; attempt++) {
      const names = await this.consumersOfShard();
      if (names.some((name) => this.epochOf(name) > this.epoch))
        throw new LaneTaken({ shard: this.shard });
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

  /** A broker that is silent may keep something from us. */
  get caughtUp(): boolean {
    const isFresh = performance.now() - this.heardMs < HEARD_MAX_MS;
    return this.ledger.pending === 0 && this.waiting === undefined && isFresh;
  }

  async stop(): Promise<void> {
    if (this.stopping.signal.aborted) return;
    this.stopping.abort();
    this.offChange();
    clearInterval(this.watchdog);
    await this.healing;
    if (this.consumer !== "") await this.leave();
  }

  private async leave(): Promise<void> {
    try {
      await this.drainAcks();
      await this.deleteConsumer(this.consumer);
    } catch (error) {
      if (isNotFound(error)) return; // the next owner has deleted it already
      // The next owner deletes the consumer anyway; acks that were not counted are redeliveries.
      this.nats.connection.log("warn", "a lane was left unfinished", {
        shard: this.shard,
        error: String(error),
      });
    } finally {
      this.subscription?.unsubscribe();
    }
  }

  /** Acks are counted by the server in its own time; a consumer deleted before that forgets them.
   *  What still arrives is counted in the ledger, and handed on to nobody. */
  private async drainAcks(): Promise<void> {
    const deadline = performance.now() + STOP_DRAIN_MS;
    while (performance.now() < deadline) {
      const info = await this.nats.api.call<{ num_ack_pending: number }>(
        `CONSUMER.INFO.${this.stream}.${this.consumer}`,
      );
      if (info.num_ack_pending <= this.ledger.unacked) return;
      await new Promise((resolve) => setTimeout(resolve, STOP_POLL_MS));
    }
  }

  private async createConsumer(): Promise<void> {
    const name = `${this.namePrefix}${EPOCH_MARK}${this.epoch}-${randomUUID()}`;
    this.doubtful.add(name);
    const config = {
      name,
      durable_name: name,
      filter_subject: this.nats.subjects.inboxOfShard(this.shard),
      deliver_policy: "all",
      ack_policy: "explicit",
      ack_wait: ACK_WAIT_MS * NANOS_PER_MS,
      max_deliver: -1,
      max_ack_pending: ACK_PENDING_MAX,
      // Its state is nothing to keep (rule 2); on disk it is a file written and renamed for each
      // busy shard ten times a second, a quarter of the broker's work under load.
      mem_storage: true,
    };
    const created = await this.nats.api.call<{ num_pending: number }>(
      `CONSUMER.CREATE.${this.stream}.${name}`,
      { stream_name: this.stream, action: "create", config },
    );
    this.doubtful.clear(); // one that is stored late is refused now that this one is there
    this.consumer = name;
    this.subscription?.unsubscribe();
    const inbox = this.nats.connection.newInbox();
    this.subscription = this.nats.connection.client.subscribe(inbox, {
      callback: (error, message) => {
        if (error === null) this.receive(message, inbox);
        else this.heal(String(error));
      },
    });
    this.ledger.pending = created.num_pending;
    this.heardMs = performance.now();
    this.wanted = 0;
    this.pull(inbox);
  }

  private pull(inbox: string): void {
    if (this.stopping.signal.aborted) return;
    const batch = PULL_MESSAGES - this.wanted;
    this.wanted = PULL_MESSAGES;
    this.nats.connection.client.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${this.stream}.${this.consumer}`,
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
    this.heardMs = performance.now();
    if (message.subject === inbox) return this.receiveStatus(message, inbox);
    this.wanted--;
    const delivery = this.ledger.take(message, this.nats);
    if (delivery !== undefined) this.handOn(delivery);
    if (this.wanted <= PULL_MESSAGES / 2) this.pull(inbox);
  }

  private receiveStatus(message: Msg, inbox: string): void {
    const code = message.headers?.code;
    if (code === 100) return; // a heartbeat
    const left = message.headers?.get("Nats-Pending-Messages") ?? "";
    // This pull is over (expired, complete, full by bytes, leader changed) and says what is left of
    // it. One without that says that the consumer is gone, or that nobody serves it.
    if (left === "") return this.heal(`status ${code}`);
    this.wanted = Math.max(0, this.wanted - Number(left));
    if (this.wanted <= PULL_MESSAGES / 2) this.pull(inbox);
  }

  private handOn(delivery: Delivery): void {
    if (this.stopping.signal.aborted) return;
    if (this.waiting !== undefined) this.waiting.push(delivery);
    else if (readClaimCheck(delivery.data) === undefined) this.give(delivery);
    else {
      this.waiting = [delivery];
      void this.handOnWaiting(this.waiting);
    }
  }

  private async handOnWaiting(queue: Delivery[]): Promise<void> {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const data = await this.fetchClaim(next);
      if (this.stopping.signal.aborted) return;
      this.give({ ...next, data, ack: () => this.ackClaimed(next) });
    }
    this.waiting = undefined;
  }

  /** Rule 6. */
  private ackClaimed({ seq, data, ack }: Delivery): void {
    ack();
    const claim = claimIn(data);
    if (claim !== undefined)
      void this.removeBody(seq, claim.blob).catch((error: unknown) =>
        this.nats.connection.log("warn", "the body of an input that is done could not be removed", {
          blob: claim.blob,
          error: String(error),
        }),
      );
  }

  private async removeBody(seq: number, blob: string): Promise<void> {
    const { signal } = this.stopping;
    for (let look = 0; look < BODY_LOOKS && !signal.aborted; look++) {
      await delay(BODY_LOOK_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return; // it stays, until its agent is erased
      if ((await this.nats.reader.byLeader(this.stream, { seq })) !== undefined) continue;
      return this.blobs.remove(blob);
    }
  }

  private async fetchClaim(delivery: Delivery): Promise<Uint8Array> {
    for (let attempt = 0; !this.stopping.signal.aborted; attempt++) {
      try {
        return await resolveClaimCheck(this.blobs, delivery.data);
      } catch (error) {
        // The host finds no envelope in a claim's frame and puts the input aside as corrupt.
        if (error instanceof CorruptFrame) break;
        await retryPause(this.nats.connection, attempt, this.stopping.signal);
      }
    }
    return delivery.data;
  }

  private give(delivery: Delivery): void {
    try {
      this.handler(delivery);
    } catch (error) {
      // A throw here would end the client's reading loop without a word: make it fatal instead.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  private heal(why: string): void {
    // Before its first consumer there is nothing to heal: `takeOver` succeeds, or its caller tries again.
    const taken = this.consumer !== "";
    if (!taken || this.stopping.signal.aborted || this.healing !== undefined) return;
    const level = why === RECONNECTED ? "info" : "warn";
    this.nats.connection.log(level, "a lane begins again", { shard: this.shard, why });
    this.healing = this.beginAgain(why === RECONNECTED ? 0 : STAND_BY_ATTEMPT).finally(() => {
      this.healing = undefined;
    });
  }

  private async beginAgain(firstAttempt: number): Promise<void> {
    const { signal } = this.stopping;
    for (let attempt = firstAttempt; !signal.aborted; attempt++) {
      await retryPause(this.nats.connection, attempt, signal);
      try {
        for (const name of [this.consumer, ...this.doubtful]) await this.deleteConsumer(name);
        return await this.createConsumer();
      } catch (error) {
        if (!isNotUnique(error)) continue;
        attempt = STAND_BY_ATTEMPT; // another host has the lane now
        await this.deleteEarlier().catch(() => undefined); // tried again
      }
    }
  }

  /** Consumers of owners before us: one that came late, and maybe died before it could give way. */
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
