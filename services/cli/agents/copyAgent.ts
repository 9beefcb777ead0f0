/**
 * Creates a new agent from another's journal, up to an event: in the same installation for `agents
 * fork`, in a dev server for `agents dev --from`. Only the new agent's journal is written. As after
 * `agents import`, its schedules are armed and its queued items run, unless its life has ended.
 */
import { readFromBase } from "../../../core/journal/Beginnings.ts";
import { endsLife, erasedSince } from "../../../core/journal/endLife.ts";
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import { transplant } from "../../../core/journal/transplant.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { decodeEvent } from "../../../schemas/JournalEvent.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed, type CliError } from "../terminal/CliError.ts";
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
