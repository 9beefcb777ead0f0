/**
 * The event that puts an agent back to an earlier point of its history, for `agents restore`: state
 * and database are what they were then, schedules and queue with them. It is an event like any
 * other, a change of state and a page delta, so every release can read it and a later one can take
 * it back.
 *
 * 1. Done keys are not put back: an input that was applied after that point stays done, and its
 *    redelivery does not apply again. Nor is what was sent (`keepSent`).
 * 2. Inputs that are begun stay begun, and so do jobs whose rows `keepSent` keeps, such as durable
 *    calls: done steps do not run again. Any other job's attempts begin anew, with its row.
 * 3. The event itself is done by its key, so that a repeated request finds it.
 */
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { pageCount, pageDeltaBetween } from "../../schemas/PageDelta.ts";
import type { Epoch } from "../../schemas/Address.ts";
import { stateTextOf, type Snapshot } from "../../schemas/Snapshot.ts";
import type { AgentDatabase, DatabasesShape } from "../database/Databases.ts";
import { QueueTable, toQueueItem } from "../queue/QueueTable.ts";
import { earliest } from "../schedule/planAlarms.ts";
import { ScheduleTable, toSchedule, type ScheduleRow } from "../schedule/ScheduleTable.ts";
import type { TimeShape } from "../time/Time.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import { keepSent } from "./keepSent.ts";
import { rowChanges, type RowChanges } from "../journal/RowChanges.ts";
import { diffState } from "../journal/stateChange.ts";
import { defined } from "../collections/defined.ts";

interface Restoring {
  readonly head: JournalHead;
  /** The event's frame. */
  readonly data: Uint8Array;
  /** The schedule that is due first afterwards: the broker needs its timer before the event. */
  readonly first: ScheduleRow | undefined;
}

interface RestoreOptions {
  readonly image: AgentImage;
  /** The agent's, as committed. It is read by SQL. */
  readonly database: AgentDatabase;
  readonly databases: Pick<DatabasesShape, "open">;
  readonly to: Snapshot;
  readonly key: string;
  readonly host: string;
  readonly epoch: Epoch;
  readonly time: Pick<TimeShape, "id" | "nowMs">;
}

export function restoreEvent(options: RestoreOptions): Restoring {
  const { image, database, databases, to, key, host, epoch, time } = options;
  const past = databases.open(image.id).database;
  try {
    past.restore(to.image);
    const now = database.image();
    keepSent(database, past);
    const then = past.image();
    const changed = now.length + then.length > 0;
    const delta = changed ? pageDeltaBetween(now, then) : new Uint8Array(0);
    const text = stateTextOf(to.head);
    const state = JSON.parse(
      diffState(image.state, text, image.stateIsExact),
    ) as TurnRecord["state"];
    const [schedulesNow, schedulesThen] = [schedulesOf(database), schedulesOf(past)];
    const schedules = changesOf(schedulesNow.map(toSchedule), schedulesThen.map(toSchedule));
    const queue = changesOf(queueOf(database), queueOf(past));
    const nowMs = time.nowMs();
    const turn: TurnRecord = {
      cause: { kind: "background", id: key, time: nowMs },
      ...(image.state === text || state === undefined ? {} : { state }),
      done: [key],
      restored: { seq: to.head.seq, time: to.head.time },
    };
    const head: JournalHead = {
      id: time.id(),
      agent: [image.id.class, image.id.name],
      kind: "turns",
      host,
      epoch,
      time: nowMs,
      turns: [turn],
      after: image.seq,
      ...(changed ? { pages: pageCount(then) } : {}),
      ...defined({ schedules, queue }),
    };
    return { head, data: encodeEvent(head, delta), first: earliest(schedulesThen) };
  } finally {
    past.close();
  }
}

function schedulesOf(database: AgentDatabase): ReadonlyArray<ScheduleRow> {
  const table = new ScheduleTable(database);
  return table.exists ? table.all() : [];
}

const queueOf = (database: AgentDatabase) => new QueueTable(database).all().map(toQueueItem);

/** Rows that are other ones now, or are gone, are put; rows that were not there are removed. */
function changesOf(
  now: ReadonlyArray<{ readonly id: string }>,
  then: ReadonlyArray<{ readonly id: string }>,
): RowChanges | undefined {
  const texts = new Map(now.map((row) => [row.id, JSON.stringify(row)]));
  const put = then.filter((row) => texts.get(row.id) !== JSON.stringify(row));
  for (const row of then) texts.delete(row.id);
  return rowChanges(put, [...texts.keys()]);
}
