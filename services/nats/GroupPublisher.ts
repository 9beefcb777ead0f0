/**
 * Group commit, for a server that fsyncs each message before its ack (`sync_interval: always`): what
 * many agents store at the same time goes as one atomic batch, and the server fsyncs a batch once. Each message
 * keeps its subject and its own expected sequence. Where the server does not sync always this would
 * be slower (a batch costs it about 3 ms), so it is off until `GroupCommit` says otherwise.
 *
 * 1. At most one group is under way; what is given meanwhile is the next group. So a group is as large as
 *    the load makes it, and nothing waits for others on purpose.
 * 2. A group of few goes message by message: cheaper than a batch.
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

/** Below it single messages are faster: a batch takes the server about as long as eight fsyncs. */
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
  private waiting: Waiting[] = [];
  private busy = false;

  constructor(publisher: AckPublisher, groupCommit: GroupCommit) {
    this.publisher = publisher;
    this.groupCommit = groupCommit;
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
      if (this.busy) return;
      this.busy = true;
      // What this pass of the event loop still brings is of the same group.
      setImmediate(() => void this.work());
    });
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0) {
      const group = this.takeGroup();
      const seqs = group.length < BATCH_MIN ? undefined : await this.batch(group);
      if (seqs === undefined) await Promise.all(group.map((item) => this.single(item)));
    }
    this.busy = false;
  }

  /** Messages for one batch. A subject comes once: a batch can't expect what it has itself stored. */
  private takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    const later: Waiting[] = [];
    const subjects = new Set<string>();
    let bytes = 0;
    for (const item of this.waiting) {
      if (item.signal?.aborted === true) {
        item.resolve({ _tag: "NotSent", message: "given up before it was sent" });
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

  /** Undefined: refused, and nothing of it is stored. Else every message has its outcome. */
  private async batch(group: readonly Waiting[]): Promise<true | undefined> {
    const id = randomUUID();
    const last = group.length - 1;
    for (const [i, item] of group.entries()) {
      if (i === last) break;
      this.publisher.send(item.subject, item.data, batchHeaders(id, i, item, false));
    }
    const item = group[last]!;
    const block = batchHeaders(id, last, item, true);
    const outcome = await this.publisher.publish(item.subject, item.data, { headers: block });
    if (outcome._tag === "Refused") return undefined;
    for (const [i, { resolve }] of group.entries())
      resolve(
        outcome._tag === "Stored"
          ? { _tag: "Stored", seq: (outcome.seq - last + i) as Sequence }
          : outcome,
      );
    return true;
  }

  private async single(item: Waiting): Promise<void> {
    const { subject, data, expectedSeq, signal } = item;
    item.resolve(
      await (expectedSeq === undefined
        ? this.publisher.publish(subject, data, signal === undefined ? {} : { signal })
        : this.publisher.publishAfter(expectedSeq, subject, data, signal)),
    );
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
