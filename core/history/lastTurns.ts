/**
 * Finds where the last turns of an agent begin in its journal, without reading what is before them.
 * A broker reads a journal forwards only, and its sequences count the events of other agents too.
 * The search therefore reads the end of the journal, and more of it until there are enough turns.
 * For `agents history` and the console.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { decodeStored } from "../journal/decodeStored.ts";
import type { JournalShape } from "../journal/Journal.ts";
import { matchesTurn, type HistoryFilter } from "./historyFilter.ts";

interface LastTurns {
  readonly limit: number;
  /** The part of the journal that is searched, both included. */
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly filter: HistoryFilter;
}

/** Sequences of the first read, per turn: an agent that is alone in its stream needs one or two. */
const WIDTH_PER_TURN = 2;
/** The least and the most by which a read is wider than the one before it. */
const WIDER_MIN = 2;
const WIDER_MAX = 16;

/**
 * The sequence of the event with the first of the last `limit` matching turns; `fromSeq` if the
 * search reaches it. The filter may not ask for what only `WholeCauses` knows, nor for a text.
 * Rejects as `Journal.read` and `decodeStored`.
 */
export async function startOfLast(
  id: AgentId,
  journal: Pick<JournalShape, "read">,
  { limit, fromSeq, toSeq, filter }: LastTurns,
): Promise<number> {
  for (let width = limit * WIDTH_PER_TURN; ;) {
    const start = Math.max(fromSeq, toSeq - width + 1);
    // The whole part is read once, by the caller.
    if (start === fromSeq) return fromSeq;
    /** The event of each matching turn. */
    const seqs: number[] = [];
    const range = { fromSeq: start as Sequence, toSeq: toSeq as Sequence };
    for await (const stored of journal.read(id, range)) {
      const { seq } = stored;
      const { head } = decodeStored(stored);
      const turns = head.turns.length === 0 ? [undefined] : head.turns;
      for (const turn of turns) if (matchesTurn(head, turn, turn?.cause, filter)) seqs.push(seq);
    }
    if (seqs.length >= limit) return seqs.at(-limit)!;
    const wider = Math.ceil((WIDER_MIN * limit) / Math.max(1, seqs.length));
    width *= Math.min(WIDER_MAX, wider);
  }
}
