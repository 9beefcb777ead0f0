/**
 * Group commit, for a server that fsyncs each message before its ack (`sync_interval: always`).
 * Messages that many agents store at the same time are sent as one atomic batch, which the server
 * fsyncs once. Each message keeps its subject and its own expected sequence. On a server that does
 * not fsync each message this would be slower (a batch takes about 3 ms), so it is off until
 * `GroupCommit` turns it on.
 *
 * 1. At most one batch is in flight. Messages that arrive meanwhile form the next one. The load
 *    therefore sets the size of a batch, and no message waits for others on purpose.
 * 2. A few messages are sent singly and concurrently, which is cheaper than a batch. When more
 *    arrive, the singles in flight end first and the rest becomes a batch. Several streams
 *    (`--stream-groups`) fsync in parallel, so the minimum size of a batch is multiplied by their
 *    number.
 * 3. A batch is stored whole or not at all. The messages of a refused batch are sent again singly,
 *    which finds the one in conflict and stores the others.
 * 4. A batch whose ack is lost is `Ambiguous` for each of its messages, as a single publish would
 *    be.
 */
import { randomUUID } from "node:crypto";
import type { Sequence } from "../../../schemas/Address.ts";
import {
  expectLast,
  type AckPublisher,
  type PublishOptions,
  type PublishOutcome,
} from "./AckPublisher.ts";
import { headers } from "./ReplyInbox.ts";

/** For one stream. A batch costs the server about eight fsyncs: fewer singles are faster. */
const BATCH_MIN = 8;
/** The server's default limit of messages in a batch. */
const BATCH_MAX = 1_000;
/** Bounds the bytes that the server stages for a batch. */
const BATCH_BYTES_MAX = 8 * 1024 * 1024;

interface Waiting {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly expectedSeq: Sequence | undefined;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (outcome: PublishOutcome) => void;
}

const ABORTED: PublishOutcome = { _tag: "NotSent", message: "aborted before it was sent" };

/** What sends single messages and batches. */
export type BatchPublisher = Pick<AckPublisher, "fits" | "send" | "publish" | "publishAfter">;

/** Publishes messages of one stream, each with its own outcome. As `AckPublisher`. */
export interface StreamPublisher {
  readonly publish: (
    subject: string,
    data: Uint8Array,
    options?: Omit<PublishOptions, "headers">,
  ) => Promise<PublishOutcome>;
  readonly publishAfter: AckPublisher["publishAfter"];
}

/** Whether a process commits in groups. Set once the server's sync setting is known. */
export interface GroupCommit {
  on: boolean;
}

export class GroupPublisher implements StreamPublisher {
  private readonly batchMin: number;
  private waiting: Waiting[] = [];
  /** Single messages in flight. */
  private singles = 0;
  private batchInFlight = false;
  private scheduled = false;

  /** `streams`: the streams that the server fsyncs in parallel, this one included. */
  constructor(
    private readonly publisher: BatchPublisher,
    private readonly groupCommit: GroupCommit,
    streams = 1,
  ) {
    this.batchMin = Math.min(BATCH_MIN * streams, BATCH_MAX);
  }

  publish(
    subject: string,
    data: Uint8Array,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<PublishOutcome> {
    if (!this.groupCommit.on) return this.publisher.publish(subject, data, options);
    return this.join(subject, data, undefined, options.signal);
  }

  publishAfter(
    expectedSeq: Sequence,
    subject: string,
    data: Uint8Array,
    signal?: AbortSignal,
  ): Promise<PublishOutcome> {
    if (!this.groupCommit.on)
      return this.publisher.publishAfter(expectedSeq, subject, data, signal);
    return this.join(subject, data, expectedSeq, signal);
  }

  private join(
    subject: string,
    data: Uint8Array,
    expectedSeq: Sequence | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PublishOutcome> {
    return new Promise((resolve) => {
      this.waiting.push({ subject, data, expectedSeq, signal, resolve });
      if (this.scheduled) return;
      this.scheduled = true;
      // Messages of the same pass of the event loop join the same group.
      setImmediate(() => {
        this.scheduled = false;
        this.send();
      });
    });
  }

  /** Rules 1 and 2. Called when a message arrives, and when a send ends. */
  private send(): void {
    if (this.batchInFlight || this.waiting.length === 0) return;
    if (this.waiting.length < this.batchMin) {
      while (this.singles < this.batchMin && this.waiting.length > 0)
        void this.sendAlone(this.waiting.shift()!).then(() => this.send());
    } else if (this.singles === 0) void this.sendGroup(this.takeGroup());
  }

  private async sendGroup(group: readonly Waiting[]): Promise<void> {
    this.batchInFlight = true;
    const isBatch = group.length >= this.batchMin && (await this.batch(group));
    if (!isBatch) await Promise.all(group.map((item) => this.sendAlone(item)));
    this.batchInFlight = false;
    this.send();
  }

  /**
   * Takes the messages of the next batch. It contains a subject with an expected sequence only
   * once, because a batch cannot expect a message that it stores itself.
   */
  private takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    const later: Waiting[] = [];
    const subjects = new Set<string>();
    let bytes = 0;
    for (const item of this.waiting) {
      if (item.signal?.aborted === true) {
        item.resolve(ABORTED);
        continue;
      }
      const again = item.expectedSeq !== undefined && subjects.has(item.subject);
      const full =
        group.length === BATCH_MAX || (bytes > 0 && bytes + item.data.length > BATCH_BYTES_MAX);
      if (again || full) later.push(item);
      else {
        group.push(item);
        subjects.add(item.subject);
        bytes += item.data.length;
      }
    }
    this.waiting = later;
    return group;
  }

  /**
   * Returns false for a refused batch, and for one with a message past the server's limit. Nothing
   * of it is stored. Otherwise resolves every message.
   */
  private async batch(group: readonly Waiting[]): Promise<boolean> {
    if (!group.every(({ data }) => this.publisher.fits(data))) return false;
    const id = randomUUID();
    const last = group.length - 1;
    for (const [i, item] of group.entries()) {
      if (i === last) break;
      this.publisher.send(item.subject, item.data, batchHeaders(id, i, item, false));
    }
    const item = group[last]!;
    const block = batchHeaders(id, last, item, true);
    const outcome = await this.publisher.publish(item.subject, item.data, { headers: block });
    if (outcome._tag === "Refused") return false;
    for (const [i, { resolve }] of group.entries())
      resolve(
        outcome._tag === "Stored"
          ? { _tag: "Stored", seq: (outcome.seq - last + i) as Sequence }
          : outcome,
      );
    return true;
  }

  private async sendAlone({ resolve, ...item }: Waiting): Promise<void> {
    const { subject, data, expectedSeq, signal } = item;
    if (signal?.aborted === true) return resolve(ABORTED);
    const options = signal === undefined ? {} : { signal };
    this.singles++;
    const outcome = await (expectedSeq === undefined
      ? this.publisher.publish(subject, data, options)
      : this.publisher.publishAfter(expectedSeq, subject, data, signal));
    this.singles--;
    resolve(outcome);
  }
}

/** The headers of atomic batches (NATS ADR-50). */
const batchHeaders = (
  id: string,
  index: number,
  { expectedSeq }: Waiting,
  commit: boolean,
): Uint8Array =>
  headers(
    ["Nats-Batch-Id", id],
    ["Nats-Batch-Sequence", String(index + 1)],
    ...(expectedSeq === undefined ? [] : [expectLast(expectedSeq)]),
    ...(commit ? [["Nats-Batch-Commit", "1"] as const] : []),
  );
