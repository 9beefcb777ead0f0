/**
 * Creates a new agent from another's journal, up to an event: in the same installation for `agents
 * fork`, in a dev server for `agents dev --from`. Only the new agent's journal is written. As after
 * `agents import`, its schedules are armed and its queued items run, unless its life has ended.
 */
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { endsLife, erasedSince } from "../../../core/journal/endLife.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import { transplant } from "../../../core/journal/transplant.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { listSubAgents } from "../../../core/subAgent/SubAgentTable.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { agentPath, idOfPath } from "../../../schemas/AgentPath.ts";
import { counted } from "../../../schemas/counted.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed, type CliError } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { baseAsEvent } from "./baseAsEvent.ts";
import { freePlace, storeEvent } from "./newJournal.ts";
import { armTimers, wakeAgent } from "./wakeAgent.ts";

interface Copy {
  readonly from: AgentId;
  readonly to: AgentId;
  /** The last event to copy. */
  readonly toSeq: Sequence;
  /** What to do if an agent of the new name exists. */
  readonly advice: string;
}

/** The numbers of copied events and armed timers. */
interface Copied {
  readonly events: number;
  readonly timers: number;
}

/**
 * Throws `CliError` if an agent of the new name exists, or if the other one is erased meanwhile;
 * else as `readFromBase`.
 */
export async function copyAgent(
  source: Pick<ReadPorts, "journal" | "snapshots">,
  target: ReadPorts,
  time: Pick<TimeShape, "id" | "nowMs">,
  { from, to, toSeq, advice }: Copy,
): Promise<Copied> {
  const { seq, epoch } = await freePlace(target, to, advice);
  let last = seq;
  let events = 0;
  let copied = 0;
  let end: Uint8Array | undefined;
  const incomplete = (): CliError =>
    failed(
      `The history of ${addressKey(from)} was removed while it was copied: ${addressKey(to)} has only a part of it. Erase ${addressKey(to)} (agents erase).`,
    );
  try {
    for await (const read of readFromBase(from, source, { toSeq })) {
      const event = read._tag === "Event" ? read.event : baseAsEvent(read);
      last = await storeEvent(target, to, transplant(event.data, { id: to, epoch }), last);
      copied = event.seq;
      end = event.data;
      events++;
    }
  } catch (error) {
    throw error instanceof HistoryTrimmed && events > 0 ? incomplete() : error;
  }
  if (end === undefined) return { events, timers: 0 };
  if (await erasedSince(from, copied, source.journal)) throw incomplete();
  // A host would start a destroyed agent as a new one.
  if (endsLife(decodeEvent(end).head)) return { events, timers: 0 };
  const timers = await armTimers(target, to);
  await wakeAgent(target, time, to);
  return { events, timers };
}

/** Names in one line; `agents list` has all. */
const NAMED_MAX = 20;

/** How an agent came to its new place, for the warning. */
const VERBS = {
  copied: "Copy",
  imported: "Import",
} as const;

/**
 * Names the sub-agents that a copy of an agent has not: each has a journal of its own. The list of
 * them is part of the copy, so that the loss would show only in their state. `atSeq`: the event
 * that was copied last. The names are those below `original`, by default the agent itself.
 */
export async function warnOfSubAgents(
  { journal, snapshots, databases }: Pick<ReadPorts, "journal" | "snapshots" | "databases">,
  terminal: Pick<Terminal, "err">,
  id: AgentId,
  atSeq: Sequence,
  { done, original }: { readonly done: keyof typeof VERBS; readonly original: AgentId } = {
    done: "copied",
    original: id,
  },
): Promise<void> {
  const { database } = await rebuildAgent(id, { journal, snapshots, databases, atSeq });
  try {
    const names = listSubAgents(database).map(({ className, name }) =>
      addressKey(idOfPath([...agentPath(original), { className, name }])),
    );
    if (names.length === 0) return;
    const more = names.length > NAMED_MAX ? `, and ${names.length - NAMED_MAX} more` : "";
    terminal.err(
      `Not ${done} with it: ${counted(names.length, "sub-agent")} (${names.slice(0, NAMED_MAX).join(", ")}${more}). ${VERBS[done]} each by itself.`,
    );
  } finally {
    database.close();
  }
}
