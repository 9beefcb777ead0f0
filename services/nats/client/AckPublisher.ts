/**
 * Publishes messages to streams and awaits their acks, many at a time. An outcome is what the
 * broker replied and nothing more. `NatsJournal`, `NatsInbox` and `NatsLeases` each find out in
 * their own way what an ambiguous outcome means.
 */
import type { Msg } from "@nats-io/nats-core";
import type { Sequence } from "../../../schemas/Address.ts";
import { headers, isNoResponders, type HeaderBlock, type ReplyInbox } from "./ReplyInbox.ts";

export type PublishOutcome =
  | { readonly _tag: "Stored"; readonly seq: Sequence }
  /** The stream refused the message; `code` is the server's `err_code`. Nothing was stored. */
  | { readonly _tag: "Refused"; readonly code: number; readonly message: string }
  /** Certainly not stored: not connected, or nothing serves the subject (no leader, no stream). */
  | { readonly _tag: "NotSent"; readonly message: string }
  /** The message may be stored, now or a moment later. */
  | { readonly _tag: "Ambiguous"; readonly message: string };

/** The `err_code` of a refused expectation: another message of the subject is stored. */
export const WRONG_LAST_SEQUENCE = 10071;
/** The same while the other message is still being stored. */
export const WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164;

/** A healthy broker acks within milliseconds, one that elects a leader within seconds. */
const ACK_TIMEOUT_MS = 5_000;
/** Larger than any header block of this release, with room for the headers of later ones. */
export const HEADER_BYTES_MAX = 1_024;

/**
 * The header that makes the stream refuse a message unless its subject's last sequence is `seq`.
 */
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

  /** Never rejects. `signal` ends only the wait: the outcome is then ambiguous. */
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
                ? { _tag: "NotSent", message: "the broker is unreachable" }
                : { _tag: "Ambiguous", message: `no ack from the broker (${why})` },
            ),
        },
        { timeoutMs: ACK_TIMEOUT_MS, ...options },
      );
    });
  }

  /** Sends a message of an atomic batch. The last message of the batch is acked for all. */
  send(subject: string, data: Uint8Array, block: HeaderBlock): void {
    this.replies.sendOnly(subject, data, block);
  }

  /** As `publish`, if and only if the subject's last sequence is `expectedSeq` (0: no message). */
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
