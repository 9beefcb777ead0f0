/**
 * A journal's event as it may stand in another journal: of another installation, or under another
 * name. What it did to the agent stays, byte for byte. What refers to the place that it comes from
 * is changed:
 *
 * 1. The agent's name and the epoch. An epoch of another installation means nothing here, and one
 *    above the owner's would fence the owner off. The next activation claims the journal with its
 *    own (`activate`).
 * 2. The sequences of the previous event, and of the one that it put the agent back to, which
 *    differ here.
 * 3. Sequences of inputs: each inbox counts from 1, and inputs of the two must not be mistaken for
 *    each other.
 */
import type { AgentId, Epoch } from "../../schemas/Address.ts";
import { decodeEvent, encodeEvent, type TurnRecord } from "../../schemas/JournalEvent.ts";

interface NewPlace {
  readonly id: AgentId;
  /** Not above the epoch of a later owner, nor below the journal's last; 0 in an empty journal. */
  readonly epoch: Epoch;
}

/** An event's frame. Throws `CorruptFrame` or `UnknownVersion`. */
export function transplant(data: Uint8Array, { id, epoch }: NewPlace): Uint8Array {
  const { head, delta } = decodeEvent(data);
  const { after: _there, ...kept } = head;
  const turns = head.turns.map(withoutInbox);
  return encodeEvent({ ...kept, agent: [id.class, id.name], epoch, turns }, delta);
}

/** Whether a done key is that of an input that died, by its sequence (`deadInputs`). Rule 3. */
export const isBySequence = (key: string): boolean => /^dead:\d+$/.test(key);

function withoutInbox({ cause, done, restored, ...turn }: TurnRecord): TurnRecord {
  const { seq: _elsewhere, ...kept } = cause;
  return {
    ...turn,
    cause: kept,
    ...(restored === undefined ? {} : { restored: { time: restored.time } }),
    ...(done === undefined ? {} : { done: done.filter((key) => !isBySequence(key)) }),
  };
}
