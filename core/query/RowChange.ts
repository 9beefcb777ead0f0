/**
 * What events of one agent that follow each other change in its row (`AgentRow`): what `afterEvent`
 * takes of one event, and what a host keeps of those that it has stored (`OwnEvents`). Without
 * causes and pages, which are most of an event, and with the last state alone. Pure.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import type { Schedule } from "../schedule/Schedule.ts";

export interface RowChange {
  /** Sequence of the event before the first one; 0: none, or it is not known. */
  readonly after: number;
  /** Sequences of the events, ascending. */
  readonly seqs: number[];
  /** When the last one was written, milliseconds since the epoch. */
  timeMs: number;
  /** The agent was destroyed: nothing of its row before them is left. */
  isNewLife: boolean;
  /** The last one ends the agent's life. */
  isEnd: boolean;
  /** Absent: they leave it as it is. */
  state: { readonly text: string | undefined } | undefined;
  pages: number | undefined;
  /** Sequences of the events of turns that ended with an error, once for each turn. */
  failed: number[];
  /** How the last turn ended; absent: they have no turn. */
  turn: { readonly error: string | undefined } | undefined;
  /** Removed first, and then added. */
  schedules: { readonly del: Set<string>; readonly put: Map<string, Schedule> } | undefined;
}

/** The change of one event, which leads to `state`; undefined: to the state before it. */
export function changeOf(seq: number, head: JournalHead, state: RowChange["state"]): RowChange {
  const { turns, schedules } = head;
  const isEnd = head.kind === "destroyed";
  const last = turns.at(-1);
  return {
    after: head.after ?? 0,
    seqs: [seq],
    timeMs: head.time,
    isNewLife: isEnd,
    isEnd,
    state,
    pages: head.pages,
    failed: turns.flatMap(({ error }) => (error === undefined ? [] : [seq])),
    turn: last && { error: last.error },
    schedules: schedules && {
      del: new Set(schedules.del),
      put: new Map(
        ((schedules.put ?? []) as ReadonlyArray<Schedule>).map((each) => [each.id, each]),
      ),
    },
  };
}

/** Adds a change that follows to the first one, in place: an agent may have thousands a second. */
export function extend(change: RowChange, later: RowChange): void {
  change.seqs.push(...later.seqs);
  change.timeMs = later.timeMs;
  change.isEnd = later.isEnd;
  if (later.isNewLife) {
    const { isNewLife, state, pages, failed, turn, schedules } = later;
    Object.assign(change, { isNewLife, state, pages, failed, turn, schedules });
    return;
  }
  change.state = later.state ?? change.state;
  change.pages = later.pages ?? change.pages;
  change.failed.push(...later.failed);
  change.turn = later.turn ?? change.turn;
  if (change.schedules === undefined) change.schedules = later.schedules;
  else if (later.schedules !== undefined) {
    const { del, put } = change.schedules;
    for (const id of later.schedules.del) {
      put.delete(id);
      del.add(id);
    }
    for (const [id, schedule] of later.schedules.put) put.set(id, schedule);
  }
}

/** Sequence of the last event. */
export const lastSeq = ({ seqs }: RowChange): number => seqs.at(-1)!;
