/**
 * The unacked deliveries of a shard's consumer, by sequence. It distinguishes a message that comes
 * again after a reconnect from a new one (`ShardConsumer`, rule 3), and makes the `Delivery`
 * objects.
 *
 * It holds one small entry for each unacked message, at most `ACK_PENDING_MAX`, and no payloads.
 */
import type { Msg } from "@nats-io/nats-core";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { NatsShape } from "./client/Nats.ts";
import { plain } from "./client/ReplyInbox.ts";
import { NANOS_PER_MS } from "./layout/streamConfigs.ts";

interface Entry {
  /** The ack's subject, of the latest delivery by the latest consumer. */
  reply: string;
  deliveries: number;
  /** Set after a nak: when the message is due again, by the monotonic clock. */
  dueMs: number | undefined;
}

/** Acks that may still be in flight; older ones were counted long ago. Two generations are kept. */
const ACKED_KEPT = 8_192;
/** A message that comes this early after a nak, by this clock, counts as due. */
const DUE_SLACK_MS = 5;
const encoder = new TextEncoder();
const ACK = encoder.encode("+ACK");
const TERM = encoder.encode("+TERM");

export class DeliveryLedger {
  private readonly held = new Map<number, Entry>();
  private acked = new Set<number>();
  private ackedBefore = new Set<number>();
  /** Messages that the broker had left for the consumer, as of its last report. */
  pending: number | undefined;

  /** Messages that were delivered here and not acked: the host holds them, or has sent a nak. */
  get unacked(): number {
    return this.held.size;
  }

  /**
   * Returns the delivery for a message; undefined when the host holds the message already, or has
   * acked it, or the message has no readable address.
   */
  take(message: Msg, nats: NatsShape): Delivery | undefined {
    const reply = message.reply ?? "";
    const { seq, deliveries, pending } = readReply(reply);
    this.pending = pending;
    const { client } = nats.connection;
    if (this.acked.has(seq) || this.ackedBefore.has(seq)) {
      client.publish(reply, ACK); // the first ack was lost
      return undefined;
    }
    const known = this.held.get(seq);
    if (known !== undefined) {
      known.reply = reply;
      if (known.dueMs === undefined) return undefined;
      const leftMs = known.dueMs - performance.now();
      if (leftMs > DUE_SLACK_MS) {
        client.publish(reply, nakAfter(leftMs));
        return undefined;
      }
      known.dueMs = undefined;
      known.deliveries = Math.max(known.deliveries + 1, deliveries);
    }
    const id = addressOf(message.subject, seq, nats);
    if (id === undefined) {
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
        if (nats.connection.connected()) client.publish(entry.reply, nakAfter(delayMs));
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

/**
 * Undefined for a subject that this project does not write. No agent can ever receive such a
 * message, and it would come again for ever.
 */
function addressOf(
  subject: string,
  seq: number,
  { subjects, connection }: NatsShape,
): AgentId | undefined {
  try {
    return subjects.addressOf(subject);
  } catch (error) {
    connection.log("error", "an inbox message without a readable address was dropped", {
      subject,
      seq,
      error: String(error),
    });
    return undefined;
  }
}

const nakAfter = (delayMs: number): Uint8Array =>
  encoder.encode(
    delayMs > 0 ? `-NAK {"delay":${Math.max(1, Math.round(delayMs)) * NANOS_PER_MS}}` : "-NAK",
  );

/** Tokens of `$JS.ACK.<stream>.<consumer>.…`. The form with domain and account has more. */
const SHORT_TOKENS = 9;

/** Reads an ack subject. Its last tokens: the consumer's sequence, the time, the messages left. */
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
