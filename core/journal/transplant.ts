/**
 * A journal's event as it may stand in another journal: of another installation, or under another
 * name. What it did to the agent stays, byte for byte; what belongs to the place that it comes from
 * is changed:
 *
 * 1. The agent's name, and the epoch: those of other installations mean nothing here, and a higher
 *    one than the owner's would keep the owner out. The next activation claims the journal under
 *    its own (`activate`).
 * 2. The sequence of the event before it, and of the one that it put the agent back to: here they
 *    are others.
 * 3. Sequences of inputs: another inbox counts anew, and one of its inputs must not be taken for
 *    one of these.
 */
import type { AgentId, Epoch } from "../../schemas/Address.ts";
import { decodeEvent, encodeEvent, type TurnRecord } from "../../schemas/JournalEvent.ts";

export interface NewPlace {
  readonly id: AgentId;
  /** Not above any owner's to come, nor below what the journal holds: 0 in an empty one. */
  readonly epoch: Epoch;
}

/** An event's frame. Throws `CorruptFrame` or `UnknownVersion`. */
export function transplant(data: Uint8Array, { id, epoch }: NewPlace): Uint8Array {
  const { head, delta } = decodeEvent(data);
  const { after: _there, ...kept } = head;
  const turns = head.turns.map(withoutInbox);
  return encodeEvent({ ...kept, agent: [id.class, id.name], epoch, turns }, delta);
}

/** The done key of an input that died, by its sequence (`Mailbox`). */
const BY_SEQUENCE = /^dead:\d+$/;

function withoutInbox({ cause, done, restored, ...turn }: TurnRecord): TurnRecord {
  const { seq: _elsewhere, ...kept } = cause;
  return {
    ...turn,
    cause: kept,
    ...(restored === undefined ? {} : { restored: { time: restored.time } }),
    ...(done === undefined ? {} : { done: done.filter((key) => !BY_SEQUENCE.test(key)) }),
  };
}
