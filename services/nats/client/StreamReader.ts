/**
 * Reads stored messages without a consumer, in two ways:
 *
 * - `byLeader` asks the stream's leader, which has the newest state. It is used where a message's
 *   absence matters: a replica that lags answers a direct get with "no such message".
 * - `direct` and the batches of `messages` may be served by any replica. They are fast, and a
 *   replica's messages are a prefix of the stream. A message that it lacks may still be stored.
 *
 * `messages` therefore reads in batches and asks the leader for the end. Processes at the edge may
 * not use direct gets (`leaderOnly`). The reply to a direct get is the stored bytes, published to a
 * subject that the requester chooses, so a user who may store bytes could publish them into a
 * journal. The leader's replies are JSON.
 */
import type { Sequence } from "../../../schemas/Address.ts";
import { BrokerUnavailable, NotPermitted } from "../../../core/bus/Bus.ts";
import { ApiCode, ApiRefusal, type JetStreamApi } from "./JetStreamApi.ts";
import { HeaderText } from "./HeaderText.ts";
import { notPermitted, plain, type ReplyInbox } from "./ReplyInbox.ts";
import {
  DirectMessage,
  StreamReading,
  type StoredMessage,
  type StreamRange,
} from "./StreamReading.ts";

type MessageQuery =
  | { readonly seq: number }
  | { readonly last_by_subj: string }
  /** The first message of the subject at or after `seq`. */
  | { readonly seq: number; readonly next_by_subj: string };

/** Of one request for last messages. The server's limit is 1,024. */
const LASTS_MAX = 256;
/** A part of the 64 MiB that a server keeps per connection. The rest is asked for singly. */
const LASTS_BYTES_MAX = 16 * 1024 * 1024;
/** The longest wait from one of them to the next. */
const LASTS_STALL_MS = 5_000;
const encoder = new TextEncoder();

/** Used by `NatsJournal`, `NatsInbox`, `NatsLeases`, `NatsSnapshots` and `NatsBlobs`. */
export class StreamReader {
  private readonly leaderOnly: boolean;

  constructor(
    private readonly replies: ReplyInbox,
    private readonly api: JetStreamApi,
    { leaderOnly = false } = {},
  ) {
    this.leaderOnly = leaderOnly;
  }

  /** Undefined: there is no such message. Rejects with `BrokerUnavailable` or `ApiRefusal`. */
  async byLeader(stream: string, query: MessageQuery): Promise<StoredMessage | undefined> {
    try {
      const { message } = await this.api.call<{ message: LeaderMessage }>(
        `STREAM.MSG.GET.${stream}`,
        query,
      );
      return readLeaderMessage(message);
    } catch (error) {
      if (error instanceof ApiRefusal && error.code === ApiCode.noMessageFound) return undefined;
      throw error;
    }
  }

  /** Returns undefined when this replica has no such message. Rejects with `BrokerUnavailable`. */
  async direct(stream: string, query: MessageQuery): Promise<StoredMessage | undefined> {
    if (this.leaderOnly) return this.byLeader(stream, query);
    const message = await this.api.request(
      `$JS.API.DIRECT.GET.${stream}`,
      encoder.encode(JSON.stringify(query)),
    );
    const headers = HeaderText.of(message);
    if (headers === undefined || headers.code === 404) return undefined;
    if (headers.code !== 0)
      throw new BrokerUnavailable({ message: `direct get: status ${headers.code}` });
    return new DirectMessage(message, headers);
  }

  /**
   * The last message of each of these subjects (no wildcards), by subject. The leader is asked for
   * those that this replica lacks. Rejects with `BrokerUnavailable` or `ApiRefusal`.
   */
  async lastOfEach(
    stream: string,
    subjects: readonly string[],
  ): Promise<ReadonlyMap<string, StoredMessage>> {
    const found = new Map<string, StoredMessage>();
    if (!this.leaderOnly)
      for (let i = 0; i < subjects.length; i += LASTS_MAX)
        await this.readLasts(stream, subjects.slice(i, i + LASTS_MAX), found);
    const missing = subjects.filter((subject) => !found.has(subject));
    await Promise.all(
      missing.map(async (subject) => {
        const last = await this.byLeader(stream, { last_by_subj: subject });
        if (last !== undefined) found.set(subject, last);
      }),
    );
    return found;
  }

  /** Adds what the replica has to `found`. Rejects with `BrokerUnavailable`. */
  private readLasts(
    stream: string,
    subjects: readonly string[],
    found: Map<string, StoredMessage>,
  ): Promise<void> {
    const query = { multi_last: subjects, batch: subjects.length, max_bytes: LASTS_BYTES_MAX };
    return new Promise((resolve, reject) => {
      this.replies.send(
        `$JS.API.DIRECT.GET.${stream}`,
        encoder.encode(JSON.stringify(query)),
        {
          reply: (message) => {
            const headers = HeaderText.of(message);
            // A status ends the batch.
            if (headers === undefined || headers.code !== 0) return (resolve(), true);
            const last = new DirectMessage(message, headers);
            found.set(last.subject, last);
            return false;
          },
          lost: (why, denied) =>
            reject(
              why === "denied"
                ? new NotPermitted({ message: notPermitted(denied!) })
                : new BrokerUnavailable({ message: `no answer to a direct get (${why})` }),
            ),
        },
        { timeoutMs: LASTS_STALL_MS },
      );
    });
  }

  /**
   * Messages of a subject (wildcards allowed) in stored order, up to `range.toSeq` or the end as
   * the leader reports it. Rejects with `BrokerUnavailable` or `ApiRefusal`.
   */
  async *messages(
    stream: string,
    subject: string,
    range: StreamRange,
  ): AsyncGenerator<StoredMessage, void, void> {
    for await (const batch of this.batches(stream, subject, range))
      for (const message of batch) yield message;
  }

  /** As `messages`, in groups that arrived together. No group is empty. */
  async *batches(
    stream: string,
    subject: string,
    range: StreamRange,
  ): AsyncGenerator<readonly StoredMessage[], void, void> {
    const toSeq = range.toSeq ?? Number.MAX_SAFE_INTEGER;
    let fromSeq = Math.max(1, range.fromSeq);
    while (fromSeq <= toSeq) {
      if (this.leaderOnly) {
        const next = await this.byLeader(stream, { seq: fromSeq, next_by_subj: subject });
        if (next === undefined || next.seq > toSeq) return;
        yield [next];
        fromSeq = next.seq + 1;
        continue;
      }
      const reading = new StreamReading(this.replies, stream, subject, { fromSeq, toSeq });
      try {
        for (;;) {
          const batch = await reading.take();
          if (batch.length === 0) break;
          yield batch;
        }
      } finally {
        reading.cancel();
      }
      if (reading.next > toSeq) return;
      const end = await this.byLeader(stream, { seq: reading.next, next_by_subj: subject });
      if (end === undefined || end.seq > toSeq) return;
      yield [end];
      fromSeq = end.seq + 1;
    }
  }
}

interface LeaderMessage {
  readonly subject: string;
  readonly seq: number;
  readonly time: string;
  /** Base64; absent when empty. */
  readonly data?: string;
  readonly hdrs?: string;
}

function readLeaderMessage(message: LeaderMessage): StoredMessage {
  const headers = new HeaderText(Buffer.from(message.hdrs ?? "", "base64").toString());
  return {
    subject: message.subject,
    seq: message.seq as Sequence,
    storedMs: Date.parse(message.time),
    data: plain(Buffer.from(message.data ?? "", "base64")),
    header: (name) => headers.get(name),
  };
}
