/**
 * A durable input that its gateway passes straight to its agent without storing it. When its turn
 * succeeds, the turn's own event is all that is ever stored of it, and the broker's answer to that
 * event is the only one that the caller waits for.
 *
 * 1. The input is not acknowledged as accepted. Whatever happens to this host, the gateway still
 *    has the input, and stores it unless it receives `done` or `stored` in time. The agent may have
 *    run it by then: the input's key shows that, as for any repeated input.
 * 2. Nothing unfinished is journaled: before an event records the input as begun and not done, the
 *    input is stored in the inbox (`store`). That copy waits for this run, and resumes after a
 *    crash.
 * 3. It ends once.
 *
 * `AgentSlot` makes it, `Mailbox` runs it, `Committer` stores it.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { encodeEnvelope, type InboxEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { UnstoredInput } from "../turn/Turn.ts";
import type { AgentInput, InputEnd } from "./AgentInput.ts";

export interface DirectEnd {
  readonly reply: Extract<CallReply, { readonly kind: "done" | "stored" | "notHere" }>;
  readonly body?: Uint8Array | string;
}

/** Streams count from 1. */
const NOT_STORED = 0 as Sequence;

export class DirectInput implements AgentInput, UnstoredInput {
  readonly id: AgentId;
  /** Its sequence in the inbox; 0 while it is not stored there. */
  seq = NOT_STORED;
  readonly deliveries = 1;
  data: Uint8Array | undefined;
  readonly ended: Promise<DirectEnd>;
  private end!: (end: DirectEnd) => void;

  constructor(
    id: AgentId,
    private readonly envelope: InboxEnvelope,
  ) {
    this.id = id;
    this.data = envelope.body;
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  get direct(): this {
    return this;
  }
  read(): InboxEnvelope {
    return this.envelope;
  }

  /** Its envelope, as the inbox stores it. */
  get encoded(): Uint8Array {
    return encodeEnvelope(this.envelope.head, this.envelope.body);
  }

  /** Rule 2. Rejects with what `publish` does; nothing may be journaled then. */
  async store(publish: (data: Uint8Array) => Promise<Sequence>): Promise<Sequence> {
    if (this.seq === NOT_STORED) this.seq = await publish(this.encoded);
    return this.seq;
  }

  /** Its caller waits here, not at a subject. */
  answer(
    _reply: InboxHead["reply"],
    { status, headers, body }: ResponseParts,
    end?: InputEnd,
  ): void {
    this.end({ reply: { kind: "done", status, headers, ...end }, body });
  }

  /** `answer` does that. A copy in the inbox is found done when it is delivered, and acked then. */
  ack(): void {}

  /** The input does not run now: a copy in the inbox comes later, or the gateway stores one. */
  nak(): void {
    this.end({ reply: { kind: this.seq === NOT_STORED ? "notHere" : "stored" } });
  }
  leave(): void {
    this.nak();
  }
}

/** Share of a gateway's wait. The rest covers answers in flight and clock differences. */
const REPORTS_WITHIN = 0.5;

/**
 * Whether the gateway that waits for an input's answer reports it (request log, delivery log). The
 * gateway reports what it answers in time. The host reports the end of a stored input, and an end
 * that comes late.
 */
export const isReportedByGateway = (
  { direct }: AgentInput,
  { reply, time }: InboxHead,
  nowMs: number,
): boolean => direct !== undefined && nowMs - time < (reply?.ms ?? 0) * REPORTS_WITHIN;
