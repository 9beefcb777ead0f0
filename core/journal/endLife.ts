/**
 * Ends an agent's life from outside, when it is erased: one bare `destroyed` event after whatever
 * its journal holds. It names no cause and contains nothing of the agent, so it may stay when
 * everything before it is removed. It must stay, because it is the fence: its epoch and sequence
 * refuse a host that was frozen with the agent, or its inputs, in memory.
 *
 * Used by the host that owns the agent (`AgentSlot`, once the agent has left memory), and by
 * `agents erase` itself where no host runs.
 */
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import { ifReadable } from "../../schemas/Frame.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { AgentDiscarded } from "../errors/errors.ts";
import { BrokerUnavailable } from "../bus/Bus.ts";
import { restartsLife } from "./eventOfBase.ts";
import type { JournalShape, StoredEvent } from "./Journal.ts";
import type { TimeShape } from "../time/Time.ts";

/** Each refusal is due to an event of an owner that has not noticed the end yet. */
const ATTEMPTS_MAX = 5;

export interface EndLifeOptions {
  readonly journal: Pick<JournalShape, "last" | "append">;
  readonly time: Pick<TimeShape, "id" | "nowMs">;
  /** The process that does it, for the event. */
  readonly host: string;
  /** The owner's epoch; undefined for an unowned agent: that of the journal's last event. */
  readonly epoch: Epoch | undefined;
  readonly signal: AbortSignal;
}

/**
 * Resolves to the event's sequence: of the existing one if the journal already ends with such an
 * event, and 0 if there is no journal. Rejects with `BrokerUnavailable`, or `AgentDiscarded` if a
 * later owner has the agent.
 */
export async function endLife(id: AgentId, options: EndLifeOptions): Promise<Sequence> {
  const { journal, time, signal } = options;
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const last = await journal.last(id);
    if (last === undefined) return 0 as Sequence;
    const before = headOf(last);
    if (before !== undefined && isBare(before)) return last.seq;
    if ((before?.epoch ?? 0) > (options.epoch ?? Infinity)) throw new AgentDiscarded();
    const head: JournalHead = {
      id: time.id(),
      agent: [id.class, id.name],
      kind: "destroyed",
      host: options.host,
      epoch: options.epoch ?? before?.epoch ?? 0,
      time: time.nowMs(),
      turns: [],
    };
    const result = await journal.append(id, encodeEvent(head), { expectedSeq: last.seq, signal });
    if (result._tag === "Stored") return result.seq;
    if (result._tag === "Unknown") throw new BrokerUnavailable({ message: result.message });
  }
  throw new AgentDiscarded();
}

/** The head of the journal's last event if the agent was erased and wrote nothing since. */
export function bareEnd(last: Pick<StoredEvent, "data">): JournalHead | undefined {
  const head = headOf(last);
  return head !== undefined && isBare(head) ? head : undefined;
}

/**
 * Whether nothing before the event belongs to the agent's life: its bare end, or a base that stands
 * for events after one (`eventOfBase`).
 */
export function endsAllBefore({ data }: Pick<StoredEvent, "data">): boolean {
  const head = headOf({ data });
  return head !== undefined && (isBare(head) || restartsLife(head));
}

/** Whether the agent's life ends with the event. A base begins one anew (`eventOfBase`). */
export const endsLife = (head: JournalHead): boolean =>
  head.kind === "destroyed" && !restartsLife(head);

/**
 * The last event from `fromSeq` on that is a bare end. `agents erase` may be removing what comes
 * before it, so that gaps there are no damage. Rejects as `Journal.read`.
 */
export async function lastEnd(
  id: AgentId,
  fromSeq: number,
  journal: Pick<JournalShape, "read">,
): Promise<StoredEvent | undefined> {
  let end: StoredEvent | undefined;
  for await (const event of journal.read(id, { fromSeq: fromSeq as Sequence }))
    if (bareEnd(event) !== undefined) end = event;
  return end;
}

/** Whether the agent was erased since its event `seq` was read. Rejects as `Journal.first`. */
export async function erasedSince(
  id: AgentId,
  seq: number,
  journal: Pick<JournalShape, "first">,
): Promise<boolean> {
  const first = await journal.first(id);
  return first !== undefined && first.seq > seq && bareEnd(first) !== undefined;
}

const isBare = (head: JournalHead): boolean => head.kind === "destroyed" && head.turns.length === 0;

/** Undefined for an unreadable event: an agent in quarantine can be erased, too. */
const headOf = ({ data }: Pick<StoredEvent, "data">): JournalHead | undefined =>
  ifReadable(() => decodeEvent(data))?.head;
