/**
 * A durable input that its gateway gives straight to its agent and has not stored: when its turn ends well, the turn's
 * own event is all that is ever stored of it, and one answer of the broker all that it waits for.
 *
 * 1. Nobody was told that it is accepted. Whatever becomes of this host, its gateway still has it, and stores it as
 *    soon as it hears anything but `done` or `stored`, or nothing for a while. The agent may then have done it: its
 *    key tells, as with any repeated input.
 * 2. Nothing half done of it is journaled: before an event says that it has begun and is not done, it lies in
 *    the inbox (`store`), whose copy waits for this run and goes on with it after a crash.
 * 3. It ends once.
 *
 * Made by `AgentSlot`, run by `Mailbox`, stored by `Committer`.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/Call.ts";
import { encodeEnvelope, type InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import type { UnstoredInput } from "../turn/Turn.ts";

export interface DirectEnd {
  readonly reply: Extract<CallReply, { readonly kind: "done" | "stored" | "notHere" }>;
  readonly body?: Uint8Array | string;
}

/** A stream counts from 1. */
const NOT_STORED = 0 as Sequence;

export class DirectInput implements InputHandle, UnstoredInput {
  readonly id: AgentId;
  readonly envelope: InboxEnvelope;
  /** In the inbox; 0 while it does not lie there. */
  seq = NOT_STORED;
  readonly deliveries = 1;
  readonly ended: Promise<DirectEnd>;
  private end!: (end: DirectEnd) => void;

  constructor(id: AgentId, envelope: InboxEnvelope) {
    this.id = id;
    this.envelope = envelope;
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  /** As it lies in the inbox, or would. */
  get data(): Uint8Array {
    return encodeEnvelope(this.envelope.head, this.envelope.body);
  }

  /** Rule 2. Rejects with what `publish` does; nothing may be journaled then. */
  async store(publish: (data: Uint8Array) => Promise<Sequence>): Promise<Sequence> {
    if (this.seq === NOT_STORED) this.seq = await publish(this.data);
    return this.seq;
  }

  answer({ status, headers, body }: ResponseParts, duplicateOf?: number): void {
    const duplicate = duplicateOf === undefined ? {} : { duplicateOf };
    this.end({ reply: { kind: "done", status, headers, ...duplicate }, body });
  }

  /** Its answer says so; a copy that lies in the inbox is found done, and acked then. */
  ack(): void {}

  /** Not now: the copy in the inbox comes later, or its gateway makes one. */
  nak(): void {
    this.end({ reply: { kind: this.seq === NOT_STORED ? "notHere" : "stored" } });
  }
}
