/**
 * Reading stored messages without a consumer. Two ways, and when each is right:
 *
 * - `byLeader` asks the stream's leader: the newest there is. For anything whose absence is decided
 *   on, since in a cluster a replica that lags answers a direct get with "no such message".
 * - `direct` and the batches of `messages` may be served by any replica: fast, and always a prefix
 *   of the truth. What a replica gives is stored; what it does not give means nothing yet.
 *
 * `messages` therefore reads in batches and lets the leader have the last word on where the end is.
 * Feeds: `NatsJournal`, `NatsInbox`, `NatsLeases`, `NatsSnapshots`, `NatsBlobs`.
 */
import type { Msg } from "@nats-io/nats-core";
import type { Sequence } from "../../schemas/Address.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { ApiCode, ApiRefusal, type JetStreamApi } from "./JetStreamApi.ts";
import { isNoResponders, plain, type ReplyInbox } from "./ReplyInbox.ts";

export interface StoredMessage {
  readonly subject: string;
  readonly seq: Sequence;
  readonly storedMs: number;
  readonly data: Uint8Array;
  /** Value of a header, undefined when it has none of that name. */
  readonly header: (name: string) => string | undefined;
}

export type MessageQuery =
  | { readonly seq: number }
  | { readonly last_by_subj: string }
  /** The first of the subject at or after `seq`. */
  | { readonly seq: number; readonly next_by_subj: string };

/** Two batches are in memory at once: this one and the next. */
const BATCH_MESSAGES = 1_000;
const BATCH_BYTES = 4 * 1024 * 1024;
/** From one message of a batch to the next. */
const BATCH_STALL_MS = 5_000;
const encoder = new TextEncoder();

interface Batch {
  readonly messages: readonly StoredMessage[];
  /** The reader's end was not reached: ask for the next batch. */
  readonly more: boolean;
}

export class StreamReader {
  private readonly replies: ReplyInbox;
  private readonly api: JetStreamApi;

  constructor(replies: ReplyInbox, api: JetStreamApi) {
    this.replies = replies;
    this.api = api;
  }

  /** Rejects with `BrokerUnavailable`, or `ApiRefusal` (no such stream). */
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

  /** Undefined: this replica has none. Rejects with `BrokerUnavailable`. */
  async direct(stream: string, query: MessageQuery): Promise<StoredMessage | undefined> {
    const message = await this.api.request(
      `$JS.API.DIRECT.GET.${stream}`,
      encoder.encode(JSON.stringify(query)),
    );
    if (message.headers === undefined || message.headers.code === 404) return undefined;
    if (message.headers.code !== 0)
      throw new BrokerUnavailable({ message: `direct get: status ${message.headers.code}` });
    return readDirectMessage(message);
  }

  /** Messages of a subject (wildcards allowed) in stored order. Rejects with `BrokerUnavailable`. */
  async *messages(
    stream: string,
    subject: string,
    range: { readonly fromSeq: number; readonly toSeq?: number },
  ): AsyncGenerator<StoredMessage, void, void> {
    const toSeq = range.toSeq ?? Number.MAX_SAFE_INTEGER;
    let next = Math.max(1, range.fromSeq);
    let coming = this.batch(stream, subject, next);
    while (next <= toSeq) {
      const { messages, more } = await coming;
      const last = messages.at(-1);
      if (last !== undefined) next = last.seq + 1;
      if (more && next <= toSeq) {
        coming = this.batch(stream, subject, next);
        coming.catch(() => undefined); // it is awaited above, unless the caller stops here
      }
      for (const message of messages) {
        if (message.seq > toSeq) return;
        yield message;
      }
      if (more) continue;
      const end = await this.byLeader(stream, { seq: next, next_by_subj: subject });
      if (end === undefined || end.seq > toSeq) return;
      yield end;
      next = end.seq + 1;
      coming = this.batch(stream, subject, next);
      coming.catch(() => undefined);
    }
  }

  private batch(stream: string, subject: string, seq: number): Promise<Batch> {
    return new Promise((resolve, reject) => {
      const messages: StoredMessage[] = [];
      let cursor = 0;
      this.replies.send(
        `$JS.API.DIRECT.GET.${stream}`,
        encoder.encode(
          JSON.stringify({
            seq,
            next_by_subj: subject,
            batch: BATCH_MESSAGES,
            max_bytes: BATCH_BYTES,
          }),
        ),
        {
          reply: (reply) => {
            const code = reply.headers?.code ?? 0;
            if (code === 0) {
              const before = Number(reply.headers?.get("Nats-Last-Sequence") ?? 0);
              if (before !== cursor && cursor !== 0) {
                // One was lost on the way: what came before it is good, the rest is asked for again.
                resolve({ messages, more: true });
                return true;
              }
              const message = readDirectMessage(reply);
              messages.push(message);
              cursor = message.seq;
              return false;
            }
            if (isNoResponders(reply) || (code !== 204 && code !== 404))
              reject(new BrokerUnavailable({ message: `direct get of ${stream}: status ${code}` }));
            else {
              const left = Number(reply.headers?.get("Nats-Num-Pending") ?? 0);
              resolve({ messages, more: code === 204 && left > 0 });
            }
            return true;
          },
          lost: (why) => {
            if (messages.length > 0) resolve({ messages, more: true });
            else reject(new BrokerUnavailable({ message: `direct get of ${stream}: ${why}` }));
          },
        },
        { timeoutMs: BATCH_STALL_MS },
      );
    });
  }
}

function readDirectMessage(message: Msg): StoredMessage {
  const found = message.headers;
  return {
    subject: found?.get("Nats-Subject") ?? "",
    seq: Number(found?.get("Nats-Sequence")) as Sequence,
    storedMs: Date.parse(found?.get("Nats-Time-Stamp") ?? ""),
    data: plain(message.data),
    header: (name) => {
      const value = found?.get(name);
      return value === "" ? undefined : value;
    },
  };
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
  const lines = Buffer.from(message.hdrs ?? "", "base64")
    .toString("latin1")
    .split("\r\n");
  return {
    subject: message.subject,
    seq: message.seq as Sequence,
    storedMs: Date.parse(message.time),
    data: plain(Buffer.from(message.data ?? "", "base64")),
    header: (name) => {
      const line = lines.find((l) => l.startsWith(`${name}: `) || l.startsWith(`${name}:`));
      return line?.slice(name.length + 1).trim();
    },
  };
}
