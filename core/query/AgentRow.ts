/**
 * One agent as the view has it (`View`): a projection of its journal that is small enough to keep
 * for all agents. `afterEvent` is the one function that applies an event to it; what trimmed events
 * would say is read from the rebuilt agent, by `rowOf`. Pure.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import type { Rebuilt } from "../journal/rebuildAgent.ts";
import { applyState } from "../journal/stateChange.ts";
import { ScheduleTable, toSchedule } from "../schedule/ScheduleTable.ts";
import type { Schedule } from "../schedule/Schedule.ts";

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
  const isEnd = head.kind === "destroyed";
  let { state } = isEnd ? NO_ROW : before;
  for (const turn of head.turns)
    if (turn.state !== undefined) state = applyState(state, turn.state);
  const pages = head.pages ?? (isEnd ? 0 : before.pages);
  return {
    seq,
    timeMs: head.time,
    state,
    pages,
    ...afterTurns(isEnd ? NO_ROW : before, head),
    schedules: schedulesAfter(isEnd ? NO_ROW.schedules : before.schedules, head.schedules),
    fault: undefined,
    // An event that replaces an end contains what the agent has afterwards (`eventOfBase`).
    ended: isEnd && state === undefined && pages === 0,
  };
}

/**
 * Whether the event leaves open what is scheduled after it: it stands for events that are not here,
 * and the rows are in its pages alone (`eventOfBase`).
 */
export const hidesSchedules = ({ schedules }: JournalHead): boolean =>
  schedules !== undefined && schedules.put === undefined && schedules.del === undefined;

/**
 * The row of a rebuilt agent. `before`: its row until now. `event`: the one that it was rebuilt
 * for, whose errors count.
 */
export function rowOf(
  { image, database }: Rebuilt,
  before: AgentRow,
  event: Pick<JournalHead, "turns"> & { readonly seq: number },
): AgentRow {
  const { errors, error } = afterTurns(before, event);
  return {
    seq: image.seq,
    timeMs: image.timeMs,
    state: image.state,
    pages: image.pages,
    errors,
    error: image.seq === event.seq ? error : undefined,
    schedules: new Map(new ScheduleTable(database).all().map((row) => [row.id, toSchedule(row)])),
    fault: undefined,
    ended: image.seq === image.life && image.state === undefined && image.pages === 0,
  };
}

function afterTurns(
  before: Pick<AgentRow, "errors" | "error">,
  { turns }: Pick<JournalHead, "turns">,
): Pick<AgentRow, "errors" | "error"> {
  const failed = turns.filter(({ error }) => error !== undefined).length;
  const last = turns.at(-1);
  return {
    errors: before.errors + failed,
    error: last === undefined ? before.error : last.error,
  };
}

function schedulesAfter(
  before: AgentRow["schedules"],
  change: JournalHead["schedules"],
): AgentRow["schedules"] {
  if (change === undefined) return before;
  const after = new Map(before);
  for (const id of change.del ?? []) after.delete(id);
  for (const schedule of (change.put ?? []) as ReadonlyArray<Schedule>)
    after.set(schedule.id, schedule);
  return after;
}
