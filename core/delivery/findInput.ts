/**
 * Finds the input of a delivery, with the bytes as they came, in the journal of the agent that did
 * it. The delivery log has none of them.
 */
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent, type Cause, type JournalHead } from "../../schemas/JournalEvent.ts";
import type { JournalShape } from "../journal/Journal.ts";
import { envelopeOf } from "../history/pastWebhooks.ts";

interface FoundInput {
  readonly id: AgentId;
  /** Sequence of the event that contains the whole input. */
  readonly seq: Sequence;
  readonly cause: Cause;
  readonly envelope: InboxEnvelope;
}

/**
 * Undefined: the agent's journal does not have it (it waits in the inbox, or the journal was cut).
 * Rejects with `BrokerUnavailable`.
 */
export async function findInput(
  journal: Pick<JournalShape, "read">,
  { agent, key, seq, duplicateOf }: DeliveryRecord,
): Promise<FoundInput | undefined> {
  if (agent === undefined || key === undefined) return undefined;
  const id = agentId(agent[0], agent[1]);
  const near = seq ?? duplicateOf;
  if (near !== undefined) {
    const at = near as Sequence;
    const found = await look(journal, id, key, { fromSeq: at, toSeq: at });
    if (found !== undefined) return found;
  }
  // An earlier attempt has the whole input: later events only name it.
  return look(journal, id, key, { fromSeq: 1 as Sequence });
}

async function look(
  journal: Pick<JournalShape, "read">,
  id: AgentId,
  key: string,
  range: { readonly fromSeq: Sequence; readonly toSeq?: Sequence },
): Promise<FoundInput | undefined> {
  for await (const { seq, data } of journal.read(id, range)) {
    const { head } = decodeEvent(data);
    const cause = wholeCause(head, key);
    if (cause !== undefined) return { id, seq, cause, envelope: envelopeOf(cause, head) };
  }
  return undefined;
}

/** A whole cause has the method. One that only names the input does not. */
const wholeCause = ({ turns }: JournalHead, key: string): Cause | undefined =>
  turns.find(({ cause }) => cause.id === key && cause.method !== undefined)?.cause;
