/**
 * One durable input of an agent, stored in the inbox (`StoredInput`) or held only by its gateway
 * and this host (`DirectInput`). `Mailbox` runs both alike; the differences are members here.
 */
import type { InputAnswer } from "../../schemas/bus/CallReply.ts";
import type { InboxEnvelope, InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import type { UnstoredInput } from "../turn/Turn.ts";

/** How an input ended, as its answer says it (`InputAnswer`). */
export type InputEnd = Pick<InputAnswer, "duplicateOf" | "seq" | "dead" | "refused" | "reported">;

export interface AgentInput extends InputHandle {
  /** Its bytes while it waits; undefined for an input that is held by number only. */
  data: Uint8Array | undefined;
  /** Stores the input before an event leaves it begun. Undefined for an input from the inbox. */
  readonly direct: UnstoredInput | undefined;
  /** The input for a dead letter; undefined where the inbox has it. */
  readonly encoded: Uint8Array | undefined;
  /** Throws `CorruptFrame` or `UnknownVersion`. */
  read(data: Uint8Array): InboxEnvelope;
  answer(reply: InboxHead["reply"], response: ResponseParts, end?: InputEnd): void;
  /** The input does not run here: it is delivered again, or its gateway stores it. */
  leave(): void;
}
