/**
 * What undoing parts changes in an agent's schedules and queue, as the event lists it: rows that
 * the parts added are removed, and rows that they removed are back. For people and for checkers of
 * journals; replay uses the pages.
 */
import type { Sequence } from "../../schemas/Address.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { QueueTable, toQueueItem } from "../queue/QueueTable.ts";
import { ScheduleTable, toSchedule } from "../schedule/ScheduleTable.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { JournalShape } from "../journal/Journal.ts";
import type { OpenParts } from "../journal/OpenParts.ts";
import { rowChanges, type RowChanges } from "../journal/RowChanges.ts";
import { defined } from "../collections/defined.ts";

type Rows = Pick<JournalHead, "schedules" | "queue">;

/** `past`: the database before the parts. Rejects with `BrokerUnavailable` or `CorruptFrame`. */
export async function restoredRows(
  image: AgentImage,
  parts: OpenParts,
  journal: Pick<JournalShape, "read">,
  past: AgentDatabase,
): Promise<Rows> {
  const touched = { schedules: new Set<string>(), queue: new Set<string>() };
  const range = { fromSeq: parts.since as Sequence, toSeq: image.seq };
  for await (const { data } of journal.read(image.id, range)) {
    const { head } = decodeEvent(data);
    for (const kind of ["schedules", "queue"] as const)
      for (const id of idsOf(head[kind])) touched[kind].add(id);
  }
  if (touched.schedules.size + touched.queue.size === 0) return {};
  const scheduleTable = new ScheduleTable(past);
  const queueTable = new QueueTable(past);
  const schedules = changesOf(touched.schedules, (id) => {
    const row = scheduleTable.exists ? scheduleTable.get(id) : undefined;
    return row === undefined ? undefined : toSchedule(row);
  });
  const queue = changesOf(touched.queue, (id) => {
    const row = queueTable.exists ? queueTable.get(id) : undefined;
    return row === undefined ? undefined : toQueueItem(row);
  });
  return {
    ...defined({ schedules, queue }),
  };
}

/** A row that was there before is put again, whole; any other is gone. */
function changesOf(
  ids: ReadonlySet<string>,
  rowOf: (id: string) => unknown,
): RowChanges | undefined {
  const put: unknown[] = [];
  const del: string[] = [];
  for (const id of ids) {
    const row = rowOf(id);
    if (row === undefined) del.push(id);
    else put.push(row);
  }
  return rowChanges(put, del);
}

const idsOf = (rows: RowChanges | undefined): string[] => [
  ...(rows?.put ?? []).map((row) => String((row as { readonly id?: unknown }).id)),
  ...(rows?.del ?? []),
];
