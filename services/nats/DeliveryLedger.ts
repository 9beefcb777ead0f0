/**
 * What a lane has handed on and not got back: by sequence, so that a message which comes again
 * after a reconnect (`ShardConsumer`, rule 3) is told from a new one. Makes the deliveries.
 *
 * It holds one small entry for each unacked message, at most `ACK_PENDING_MAX`, and no payloads.
 */
import type { Msg } from "@nats-io/nats-core";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { NatsShape } from "./Nats.ts";
import { plain } from "./ReplyInbox.ts";
import { NANOS_PER_MS } from "./streamConfigs.ts";

interface Entry {
  /** Where its ack goes: of the latest delivery, by the latest consumer. */
  reply: string;
  deliveries: number;
  /** Set while it was put off (nak): when it is due again, by the monotonic clock. */
  dueMs: number | undefined;
}

/** Acks that may still be on their way; older ones were counted long ago. Two generations of these. */
const ACKED_KEPT = 8_192;
/** A put-off message may come again this early by our clock and still counts as due. */
const DUE_SLACK_MS = 5;
const encoder = new TextEncoder();
const ACK = encoder.encode("+ACK");
const TERM = encoder.encode("+TERM");

export class DeliveryLedger {
  private readonly held = new Map<number, Entry>();
  private acked = new Set<number>();
  private ackedBefore = new Set<number>();
  /** How many more the broker had for us when it last said so. */
  pending: number | undefined;

  /** Delivered here and not acked: held by the host, or put off. */
  get unacked(): number {
    return this.held.size;
  }

  /** A delivery to hand on; undefined when the host has it, or is done with it. */
  take(message: Msg, nats: NatsShape): Delivery | undefined {
    const reply = message.reply ?? "";
    const { seq, deliveries, pending } = readReply(reply);
    this.pending = pending;
    const { client, log } = nats.connection;
    if (this.acked.has(seq) || this.ackedBefore.has(seq)) {
      client.publish(reply, ACK); // the first one was lost
      return undefined;
    }
    const known = this.held.get(seq);
    if (known !== undefined) {
      known.reply = reply;
      if (known.dueMs === undefined) return undefined;
      const leftMs = known.dueMs - performance.now();
      if (leftMs > DUE_SLACK_MS) {
        client.publish(reply, putOff(leftMs));
        return undefined;
      }
      known.dueMs = undefined;
      known.deliveries = Math.max(known.deliveries + 1, deliveries);
    }
    let id: AgentId;
    try {
      id = nats.subjects.addressOf(message.subject);
    } catch (error) {
      // Not written by this project: nobody can ever take it, and it would come again for ever.
      log("error", "an inbox message without a readable address is dropped", {
        subject: message.subject,
        seq,
        error: String(error),
      });
      client.publish(reply, TERM);
      return undefined;
    }
    const entry = known ?? { reply, deliveries, dueMs: undefined };
    this.held.set(seq, entry);
    return {
      id,
      seq: seq as Sequence,
      deliveries: entry.deliveries,
      data: plain(message.data),
      ack: () => {
        if (!this.held.delete(seq)) return;
        this.rememberAck(seq);
        if (nats.connection.connected()) client.publish(entry.reply, ACK);
      },
      nak: (delayMs) => {
        if (this.held.get(seq) !== entry || entry.dueMs !== undefined) return;
        entry.dueMs = performance.now() + delayMs;
        if (nats.connection.connected()) client.publish(entry.reply, putOff(delayMs));
      },
    };
  }

  private rememberAck(seq: number): void {
    this.acked.add(seq);
    if (this.acked.size < ACKED_KEPT) return;
    this.ackedBefore = this.acked;
    this.acked = new Set();
  }
}

const putOff = (delayMs: number): Uint8Array =>
  encoder.encode(
    delayMs > 0 ? `-NAK {"delay":${Math.max(1, Math.round(delayMs)) * NANOS_PER_MS}}` : "-NAK",
  );

/** Tokens of `$JS.ACK.<stream>.<consumer>.…` and of the longer form with domain and account. */
const SHORT_TOKENS = 9;

/** After them come the consumer's own sequence, the time, and how many messages are left. */
function readReply(reply: string): {
  readonly seq: number;
  readonly deliveries: number;
  readonly pending: number;
} {
  const tokens = reply.split(".");
  const at = tokens.length > SHORT_TOKENS ? 6 : 4;
  return {
    deliveries: Number(tokens[at]),
    seq: Number(tokens[at + 1]),
    pending: Number(tokens[at + 4]),
  };
}
