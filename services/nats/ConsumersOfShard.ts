/**
 * The JetStream consumers on one shard's inbox: creates this owner's, and deletes those of other
 * owners. A consumer's name contains its shard and its owner's epoch. Used by `ShardConsumer`.
 *
 * 1. An owner gives way to a consumer of a later epoch, and deletes those of earlier ones.
 * 2. A creation without an answer (during an election) may still happen. Its name is kept and
 *    deleted before the next attempt, or this consumer would pass for another host's for ever.
 */
import { randomUUID } from "node:crypto";
import { ConsumerTaken } from "../../core/inbox/Inbox.ts";
import type { Epoch, ShardId } from "../../schemas/Address.ts";
import { ApiCode, ApiRefusal } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

/**
 * Nothing waits for it, because take-over and healing redeliver at once. It only frees what a bug
 * might leave unacked for ever, and is longer than the slowest turn and the longest nak delay.
 */
const ACK_WAIT_MS = 60 * 60 * 1_000;
/** A slow agent must not stall its shard. Past a few inputs the host keeps only their sequences. */
const ACK_PENDING_MAX = 100_000;
/** Precedes the epoch in a consumer's name. No UUID begins like this. */
const EPOCH_MARK = "epoch";

export class ConsumersOfShard {
  readonly stream: string;
  private readonly shard: ShardId;
  private readonly epoch: Epoch;
  private readonly namePrefix: string;
  /** Rule 2. */
  private readonly unconfirmed = new Set<string>();

  constructor(
    private readonly nats: Pick<NatsShape, "api" | "subjects">,
    { shard, epoch }: { readonly shard: ShardId; readonly epoch: Epoch },
  ) {
    this.shard = shard;
    this.epoch = epoch;
    this.stream = nats.subjects.streamOf("inbox", nats.subjects.groupOfShard(shard));
    this.namePrefix = `shard-${shard}-`;
  }

  /** Rejects with an `ApiRefusal` while the shard has another consumer (`isNotUnique`). */
  async create(): Promise<{ readonly name: string; readonly pending: number }> {
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
      // Its state is expendable: a new consumer delivers all unacked messages. On disk it would be
      // a file that is written and renamed ten times a second for each busy shard: a quarter of the
      // broker's work under load.
      mem_storage: true,
    };
    const { num_pending: pending } = await this.nats.api.call<{ num_pending: number }>(
      `CONSUMER.CREATE.${this.stream}.${name}`,
      { stream_name: this.stream, action: "create", config },
    );
    this.unconfirmed.clear(); // a late creation is refused now that this consumer exists
    return { name, pending };
  }

  /** Deletes the others before a take-over. Rejects with `ConsumerTaken` for a later epoch. */
  async deleteOthers(): Promise<void> {
    const names = await this.names();
    if (names.some((name) => this.epochOf(name) > this.epoch))
      throw new ConsumerTaken({ shard: this.shard });
    for (const name of names) await this.delete(name);
  }

  /** Deletes this owner's consumer, before it creates another. */
  async deleteOwn(name: string): Promise<void> {
    for (const each of [name, ...this.unconfirmed]) await this.delete(each);
  }

  /** Deletes consumers of earlier epochs: a late owner may have died before it gave way. */
  async deleteEarlier(): Promise<void> {
    for (const name of await this.names())
      if (this.epochOf(name) < this.epoch) await this.delete(name);
  }

  async delete(name: string): Promise<void> {
    try {
      await this.nats.api.call(`CONSUMER.DELETE.${this.stream}.${name}`);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** How many messages the server has delivered and not counted as acked. */
  async unacked(name: string): Promise<number> {
    const info = await this.nats.api.call<{ num_ack_pending: number }>(
      `CONSUMER.INFO.${this.stream}.${name}`,
    );
    return info.num_ack_pending;
  }

  private async names(): Promise<readonly string[]> {
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

  /** 0 for a name without one. */
  private epochOf(name: string): number {
    const rest = name.slice(this.namePrefix.length);
    return rest.startsWith(EPOCH_MARK) ? Number.parseInt(rest.slice(EPOCH_MARK.length), 10) : 0;
  }
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof ApiRefusal && error.code === ApiCode.consumerNotFound;

export const isNotUnique = (error: unknown): boolean =>
  error instanceof ApiRefusal && error.code === ApiCode.consumerNotUnique;
