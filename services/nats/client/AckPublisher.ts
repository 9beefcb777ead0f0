/**
 * Publishes messages to streams and awaits their acks, many at a time. An outcome is what the
 * broker replied and nothing more. `NatsJournal`, `NatsInbox` and `NatsLeases` each find out in
 * their own way what an ambiguous outcome means.
 *
 * When a stream's leader dies, the acks that it owed are lost without notice. The election of the
 * next leader is announced, however. Soon after that, a message that is still not acked counts as
 * ambiguous, and its writer continues without waiting for the ack's timeout.
 */
import type { Msg } from "@nats-io/nats-core";
import { BrokerUnavailable, NotPermitted } from "../../../core/bus/Bus.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import type { NatsConnectionShape } from "./NatsConnection.ts";
import {
  headers,
  isNoResponders,
  notPermitted,
  type HeaderBlock,
  type Lost,
  type ReplyInbox,
  type Waiter,
} from "./ReplyInbox.ts";
import { subscribe } from "./subscribe.ts";

export type PublishOutcome =
  /** `duplicate`: a message with the same id was stored before, and `seq` is its sequence. */
  | { readonly _tag: "Stored"; readonly seq: Sequence; readonly duplicate?: boolean }
  /** The stream refused the message; `code` is the server's `err_code`. Nothing was stored. */
  | { readonly _tag: "Refused"; readonly code: number; readonly message: string }
  /** Certainly not stored: not connected, or nothing serves the subject (no leader, no stream). */
  | { readonly _tag: "NotSent"; readonly message: string }
  /** Not stored: the server's limit is lower than the message. Store a claim check instead. */
  | { readonly _tag: "TooLarge"; readonly message: string }
  /** The login may not publish it: another try fails, too. */
  | { readonly _tag: "Denied"; readonly message: string }
  /** The message may be stored, now or a moment later. */
  | { readonly _tag: "Ambiguous"; readonly message: string };

export type NotStored = Exclude<PublishOutcome, { readonly _tag: "Stored" }>;

/** The error of a message that was not stored: `NotPermitted` where the login lacks the right. */
export const errorOf = ({ _tag, message }: NotStored): BrokerUnavailable =>
  new (_tag === "Denied" ? NotPermitted : BrokerUnavailable)({ message });

/** The `err_code` of a refused expectation: another message of the subject is stored. */
export const WRONG_LAST_SEQUENCE = 10071;
/** The same while the other message is still being stored. */
export const WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164;

/** A healthy broker acks within milliseconds, one that elects a leader within seconds. */
const ACK_TIMEOUT_MS = 5_000;
/**
 * What the servers of a cluster publish when a stream has a new leader (NATS ADR-1, advisories). A
 * login that may not subscribe to it waits for the timeout (`deploy/nats/permissions.conf`).
 */
export const ELECTIONS = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.*";
/** More than a new leader needs to begin to serve, and than a healthy one needs for its acks. */
const SETTLED_MS = 250;
/** Larger than any header block of this release, with room for the headers of later ones. */
export const HEADER_BYTES_MAX = 1_024;

/** The header by which the stream refuses a message unless its subject's last sequence is `seq`. */
export const expectLast = (seq: number): readonly [string, string] => [
  "Nats-Expected-Last-Subject-Sequence",
  String(seq),
];

export interface PublishOptions {
  readonly headers?: HeaderBlock;
  readonly signal?: AbortSignal;
}

export class AckPublisher {
  /** Messages that were sent, ever. */
  private sent = 0;

  constructor(
    private readonly replies: ReplyInbox,
    private readonly connection: Pick<NatsConnectionShape, "client" | "log">,
  ) {}

  /** Never rejects. `signal` ends only the wait: the outcome is then ambiguous. */
  publish(
    subject: string,
    data: Uint8Array,
    options: PublishOptions = {},
  ): Promise<PublishOutcome> {
    if (this.sent++ === 0) this.watchElections();
    return new Promise((resolve) => {
      this.replies.send(subject, data, new AckWaiter(this.sent, resolve), {
        timeoutMs: ACK_TIMEOUT_MS,
        ...options,
      });
    });
  }

  /** Whether the connected server accepts these bytes with any header block of this release. */
  fits(data: Uint8Array): boolean {
    return this.replies.fits(data.length + HEADER_BYTES_MAX);
  }

  /** Sends a message of an atomic batch, which fits. The last of the batch is acked for all. */
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

  /** Called at the first message: a process that only reads needs no permission for it. */
  private watchElections(): void {
    const { client, log } = this.connection;
    if (client.isClosed()) return;
    subscribe(client, ELECTIONS, (error) => {
      if (error === null) return this.onElection();
      log("warn", "elections of the broker cannot be watched; lost acks are noticed later", {
        error: String(error),
      });
    });
  }

  /** The acks of other streams arrive within `SETTLED_MS`, too. */
  private onElection(): void {
    const owed = this.sent;
    setTimeout(() => {
      for (const waiter of this.replies.takeAll(
        (one) => one instanceof AckWaiter && one.nth <= owed,
      ))
        (waiter as AckWaiter).lost("a stream elected another leader");
    }, SETTLED_MS).unref();
  }
}

/** Awaits one ack. */
class AckWaiter implements Waiter {
  constructor(
    /** The message is the publisher's `nth`, from 1. */
    readonly nth: number,
    private readonly resolve: (outcome: PublishOutcome) => void,
  ) {}

  reply(message: Msg): boolean {
    this.resolve(readAck(message));
    return true;
  }

  lost(why: Lost | "a stream elected another leader", denied?: string): void {
    if (denied !== undefined)
      return this.resolve({ _tag: "Denied", message: notPermitted(denied) });
    if (why === "tooLarge")
      return this.resolve({ _tag: "TooLarge", message: "the server's max_payload is lower" });
    this.resolve(
      why === "notSent"
        ? { _tag: "NotSent", message: "the broker is unreachable" }
        : { _tag: "Ambiguous", message: `no ack from the broker (${why})` },
    );
  }
}

interface Ack {
  readonly seq?: number;
  readonly duplicate?: boolean;
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
    ? {
        _tag: "Stored",
        seq: ack.seq as Sequence,
        ...(ack.duplicate === true && { duplicate: true }),
      }
    : {
        _tag: "Refused",
        code: ack.error.err_code ?? ack.error.code,
        message: ack.error.description,
      };
}
