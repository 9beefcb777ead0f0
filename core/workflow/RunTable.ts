/**
 * The records of one workflow instance, in its own SQLite: the run, its steps, the events that wait
 * for it. Written by `Execution` and `WorkflowRun` only; replaying `run` reads nothing else.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { SqlValue } from "../database/Databases.ts";
import { numberOrNull, textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import type { StoredError } from "./errors.ts";

/** `report`: anything that is reported to the agent. `undo`: of undoing steps (`Undos`). */
export type StepKind = "do" | "sleep" | "waitForEvent" | "report" | "undo";

/** `waiting`: for an event, a time or an approval. `unknown`: never started. */
export type WorkflowStatus =
  | "queued"
  | "running"
  | "paused"
  | "errored"
  | "terminated"
  | "complete"
  | "waiting"
  | "waitingForPause"
  | "unknown";

export interface RunRecord {
  readonly workflowName: string;
  readonly agent: readonly [className: string, name: string] | undefined;
  readonly params: unknown;
  readonly startedMs: number;
  /** `waiting`, `paused` and `waitingForPause` are derived from the rest, and not stored. */
  readonly status: "queued" | "running" | "errored" | "terminated" | "complete";
  readonly paused: boolean;
  /** 1, incremented by each restart. Part of every key. */
  readonly generation: number;
  readonly output: unknown;
  readonly error: StoredError | undefined;
}

export interface StepRecord {
  readonly key: string;
  readonly kind: StepKind;
  /** In the order in which steps were asked for, from 1. */
  readonly position: number;
  /** The number of results that `run` had received when the step began. */
  readonly after: number;
  /** The place of its result in the order of results, from 1; null while it has none. */
  endedAt: number | null;
  attempts: number;
  failures: number;
  /** When a sleep, a wait or a pause before a retry ends. */
  dueMs: number | null;
  readonly eventType: string | null;
  /** JSON text. */
  result: string | null;
  error: StoredError | null;
}

interface StoredEvent {
  readonly id: number;
  readonly type: string;
  readonly payload: unknown;
  readonly timeMs: number;
}

/** The statuses of an instance whose `run` is over. */
export const ENDED: ReadonlySet<string> = new Set(["complete", "errored", "terminated"]);

/** The first statement of a restart, by which readers of an instance's journal recognize one. */
export const RESTART = "DELETE FROM workflow_steps";

const DDL = `CREATE TABLE IF NOT EXISTS workflow_run (
  id INTEGER PRIMARY KEY CHECK (id = 1), workflow_name TEXT NOT NULL, agent TEXT, params TEXT,
  started_ms INTEGER NOT NULL, status TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0,
  generation INTEGER NOT NULL DEFAULT 1, output TEXT, error TEXT);
CREATE TABLE IF NOT EXISTS workflow_steps (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, after INTEGER NOT NULL,
  ended_at INTEGER, attempts INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
  due_ms INTEGER, event_type TEXT, result TEXT, error TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workflow_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, payload TEXT, time_ms INTEGER NOT NULL)`;

/** The columns that `toStep` reads. `result`: SQL of the result. */
export const stepColumns = (result = "result"): string =>
  `key, kind, position, after, ended_at, attempts, failures, due_ms, event_type, ${result}, error`;

export class RunTable {
  private there = false;

  constructor(private readonly runtime: Pick<AgentWork, "query">) {}

  /** Undefined: no instance of this name was ever started. */
  run(): RunRecord | undefined {
    if (!this.exists()) return undefined;
    const [row] = this.rows(
      "SELECT workflow_name, agent, params, started_ms, status, paused, generation, output, error FROM workflow_run",
    );
    if (row === undefined) return undefined;
    return {
      workflowName: String(row[0]),
      agent: fromJson(row[1]) as RunRecord["agent"],
      params: fromJson(row[2]),
      startedMs: Number(row[3]),
      status: String(row[4]) as RunRecord["status"],
      paused: row[5] === 1,
      generation: Number(row[6]),
      output: fromJson(row[7]),
      error: fromJson(row[8]) as StoredError | undefined,
    };
  }

  begin(run: Pick<RunRecord, "workflowName" | "agent" | "params" | "startedMs">): void {
    this.make();
    this.runtime.query(
      "INSERT INTO workflow_run (id, workflow_name, agent, params, started_ms, status) VALUES (1, ?, ?, ?, ?, 'queued')",
      [run.workflowName, toText(run.agent), toText(run.params), run.startedMs],
    );
  }

  /**
   * The status is a literal, here and below, because an instance's history shows statements without
   * their bound values.
   */
  setStatus(status: RunRecord["status"], end: { output?: string; error?: StoredError } = {}): void {
    this.runtime.query(`UPDATE workflow_run SET status = '${status}', output = ?, error = ?`, [
      end.output ?? null,
      toText(end.error),
    ]);
  }

  setPaused(paused: boolean): void {
    this.runtime.query(`UPDATE workflow_run SET paused = ${paused ? 1 : 0}`, []);
  }

  /** Resets the run; its params stay. */
  restart(startedMs: number): void {
    this.runtime.query(RESTART, []);
    this.runtime.query("DELETE FROM workflow_events", []);
    this.runtime.query(
      "UPDATE workflow_run SET status = 'queued', paused = 0, output = NULL, error = NULL, generation = generation + 1, started_ms = ?",
      [startedMs],
    );
  }

  steps(): StepRecord[] {
    return this.rows(`SELECT ${stepColumns()} FROM workflow_steps ORDER BY position`).map(toStep);
  }

  /** Steps without a result that only wait, and those that run. */
  private open(): { readonly waiting: number; readonly running: number } {
    const [row] = this.rows(
      "SELECT coalesce(sum(due_ms IS NOT NULL), 0), coalesce(sum(due_ms IS NULL), 0) FROM workflow_steps WHERE ended_at IS NULL",
    );
    return { waiting: Number(row?.[0] ?? 0), running: Number(row?.[1] ?? 0) };
  }

  /** `isRunning`: a step of it runs in this process. */
  statusOf(run: RunRecord, isRunning: boolean): WorkflowStatus {
    if (ENDED.has(run.status)) return run.status;
    if (run.paused) return isRunning ? "waitingForPause" : "paused";
    if (run.status === "queued") return "queued";
    const { waiting, running } = this.open();
    return waiting > 0 && running === 0 ? "waiting" : "running";
  }

  /** Replaces the step's record. */
  put(step: StepRecord): void {
    this.runtime.query(
      `INSERT OR REPLACE INTO workflow_steps (${stepColumns()}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        step.key, step.kind, step.position, step.after, step.endedAt, step.attempts, step.failures,
        step.dueMs, step.eventType, step.result, toText(step.error ?? undefined),
      ], // prettier-ignore
    );
  }

  /** Stores an event, also before the run begins. */
  addEvent(type: string, payload: unknown, timeMs: number): void {
    this.make();
    this.runtime.query("INSERT INTO workflow_events (type, payload, time_ms) VALUES (?, ?, ?)", [
      type,
      toText(payload),
      timeMs,
    ]);
  }

  /** Takes the oldest waiting event of that type. */
  takeEvent(type: string): StoredEvent | undefined {
    const [row] = this.rows(
      "SELECT id, type, payload, time_ms FROM workflow_events WHERE type = ? ORDER BY id LIMIT 1",
      [type],
    );
    if (row === undefined) return undefined;
    this.runtime.query("DELETE FROM workflow_events WHERE id = ?", [row[0]!]);
    return {
      id: Number(row[0]),
      type: String(row[1]),
      payload: fromJson(row[2]),
      timeMs: Number(row[3]),
    };
  }

  private make(): void {
    if (this.exists()) return;
    for (const sql of DDL.split(";")) this.runtime.query(sql, []);
    this.there = true;
  }

  private exists(): boolean {
    return (this.there ||= tableExists(this.runtime, "workflow_run"));
  }

  private rows(sql: string, params: ReadonlyArray<SqlValue> = []) {
    return this.runtime.query(sql, params).rows;
  }
}

export const toStep = (row: ReadonlyArray<SqlValue>): StepRecord => ({
  key: String(row[0]),
  kind: String(row[1]) as StepKind,
  position: Number(row[2]),
  after: Number(row[3]),
  endedAt: numberOrNull(row[4]),
  attempts: Number(row[5]),
  failures: Number(row[6]),
  dueMs: numberOrNull(row[7]),
  eventType: textOrNull(row[8]),
  result: textOrNull(row[9]),
  error: (fromJson(row[10]) as StoredError | undefined) ?? null,
});

const toText = (value: unknown): string | null =>
  value === undefined ? null : JSON.stringify(value);
const fromJson = (text: SqlValue | undefined): unknown =>
  text === null || text === undefined ? undefined : JSON.parse(String(text));
