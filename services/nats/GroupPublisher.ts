/**
 * Group commit, for a server that fsyncs each message before its ack (`sync_interval: always`): what
 * many agents store at the same time goes as one atomic batch, and the server fsyncs a batch once. Each message
 * keeps its subject and its own expected sequence. Where the server does not sync always this would
 * be slower (a batch costs it about 3 ms), so it is off until `GroupCommit` says otherwise.
 *
 * 1. At most one batch is under way; what is given meanwhile is the next one. So a batch is as large as
 *    the load makes it, and nothing waits for others on purpose.
 * 2. Few go message by message, without a wait for each other: cheaper than a batch. When more come than go so, those
 *    under way end first, and the rest is a batch. Several streams (`--stream-groups`) fsync side by side, so a batch
 *    has to be worth as many times more.
 * 3. A batch is stored whole or not at all. A refused one is sent again message by message: that
 *    finds the one that is in conflict, and stores the others.
 * 4. A batch whose ack is lost is `Ambiguous` for each of its messages, as a single publish would be.
 */
import { randomUUID } from "node:crypto";
import type { Sequence } from "../../schemas/Address.ts";
import {
  expectLast,
  type AckPublisher,
  type PublishOptions,
  type PublishOutcome,
} from "./AckPublisher.ts";
import { headers } from "./ReplyInbox.ts";

/** Below it single messages are faster: a batch takes the server about as long as eight fsyncs. Of one stream. */
const BATCH_MIN = 8;
/** The server's own limit of a batch, by default. */
const BATCH_MAX = 1_000;
/** Bounds what one batch makes the server stage. */
const BATCH_BYTES_MAX = 8 * 1024 * 1024;

interface Waiting {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly expectedSeq: Sequence | undefined;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (outcome: PublishOutcome) => void;
}

const GIVEN_UP: PublishOutcome = { _tag: "NotSent", message: "given up before it was sent" };

/** Stores messages of one stream, each with its own outcome. */
export interface StreamPublisher {
  readonly publish: (
    subject: string,
    data: Uint8Array,
    options?: Omit<PublishOptions, "headers">,
  ) => Promise<PublishOutcome>;
  readonly publishAfter: AckPublisher["publishAfter"];
}

/** Whether a process stores in groups; set when it is known how the server syncs. */
export interface GroupCommit {
  on: boolean;
}

export class GroupPublisher implements StreamPublisher {
  private readonly publisher: AckPublisher;
  private readonly groupCommit: GroupCommit;
  private readonly batchMin: number;
  private waiting: Waiting[] = [];
  /** Messages under way by themselves. */
  private singles = 0;
  private batchUnderWay = false;
  private woken = false;

  /** `streams`: how many the server has beside each other, this one included. */
  constructor(publisher: AckPublisher, groupCommit: GroupCommit, streams = 1) {
    this.publisher = publisher;
    this.groupCommit = groupCommit;
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
      if (this.woken) return;
      this.woken = true;
      // What this pass of the event loop still brings is of the same group.
      setImmediate(() => {
        this.woken = false;
        this.send();
      });
    });
  }

  /** Rules 1 and 2; called when something came, or ended. */
  private send(): void {
    if (this.batchUnderWay || this.waiting.length === 0) return;
    if (this.waiting.length < this.batchMin) {
      while (this.singles < this.batchMin && this.waiting.length > 0)
        void this.sendAlone(this.waiting.shift()!).then(() => this.send());
    } else if (this.singles === 0) void this.sendGroup(this.takeGroup());
  }

  private async sendGroup(group: readonly Waiting[]): Promise<void> {
    this.batchUnderWay = true;
    const isBatch = group.length >= this.batchMin && (await this.batch(group));
    if (!isBatch) await Promise.all(group.map((item) => this.sendAlone(item)));
    this.batchUnderWay = false;
    this.send();
  }

  /** Messages for one batch. A subject comes once: a batch can't expect what it has itself stored. */
  private takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    const later: Waiting[] = [];
    const subjects = new Set<string>();
    let bytes = 0;
    for (const item of this.waiting) {
      if (item.signal?.aborted === true) {
        item.resolve(GIVEN_UP);
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

  /** False: refused, and nothing of it is stored. Else every message has its outcome. */
  private async batch(group: readonly Waiting[]): Promise<boolean> {
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
    if (signal?.aborted === true) return resolve(GIVEN_UP);
    const options = signal === undefined ? {} : { signal };
    this.singles++;
    const outcome = await (expectedSeq === undefined
      ? this.publisher.publish(subject, data, options)
      : this.publisher.publishAfter(expectedSeq, subject, data, signal));
    this.singles--;
    resolve(outcome);
  }
}

/** The server's headers of atomic batches (ADR-50). */
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
