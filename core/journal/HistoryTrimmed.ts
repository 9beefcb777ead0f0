/** The error for a point of an agent's history that is no longer kept. */
import * as Data from "effect/Data";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";

export class HistoryTrimmed extends Data.TaggedError("HistoryTrimmed")<{
  readonly id: AgentId;
  /** The oldest event that is kept. */
  readonly seq: Sequence;
  /** The event before it, the last that was trimmed. */
  readonly after: number;
  /** When the oldest one was written, milliseconds since the epoch. */
  readonly timeMs: number;
}> {
  override get message(): string {
    const { id, seq, timeMs } = this;
    return `The history of ${addressKey(id)} starts with event ${seq} of ${new Date(timeMs).toISOString()}. Earlier events were trimmed. If they were archived, specify the archive (--archive).`;
  }
}
