/**
 * A host's answer to a call: the reply, and the bytes beside it. `handleCall` makes
 * it; `CallClient` returns it to a caller on the same host and sends it to any other.
 */
import type { CallReply } from "../../schemas/bus/CallReply.ts";

export interface CallAnswer {
  readonly reply: CallReply;
  /** Absent: no bytes. */
  readonly body?: Uint8Array | string;
}
