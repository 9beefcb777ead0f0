/**
 * Reads the stored messages of a subject by batched direct gets, from a sequence on, until the
 * replica has no more. Used by `StreamReader`, which asks the leader for the end.
 *
 * 1. Messages can be taken while the rest of their batch is in flight, so a replay works while the
 *    server reads.
 * 2. The next batch is requested when one has ended, unless `BATCH_BYTES` wait to be taken. At most
 *    two batches are therefore in memory, less than a server lets a connection fall behind.
 * 3. A lost message ends its batch. The messages before it are kept; the rest is requested again.
 */
import type { Msg } from "@nats-io/nats-core";
import { BrokerUnavailable, NotPermitted } from "../../../core/bus/Bus.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import { HeaderText } from "./HeaderText.ts";
import { isNoResponders, notPermitted, plain, type Lost, type ReplyInbox } from "./ReplyInbox.ts";

/** Large, because the server idles from the end of a batch until it receives the next request. */
const BATCH_MESSAGES = 10_000;
/** Two batches are little of a host's memory, and of a server's 64 MiB per connection. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** The longest wait from one message of a batch to the next. */
const BATCH_STALL_MS = 5_000;
const encoder = new TextEncoder();

export interface StoredMessage {
  readonly subject: string;
  readonly seq: Sequence;
  readonly storedMs: number;
  readonly data: Uint8Array;
  /** The value of a header; undefined when there is none with that name. */
  readonly header: (name: string) => string | undefined;
}

/** Sequences, both inclusive. */
export interface StreamRange {
  readonly fromSeq: number;
  /** Default: no limit. */
  readonly toSeq?: number;
}

export class StreamReading {
  /** The sequence after the last message that arrived. */
  next: number;
  private readonly toSeq: number;
  private queue: StoredMessage[] = [];
  private queuedBytes = 0;
  /** The sequence of the last message that arrived of the current batch; 0 before the first. */
  private cursor = 0;
  /** Cancels the request in flight; undefined without one. */
  private forget: (() => void) | undefined;
  private ended = false;
  private failed: BrokerUnavailable | undefined;
  private wake: (() => void) | undefined;

  constructor(
    private readonly replies: ReplyInbox,
    private readonly stream: string,
    private readonly subject: string,
    range: StreamRange,
  ) {
    this.next = range.fromSeq;
    this.toSeq = range.toSeq ?? Number.MAX_SAFE_INTEGER;
    this.requestBatch();
  }

  /**
   * Waits for messages that were not taken yet, and returns them. An empty array means that the
   * replica has no more. Rejects with `BrokerUnavailable`.
   */
  async take(): Promise<readonly StoredMessage[]> {
    for (;;) {
      if (this.queue.length > 0) {
        const taken = this.queue;
        this.queue = [];
        this.queuedBytes = 0;
        this.requestBatch();
        return taken;
      }
      if (this.failed !== undefined) throw this.failed;
      if (this.ended) return this.queue;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  /** Ends the reading. */
  cancel(): void {
    this.ended = true;
    this.forget?.();
  }

  /** Rule 2. */
  private requestBatch(): void {
    if (this.next > this.toSeq) this.ended = true;
    if (this.ended || this.failed !== undefined || this.forget !== undefined) return;
    if (this.queuedBytes >= BATCH_BYTES) return;
    this.cursor = 0;
    const query = {
      seq: this.next,
      next_by_subj: this.subject,
      batch: Math.min(BATCH_MESSAGES, this.toSeq - this.next + 1),
      max_bytes: BATCH_BYTES,
    };
    let isOver = false;
    const forget = this.replies.send(
      `$JS.API.DIRECT.GET.${this.stream}`,
      encoder.encode(JSON.stringify(query)),
      {
        reply: (message) => this.receive(message),
        lost: (why, denied) => {
          isOver = true;
          this.lost(why, denied);
        },
      },
      { timeoutMs: BATCH_STALL_MS },
    );
    if (!isOver) this.forget = forget;
  }

  /** Returns whether this reply ends the batch. */
  private receive(message: Msg): boolean {
    const headers = HeaderText.of(message);
    const code = headers?.code ?? 0;
    if (headers !== undefined && code === 0) {
      const before = Number(headers.get("Nats-Last-Sequence") ?? 0);
      // Rule 3.
      if (before !== this.cursor && this.cursor !== 0) return this.endBatch(true);
      this.add(new DirectMessage(message, headers));
      // The rest of the batch is past the range.
      return this.cursor < this.toSeq ? false : this.endBatch(false);
    }
    if (isNoResponders(message) || (code !== 204 && code !== 404))
      return this.fail(`status ${code}`);
    const left = Number(headers?.get("Nats-Num-Pending") ?? 0);
    return this.endBatch(code === 204 && left > 0);
  }

  private add(message: StoredMessage): void {
    this.cursor = message.seq;
    this.next = message.seq + 1;
    if (message.seq > this.toSeq) return;
    this.queue.push(message);
    this.queuedBytes += message.data.length;
    this.wakeTaker();
  }

  private lost(why: Lost, denied?: string): void {
    if (denied !== undefined) this.end(new NotPermitted({ message: notPermitted(denied) }));
    else if (this.cursor === 0) this.fail(why);
    else this.endBatch(true);
  }

  private endBatch(isMore: boolean): true {
    this.forget = undefined;
    if (!isMore) this.ended = true;
    this.requestBatch();
    this.wakeTaker();
    return true;
  }

  private fail(why: string): true {
    return this.end(new BrokerUnavailable({ message: `direct get of ${this.stream}: ${why}` }));
  }

  private end(error: BrokerUnavailable): true {
    this.forget = undefined;
    this.failed = error;
    this.wakeTaker();
    return true;
  }

  private wakeTaker(): void {
    const { wake } = this;
    this.wake = undefined;
    wake?.();
  }
}

/** A reply to a direct get. Subject and time are parsed on demand: replay needs neither. */
export class DirectMessage implements StoredMessage {
  readonly seq: Sequence;
  readonly data: Uint8Array;

  constructor(
    message: Msg,
    private readonly headers: HeaderText,
  ) {
    this.seq = Number(headers.get("Nats-Sequence")) as Sequence;
    this.data = plain(message.data);
  }

  get subject(): string {
    return this.headers.get("Nats-Subject") ?? "";
  }
  get storedMs(): number {
    return Date.parse(this.headers.get("Nats-Time-Stamp") ?? "");
  }
  header(name: string): string | undefined {
    return this.headers.get(name);
  }
}
