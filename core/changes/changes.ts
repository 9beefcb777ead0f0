/**
 * All changes of all agents after a position, then new ones as they are stored: for `agents export
 * --follow`. The changes of one agent arrive in stored order, each once. Those of different agents
 * have no order.
 *
 * 1. Old events may have been trimmed from the journals into the archive. They are read agent by
 *    agent, up to where the journals end when the reading starts (a catch-up). The position of a
 *    catch-up names the last agent and event.
 * 2. Recent events can't have been trimmed (`KEPT_MS_MIN`), and are read stream by stream. A reader
 *    that was away for longer catches up first.
 * 3. A position covers every change that was returned before it. With the same agents, every
 *    process continues from it with the same changes.
 */
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { BackupEntry, JournalStream } from "../../schemas/BackupFile.ts";
import { KEPT_MS_MIN } from "../retention/HistoryLimits.ts";
import type { TimeShape } from "../time/Time.ts";
import type { ChangePosition } from "./ChangePosition.ts";
import type { JournalShape, StoredEvent } from "../journal/Journal.ts";

/** Rule 2: with room for clocks that differ and reads that take their time. */
const RECENT_MS = KEPT_MS_MIN / 2;
/** Pause before a journal at whose end one is, is asked again. */
const IDLE_MS = 250;

export interface ChangeSources {
  /** With the archive, where there is one. */
  readonly journal: Pick<JournalShape, "list" | "read">;
  /** The journals' streams, one for each stream group. */
  readonly streams: () => Promise<ReadonlyArray<JournalStream>>;
  /** The events of one stream group with `fromSeq <= seq <= toSeq`, in stored order. */
  readonly between: (
    group: number,
    range: { readonly fromSeq: number; readonly toSeq: number },
  ) => AsyncIterable<BackupEntry>;
  readonly groupOf: (id: AgentId) => number;
  readonly time: Pick<TimeShape, "nowMs" | "after">;
}

export interface Change {
  readonly id: AgentId;
  readonly event: StoredEvent;
  /** Continues with this change. */
  readonly before: ChangePosition;
  readonly after: ChangePosition;
}

export interface ChangesWanted {
  /** Default: all. */
  readonly className?: string | undefined;
  readonly name?: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Ends when `signal` fires. Rejects with `BrokerUnavailable`, after which it can begin again from
 * the last position, and as `archivedJournal` does.
 */
export async function* changes(
  sources: ChangeSources,
  from: ChangePosition,
  wanted: ChangesWanted,
): AsyncGenerator<Change, void, void> {
  const { time } = sources;
  let position = from;
  /** Everything after `position` was stored after this. Wall clock. */
  let sinceMs = -Infinity;
  while (!wanted.signal.aborted) {
    const nowMs = time.nowMs();
    if (position.catchUp !== undefined) {
      for await (const change of catchUp(sources, position, wanted)) yield change;
      if (!wanted.signal.aborted) position = { seqs: position.catchUp.to };
      continue;
    }
    const { seqs } = position;
    const ends = (await sources.streams()).map(({ end }) => end);
    if (ends.every((end, group) => end <= (seqs[group] ?? 0))) {
      sinceMs = nowMs;
      await pause(time, wanted.signal);
    } else if (nowMs - sinceMs > RECENT_MS) {
      const start: ChangePosition = { seqs, catchUp: { to: ends, agent: "", seq: 0 } };
      for await (const change of catchUp(sources, start, wanted)) yield change;
      position = { seqs: ends };
      sinceMs = nowMs;
    } else {
      for await (const change of recent(sources, { seqs, ends, sinceMs }, wanted)) {
        position = change.after;
        if (isWanted(change.id, wanted)) yield change;
      }
      // Else some are missing: rule 2 sees that it is late.
      if (time.nowMs() - sinceMs > RECENT_MS) continue;
      position = { seqs: ends };
      sinceMs = nowMs;
    }
  }
}

/** Rule 1. */
async function* catchUp(
  { journal, groupOf }: ChangeSources,
  { seqs, catchUp: at }: ChangePosition,
  wanted: ChangesWanted,
): AsyncGenerator<Change, void, void> {
  if (at === undefined) return;
  const ids = new Map<string, AgentId>();
  for await (const { id } of journal.list(wanted.className, wanted.name))
    if (addressKey(id) >= at.agent) ids.set(addressKey(id), id);
  let before: ChangePosition = { seqs, catchUp: at };
  for (const agent of [...ids.keys()].toSorted()) {
    const id = ids.get(agent)!;
    const group = groupOf(id);
    const read = Math.max(seqs[group] ?? 0, agent === at.agent ? at.seq : 0);
    const toSeq = at.to[group] ?? 0;
    if (read >= toSeq) continue;
    const range = { fromSeq: (read + 1) as Sequence, toSeq: toSeq as Sequence };
    for await (const event of journal.read(id, range)) {
      if (wanted.signal.aborted) return;
      const after = { seqs, catchUp: { to: at.to, agent, seq: event.seq } };
      yield { id, event, before, after };
      before = after;
    }
  }
}

/** Rule 2. Ends early when it takes too long. */
async function* recent(
  { between, time }: ChangeSources,
  { seqs, ends, sinceMs }: Record<"seqs" | "ends", ReadonlyArray<number>> & { sinceMs: number },
  { signal }: ChangesWanted,
): AsyncGenerator<Change, void, void> {
  let before: ChangePosition = { seqs };
  for (const [group, toSeq] of ends.entries()) {
    const fromSeq = (seqs[group] ?? 0) + 1;
    if (fromSeq > toSeq) continue;
    for await (const { id, seq, ...rest } of between(group, { fromSeq, toSeq })) {
      if (signal.aborted || time.nowMs() - sinceMs > RECENT_MS) return;
      const after = { seqs: before.seqs.with(group, seq) };
      yield { id, event: { ...rest, seq: seq as Sequence }, before, after };
      before = after;
    }
  }
}

const isWanted = (id: AgentId, { className, name }: ChangesWanted): boolean =>
  (className === undefined || id.class === className) && (name === undefined || id.name === name);

/** Resolves after a moment, or when the signal fires. */
function pause(time: Pick<TimeShape, "after">, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = time.after(IDLE_MS, done);
    function done(): void {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
