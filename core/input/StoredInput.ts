/**
 * A durable input that came from the inbox: it stays there until it is acked, and its answer goes
 * to the subject that its envelope names. Made by `Mailbox` for each delivery.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { InputAnswer } from "../../schemas/bus/CallReply.ts";
import { decodeEnvelope, type InboxEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import type { AgentInput, InputEnd } from "./AgentInput.ts";

export interface AnswerOutlet {
  readonly answer: (subject: string, answer: InputAnswer, body: Uint8Array | string) => void;
}

export class StoredInput implements AgentInput {
  readonly id: AgentId;
  readonly seq: Sequence;
  readonly deliveries: number;
  data: Uint8Array | undefined;
  readonly direct = undefined;
  readonly encoded = undefined;

  constructor(
    private readonly handle: InputHandle,
    data: Uint8Array | undefined,
    private readonly outlet: AnswerOutlet,
  ) {
    this.id = handle.id;
    this.seq = handle.seq;
    this.deliveries = handle.deliveries;
    this.data = data;
  }

  read(data: Uint8Array): InboxEnvelope {
    return decodeEnvelope(data);
  }

  /** Does nothing without a waiting caller. */
  answer(reply: InboxHead["reply"], response: ResponseParts, end?: InputEnd): void {
    if (reply === undefined) return;
    const { status, headers, body } = response;
    this.outlet.answer(reply.subject, { id: reply.id, status, headers, ...end }, body);
  }

  ack(): void {
    this.handle.ack();
  }
  nak(delayMs: number): void {
    this.handle.nak(delayMs);
  }
  /** It stays stored, for the next owner. */
  leave(): void {}
}
