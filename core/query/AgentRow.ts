/**
 * One agent as the view has it (`View`): a projection of its journal that is small enough to keep
 * for all agents. `afterChange` is the one function that applies events to it; what trimmed events
 * would say is read from the rebuilt agent, by `rowOf`. Pure.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import type { Rebuilt } from "../journal/rebuildAgent.ts";
import { applyState } from "../journal/stateChange.ts";
import { ScheduleTable, toSchedule } from "../schedule/ScheduleTable.ts";
import type { Schedule } from "../schedule/Schedule.ts";
import { changeOf, lastSeq, type RowChange } from "./RowChange.ts";

export interface AgentRow {
  /** Sequence of the last event in it; 0: none. */
  readonly seq: number;
  /** When that event was written, milliseconds since the epoch. */
  readonly timeMs: number;
  /** JSON text; undefined: it was never set. */
  readonly state: string | undefined;
  /** Size of the agent's database. */
  readonly pages: number;
  /** Turns that ended with an error, of the events that were read one by one. */
  readonly errors: number;
  /** The error of the last turn; undefined: it had none. */
  readonly error: string | undefined;
  readonly schedules: ReadonlyMap<string, Schedule>;
  /** Why the row is older than the journal: an event is damaged. */
  readonly fault: string | undefined;
  /** The agent was destroyed and has written nothing since: it has no row. */
  readonly ended: boolean;
}

/** Before the first event. */
export const NO_ROW: AgentRow = {
  seq: 0,
  timeMs: 0,
  state: undefined,
  pages: 0,
  errors: 0,
  error: undefined,
  schedules: new Map(),
  fault: undefined,
  ended: true,
};

/** Throws `CorruptFrame` for a change of a state that is not the row's. */
export function afterEvent(before: AgentRow, seq: number, head: JournalHead): AgentRow {
  const start = head.kind === "destroyed" ? NO_ROW.state : before.state;
  let state: RowChange["state"];
  for (const turn of head.turns)
    if (turn.state !== undefined)
      state = { text: applyState(state === undefined ? start : state.text, turn.state) };
  return afterChange(before, changeOf(seq, head, state));
}

/** The row may have the first events of the change already. */
export function afterChange(row: AgentRow, change: RowChange): AgentRow {
  const before = change.isNewLife ? NO_ROW : row;
  const { state } = change.state === undefined ? before : { state: change.state.text };
  const pages = change.pages ?? before.pages;
  return {
    seq: lastSeq(change),
    timeMs: change.timeMs,
    state,
    pages,
    ...afterTurns(before, change),
    schedules: schedulesAfter(before.schedules, change.schedules),
    fault: undefined,
    // An event that replaces an end contains what the agent has afterwards (`eventOfBase`).
    ended: change.isEnd && state === undefined && pages === 0,
  };
}

/**
 * Whether the event leaves open what is scheduled after it: it stands for events that are not here,
 * and the rows are in its pages alone (`eventOfBase`).
 */
export const hidesSchedules = ({ schedules }: JournalHead): boolean =>
  schedules !== undefined && schedules.put === undefined && schedules.del === undefined;

/**
 * The row of a rebuilt agent. `before`: its row until now. `change`: the one that it was rebuilt
 * for, whose errors count; undefined: it was rebuilt for none.
 */
export function rowOf(
  { image, database }: Rebuilt,
  before: AgentRow,
  change: RowChange | undefined,
): AgentRow {
  const { errors, error } = change === undefined ? before : afterTurns(before, change);
  return {
    seq: image.seq,
    timeMs: image.timeMs,
    state: image.state,
    pages: image.pages,
    errors,
    error: change === undefined || image.seq === lastSeq(change) ? error : undefined,
    schedules: new Map(new ScheduleTable(database).all().map((row) => [row.id, toSchedule(row)])),
    fault: undefined,
    ended: image.seq === image.life && image.state === undefined && image.pages === 0,
  };
}

function afterTurns(
  before: Pick<AgentRow, "seq" | "errors" | "error">,
  { failed, turn }: Pick<RowChange, "failed" | "turn">,
): Pick<AgentRow, "errors" | "error"> {
  return {
    errors: before.errors + failed.filter((seq) => seq > before.seq).length,
    error: turn === undefined ? before.error : turn.error,
  };
}

function schedulesAfter(
  before: AgentRow["schedules"],
  change: RowChange["schedules"],
): AgentRow["schedules"] {
  if (change === undefined) return before;
  const after = new Map(before);
  for (const id of change.del) after.delete(id);
  for (const [id, schedule] of change.put) after.set(id, schedule);
  return after;
}
