/**
 * A workflow instance as its records show it, at the point of its history at which its database
 * was rebuilt: the run, and a page of its steps with their state, their times and their places in
 * the graph. `StepTurns` reads from the journal which events stored a step. Feeds
 * `agents workflows` and the console, which show it without waking the instance.
 */
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { nameOfStep } from "../step/stepKey.ts";
import { UNDOING } from "../journal/AgentImage.ts";
import { undoKey } from "../step/undoSteps.ts";
import type { StoredError } from "./errors.ts";
import {
  ENDED,
  RESTART,
  RunTable,
  stepColumns,
  toStep,
  type RunRecord,
  type StepKind,
  type StepRecord,
  type WorkflowStatus,
} from "./RunTable.ts";
import { stepLanes, type StepPlace } from "./stepLanes.ts";

/** An event of the instance's journal. */
interface StoredAt {
  readonly seq: number;
  /** ISO 8601. */
  readonly time: string;
}

/** `stopped`: the run has ended without it. `retrying`: it waits for its next attempt. */
type StepState = "running" | "retrying" | "sleeping" | "waiting" | "done" | "failed" | "stopped";

/** What a step and its undo have in common. */
interface Effort {
  readonly state: StepState;
  /** Times that its function was begun; 0 for a step without one. */
  readonly attempts: number;
  /** Attempts that failed, and were retried. */
  readonly failures: number;
  readonly error?: StoredError;
  /** Absent where that event was trimmed. */
  readonly began?: StoredAt;
  /** Absent while it has not ended, and where that event was trimmed. */
  readonly ended?: StoredAt;
  /** When a sleep, a wait or the pause before a retry is over; ISO 8601. */
  readonly until?: string;
}

export interface RecordedStep extends Effort, StepPlace {
  /** `1:charge`. */
  readonly key: string;
  readonly name: string;
  /** Which call of that name it is, from 1. */
  readonly call: number;
  readonly kind: StepKind;
  /** In the order in which steps began. */
  readonly position: number;
  /** The type of the event that it waits for. */
  readonly eventType?: string;
  /** The beginning of its result as JSON. */
  readonly result?: string;
  /** Characters of the whole result, where that is longer. */
  readonly resultChars?: number;
  /** Absent: nothing has begun to undo it. */
  readonly undo?: Effort;
}

export interface RecordedRun {
  readonly workflow: string;
  readonly status: WorkflowStatus;
  /** When it was started, or restarted; ISO 8601. */
  readonly started: string;
  /** 1, and one more with each restart. */
  readonly generation: number;
  /** The agent that started it. */
  readonly agent?: readonly [className: string, name: string];
  /** Beginnings of JSON. */
  readonly params?: string;
  readonly output?: string;
  readonly error?: StoredError;
  /** Why its steps are being undone, or were. */
  readonly undoing?: StoredError;
  /** Events that no step has taken, the first types by name. */
  readonly events: ReadonlyArray<{ readonly type: string; readonly count: number }>;
  readonly counts: {
    readonly steps: number;
    readonly done: number;
    readonly failed: number;
    readonly undone: number;
  };
  /** The page, in the order in which they began. */
  readonly steps: ReadonlyArray<RecordedStep>;
  /** `to` of the page before it; absent: there are no earlier steps. */
  readonly earlier?: number;
  /** `to` of the page after it; absent: there are no later steps. */
  readonly later?: number;
}

interface RunPage {
  /** Position of the last step; undefined: the last one. */
  readonly to: number | undefined;
  readonly limit: number;
}

/** Characters of a result that a page has; the turn that stored the result has all of it. */
const SHOWN_CHARS = 200;
/** Types of events that a page lists: code waits for few. */
const EVENT_TYPES_MAX = 20;

type Query = Pick<AgentDatabase, "query">;

/** An instance's events, as they come from its journal. Fed in order. */
export class StepTurns {
  private readonly found = new Map<string, { readonly began: StoredAt; last: StoredAt }>();

  add(seq: number, { time, turns }: Pick<JournalHead, "time" | "turns">): void {
    for (const { cause, sql, restored } of turns) {
      if (sql?.includes(RESTART) === true) this.found.clear();
      if (restored !== undefined) this.forgetAfter(restored.time);
      if (cause.kind !== "workflow" || cause.id === undefined) continue;
      const at = { seq, time: new Date(time).toISOString() };
      const known = this.found.get(cause.id);
      if (known === undefined) this.found.set(cause.id, { began: at, last: at });
      else known.last = at;
    }
  }

  /** A restore removes the records of steps that began after the point it goes back to. */
  private forgetAfter(timeMs: number): void {
    const point = new Date(timeMs).toISOString();
    for (const [key, { began }] of this.found) if (began.time > point) this.found.delete(key);
  }

  /** The first and the last event that the record of that key was written with. */
  of(key: string): { readonly began: StoredAt; readonly last: StoredAt } | undefined {
    return this.found.get(key);
  }
}

/** Returns undefined if it is not the database of a workflow instance that has begun. */
export const runOf = (database: Query): RunRecord | undefined => tableOf(database).run();

/** Returns undefined if it is not the database of a workflow instance that has begun. */
export function recordedRun(
  database: Query,
  turns: StepTurns,
  { to = Infinity, limit }: RunPage,
): RecordedRun | undefined {
  const table = tableOf(database);
  const run = table.run();
  if (run === undefined) return undefined;
  const isOver = ENDED.has(run.status);
  const rows = rowsOf(database);
  const all = rows.filter(({ kind }) => kind !== "undo");
  const undos = new Map(rows.filter(({ kind }) => kind === "undo").map((row) => [row.key, row]));
  const undoing = undos.get(UNDOING)?.result;
  const places = stepLanes(all);
  const end = all.findLastIndex(({ position }) => position <= to) + 1;
  const start = Math.max(0, end - limit);
  const steps = all.slice(start, end).map((row, n): RecordedStep => {
    const undo = undos.get(undoKey(row.key));
    const effort = effortOf(row, turns, isOver);
    return {
      ...stepOf(row),
      ...effort,
      ...places[start + n]!,
      ...(undo && { undo: effortOf(undo, turns, isOver) }),
    };
  });
  const next = all[Math.min(all.length, end + limit) - 1];
  return {
    workflow: run.workflowName,
    status: table.statusOf(run, false),
    started: isoOf(run.startedMs),
    generation: run.generation,
    ...(run.agent === undefined ? {} : { agent: run.agent }),
    ...(run.params === undefined ? {} : { params: shortened(JSON.stringify(run.params)) }),
    ...(run.output === undefined ? {} : { output: shortened(JSON.stringify(run.output)) }),
    ...(run.error === undefined ? {} : { error: run.error }),
    ...(undoing == null ? {} : { undoing: JSON.parse(undoing) as StoredError }),
    events: eventsOf(database),
    counts: {
      steps: all.length,
      done: all.filter(({ endedAt, error }) => endedAt !== null && error === null).length,
      failed: all.filter(({ error }) => error !== null).length,
      undone: all.filter(({ key }) => isDone(undos.get(undoKey(key)))).length,
    },
    steps,
    ...(start > 0 && { earlier: all[start - 1]!.position }),
    ...(end < all.length && { later: next!.position }),
  };
}

const isDone = (row: Row | undefined): boolean =>
  row != null && row.endedAt !== null && row.error === null;

const tableOf = (database: Query): RunTable =>
  new RunTable({ query: (sql, params) => database.query(sql, params) });

/** `result` has the first characters of a step's; the whole of an undo's. */
interface Row extends Readonly<StepRecord> {
  readonly resultChars: number;
}

/** In the order in which they began. */
function rowsOf(database: Query): ReadonlyArray<Row> {
  const result = `iif(kind = 'undo', result, substr(result, 1, ${SHOWN_CHARS}))`;
  const sql = `SELECT ${stepColumns(result)}, coalesce(length(result), 0) FROM workflow_steps ORDER BY position`;
  return database.query(sql, []).rows.map((row) => ({
    ...toStep(row),
    resultChars: Number(row.at(-1)),
  }));
}

const stepOf = ({ key, kind, position, eventType, result, resultChars }: Row) => ({
  key,
  name: nameOfStep(key),
  call: Number.parseInt(key, 10),
  kind,
  position,
  ...(eventType === null ? {} : { eventType }),
  ...(result === null ? {} : { result }),
  ...(resultChars > SHOWN_CHARS && { resultChars }),
});

function effortOf(row: Row, turns: StepTurns, isOver: boolean): Effort {
  const { key, endedAt, attempts, failures, dueMs, error } = row;
  const stored = turns.of(key);
  return {
    state: stateOf(row, isOver),
    attempts,
    failures,
    ...(error === null ? {} : { error }),
    ...(stored && { began: stored.began }),
    ...(stored && endedAt !== null && { ended: stored.last }),
    ...(endedAt === null && dueMs !== null && { until: isoOf(dueMs) }),
  };
}

function stateOf({ kind, endedAt, error, dueMs }: Row, isOver: boolean): StepState {
  if (endedAt !== null) return error === null ? "done" : "failed";
  if (isOver) return "stopped";
  if (kind === "sleep") return "sleeping";
  if (kind === "waitForEvent") return "waiting";
  return dueMs === null ? "running" : "retrying";
}

function eventsOf(database: Query): RecordedRun["events"] {
  const sql = `SELECT type, count(*) FROM workflow_events GROUP BY type ORDER BY type LIMIT ${EVENT_TYPES_MAX}`;
  return database
    .query(sql, [])
    .rows.map(([type, count]) => ({ type: String(type), count: Number(count) }));
}

const shortened = (text: string): string =>
  text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;

const isoOf = (ms: number): string => new Date(ms).toISOString();
