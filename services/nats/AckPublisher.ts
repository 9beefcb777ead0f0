/**
 * Publishing to a stream with an ack, as fast as one message at a time goes: many may be in
 * flight. Tells what the broker said and nothing more; what an ambiguous outcome means is for
 * `NatsJournal`, `NatsInbox`, `NatsLeases` to find out, each in its own way.
 */
import type { Msg } from "@nats-io/nats-core";
import type { Sequence } from "../../schemas/Address.ts";
import { headers, isNoResponders, type HeaderBlock, type ReplyInbox } from "./ReplyInbox.ts";

export type PublishOutcome =
  | { readonly _tag: "Stored"; readonly seq: Sequence }
  /** The stream said no; `code` is the server's `err_code`. Nothing was stored. */
  | { readonly _tag: "Refused"; readonly code: number; readonly message: string }
  /** Certainly not stored: not connected, or nobody serves the subject (no leader, no stream). */
  | { readonly _tag: "NotSent"; readonly message: string }
  /** It may be stored, now or in a moment. */
  | { readonly _tag: "Ambiguous"; readonly message: string };

/** A stored message of this stream came first (`WRONG_LAST_SEQUENCE`), or is being stored now (the other). */
export const WRONG_LAST_SEQUENCE = 10071;
export const WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164;

/** A healthy broker acks within milliseconds, one that elects a leader within seconds. */
const ACK_TIMEOUT_MS = 5_000;
/** The largest header block that this process writes, with room for the names of later ones. */
export const HEADER_BYTES_MAX = 1_024;

export const expectLast = (seq: number): readonly [string, string] => [
  "Nats-Expected-Last-Subject-Sequence",
  String(seq),
];

export interface PublishOptions {
  readonly headers?: HeaderBlock;
  readonly signal?: AbortSignal;
}

export class AckPublisher {
  private readonly replies: ReplyInbox;

  constructor(replies: ReplyInbox) {
    this.replies = replies;
  }

  publish(
    subject: string,
    data: Uint8Array,
    options: PublishOptions = {},
  ): Promise<PublishOutcome> {
    return new Promise((resolve) => {
      this.replies.send(
        subject,
        data,
        {
          reply: (message) => {
            resolve(readAck(message));
            return true;
          },
          lost: (why) =>
            resolve(
              why === "notSent"
                ? { _tag: "NotSent", message: "the broker is away" }
                : { _tag: "Ambiguous", message: `no ack from the broker (${why})` },
            ),
        },
        { timeoutMs: ACK_TIMEOUT_MS, ...options },
      );
    });
  }

  /** Sends without an ack: a part of a batch, whose last message is acked for all. */
  send(subject: string, data: Uint8Array, block: HeaderBlock): void {
    this.replies.sendOnly(subject, data, block);
  }

  /** As `publish`, iff the subject's last message has this sequence (0: there is none). */
  publishAfter(
    expectedSeq: Sequence,
    subject: string,
    data: Uint8Array,
    signal?: AbortSignal,
  ): Promise<PublishOutcome> {
    const block = headers(expectLast(expectedSeq));
    return this.publish(subject, data, {
      headers: block,
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

interface Ack {
  readonly seq?: number;
  readonly error?: {
    readonly code: number;
    readonly err_code?: number;
    readonly description: string;
  };
}

function readAck(message: Msg): PublishOutcome {
  if (isNoResponders(message))
    return { _tag: "NotSent", message: "no stream serves the subject now" };
  const ack = JSON.parse(message.string()) as Ack;
  return ack.error === undefined
    ? { _tag: "Stored", seq: ack.seq as Sequence }
    : {
        _tag: "Refused",
        code: ack.error.err_code ?? ack.error.code,
        message: ack.error.description,
      };
}
