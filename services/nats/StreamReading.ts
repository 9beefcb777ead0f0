/**
 * One reading of a subject's stored messages by direct gets, from a sequence on, until the replica that answers has no
 * more. Used by `StreamReader`, which lets the leader have the last word.
 *
 * 1. What has come can be taken while the rest of its batch is under way: who replays works while the server reads.
 * 2. The next batch is asked for when one has ended, unless `BATCH_BYTES` wait to be taken: so two batches are in memory
 *    at most, and less than a server lets a connection fall behind.
 * 3. A message that was lost on the way ends its batch: what came before it is good, the rest is asked for again.
 */
import type { Msg } from "@nats-io/nats-core";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { HeaderText } from "./HeaderText.ts";
import { isNoResponders, plain, type Lost, type ReplyInbox } from "./ReplyInbox.ts";

/** A server reads on while a batch lasts, and stands still from its end until the next one is asked for. */
const BATCH_MESSAGES = 10_000;
/** Two such are a small part of what a host has, and of the 64 MiB that a server keeps for one connection. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** From one message of a batch to the next. */
const BATCH_STALL_MS = 5_000;
const encoder = new TextEncoder();

export interface StoredMessage {
  readonly subject: string;
  readonly seq: Sequence;
  readonly storedMs: number;
  readonly data: Uint8Array;
  /** Value of a header, undefined when it has none of that name. */
  readonly header: (name: string) => string | undefined;
}

export interface StreamRange {
  readonly fromSeq: number;
  readonly toSeq?: number;
}

export class StreamReading {
  /** Where it goes on: after the last message that came. */
  next: number;
  private readonly replies: ReplyInbox;
  private readonly stream: string;
  private readonly subject: string;
  private readonly toSeq: number;
  private queue: StoredMessage[] = [];
  private queuedBytes = 0;
  /** Sequence of the last message of the batch that is under way; 0: none of it has come. */
  private cursor = 0;
  /** Forgets the request that is out; undefined: none is. */
  private forget: (() => void) | undefined;
  private ended = false;
  private failed: BrokerUnavailable | undefined;
  private wake: (() => void) | undefined;

  constructor(replies: ReplyInbox, stream: string, subject: string, range: StreamRange) {
    this.replies = replies;
    this.stream = stream;
    this.subject = subject;
    this.next = range.fromSeq;
    this.toSeq = range.toSeq ?? Number.MAX_SAFE_INTEGER;
    this.ask();
  }

  /** Those that have come since, at least one; none: there are no more here. Rejects with `BrokerUnavailable`. */
  async take(): Promise<readonly StoredMessage[]> {
    for (;;) {
      if (this.queue.length > 0) {
        const taken = this.queue;
        this.queue = [];
        this.queuedBytes = 0;
        this.ask();
        return taken;
      }
      if (this.failed !== undefined) throw this.failed;
      if (this.ended) return this.queue;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  /** Nobody takes more. */
  cancel(): void {
    this.ended = true;
    this.forget?.();
  }

  /** Rule 2. */
  private ask(): void {
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
        lost: (why) => {
          isOver = true;
          this.lost(why);
        },
      },
      { timeoutMs: BATCH_STALL_MS },
    );
    if (!isOver) this.forget = forget;
  }

  /** Says whether it is the batch's last. */
  private receive(message: Msg): boolean {
    const headers = HeaderText.of(message);
    const code = headers?.code ?? 0;
    if (headers !== undefined && code === 0) {
      const before = Number(headers.get("Nats-Last-Sequence") ?? 0);
      // Rule 3.
      if (before !== this.cursor && this.cursor !== 0) return this.endBatch(true);
      this.add(new DirectMessage(message, headers));
      return false;
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
    this.told();
  }

  private lost(why: Lost): void {
    if (this.cursor === 0) this.fail(why);
    else this.endBatch(true);
  }

  private endBatch(isMore: boolean): true {
    this.forget = undefined;
    if (!isMore) this.ended = true;
    this.ask();
    this.told();
    return true;
  }

  private fail(why: string): true {
    this.forget = undefined;
    this.failed = new BrokerUnavailable({ message: `direct get of ${this.stream}: ${why}` });
    this.told();
    return true;
  }

  private told(): void {
    const { wake } = this;
    this.wake = undefined;
    wake?.();
  }
}

/** A direct get's answer. Its subject and time are read when somebody asks: replay asks for neither. */
export class DirectMessage implements StoredMessage {
  readonly seq: Sequence;
  readonly data: Uint8Array;
  private readonly headers: HeaderText;

  constructor(message: Msg, headers: HeaderText) {
    this.headers = headers;
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
