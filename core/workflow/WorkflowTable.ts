/**
 * `cf_agents_workflows`: the workflows that an agent has started, as far as it knows (`protocol.md`
 * §7). A table of the agent's own database, which users may read. Created with the first row.
 */
import { fromBase64, toBase64 } from "../../schemas/base64.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import { timeOf } from "../errors/timeOf.ts";
import { toJson } from "../journal/jsonText.ts";
import type { SqlValue } from "../database/Databases.ts";
import { tableExists } from "../database/tableExists.ts";
import { ENDED, type WorkflowStatus } from "./RunTable.ts";

/** Options of `runWorkflow`. */
export interface RunWorkflowOptions {
  /** Id of the instance, unique within the workflow. Default: `wf_` and a random id. */
  readonly id?: string;
  /** JSON that `getWorkflow` and `getWorkflows` return with the instance. Default: none. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Accepted and ignored: an instance knows its agent. */
  readonly agentBinding?: string;
  /** Accepted and ignored: instances are kept until they are destroyed. */
  readonly retention?: unknown;
}

/** A tracked instance, as its agent knows it. */
export interface WorkflowInfo {
  readonly id: string;
  readonly workflowId: string;
  readonly workflowName: string;
  readonly status: WorkflowStatus;
  readonly metadata: Record<string, unknown> | null;
  readonly error: { readonly name: string; readonly message: string } | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly completedAt: Date | null;
}

/** A page of tracked instances. */
export interface WorkflowPage {
  readonly workflows: WorkflowInfo[];
  /** Number of all that match, whatever the page. */
  readonly total: number;
  /** For the next page; null on the last. */
  readonly nextCursor: string | null;
}

/** A filter of tracked instances: those that meet all given criteria; and which page of them. */
export interface WorkflowQueryCriteria {
  readonly workflowName?: string;
  readonly status?: WorkflowStatus | ReadonlyArray<WorkflowStatus>;
  /** Fields that the metadata has, exactly. */
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  /** 1 to 100; default 100. */
  readonly limit?: number;
  readonly offset?: number;
  /** By creation; default `desc`. */
  readonly orderBy?: "asc" | "desc";
  /** `nextCursor` of the page before; null: the first page. */
  readonly cursor?: string | null;
}

/** Criteria of `deleteWorkflows`: the filter of `getWorkflows`, which ignores the page. */
export interface WorkflowDeleteCriteria extends WorkflowQueryCriteria {
  /** Only instances that were tracked before it. */
  readonly createdBefore?: Date;
}

/** If a misspelt criterion were ignored, `deleteWorkflows` would delete too much. */
const CRITERIA: ReadonlySet<string> = new Set([
  "workflowName", "status", "metadata", "limit", "offset", "orderBy", "cursor",
] satisfies ReadonlyArray<keyof WorkflowQueryCriteria>); // prettier-ignore
const DELETE_CRITERIA: ReadonlySet<string> = new Set([...CRITERIA, "createdBefore"]);

const STATUSES: ReadonlyArray<WorkflowStatus> = [
  "queued", "running", "paused", "errored", "terminated", "complete", "waiting", "waitingForPause",
  "unknown",
]; // prettier-ignore

export const WORKFLOWS_TABLE = "cf_agents_workflows";
const DDL = `CREATE TABLE IF NOT EXISTS ${WORKFLOWS_TABLE} (
  id TEXT PRIMARY KEY NOT NULL,
  workflow_id TEXT NOT NULL UNIQUE,
  workflow_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN (${STATUSES.map((status) => `'${status}'`).join(", ")})),
  metadata TEXT,
  error_name TEXT,
  error_message TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  completed_at INTEGER
)`;
const INDEX = `CREATE INDEX IF NOT EXISTS idx_${WORKFLOWS_TABLE} ON ${WORKFLOWS_TABLE} (created_at, workflow_id)`;
const COLUMNS =
  "id, workflow_id, workflow_name, status, metadata, error_name, error_message, created_at, updated_at, completed_at";

/** `protocol.md` §0, limits. */
const LIMIT_MAX = 100;
const MS_PER_SECOND = 1000;

export class WorkflowTable {
  constructor(private readonly runtime: Pick<AgentWork, "query" | "time">) {}

  /** Throws if the id exists. */
  add(row: {
    readonly workflowId: string;
    readonly workflowName: string;
    readonly metadata: unknown;
  }): void {
    const { workflowId, workflowName, metadata } = row;
    if (this.get(workflowId) !== undefined)
      throw new Error(`Workflow with ID "${workflowId}" is already being tracked`);
    this.make();
    const { time } = this.runtime;
    this.runtime.query(
      `INSERT INTO ${WORKFLOWS_TABLE} (id, workflow_id, workflow_name, status, metadata, created_at, updated_at) VALUES (?, ?, ?, 'queued', ?, ?, ?)`,
      [
        time.id(), workflowId, workflowName,
        toJson(metadata, "runWorkflow: the metadata"), this.now(), this.now(),
      ], // prettier-ignore
    );
  }

  get(workflowId: string): WorkflowInfo | undefined {
    return this.select("WHERE workflow_id = ?", [workflowId])[0];
  }

  /** Sets the status of a tracked instance, unless its present one is among `unless`. */
  setStatus(
    workflowId: string,
    status: WorkflowStatus,
    options: { readonly unless?: ReadonlyArray<WorkflowStatus>; readonly error?: string } = {},
  ): void {
    const before = this.get(workflowId);
    if (before === undefined || options.unless?.includes(before.status) === true) return;
    const { error } = options;
    this.runtime.query(
      `UPDATE ${WORKFLOWS_TABLE} SET status = ?, error_name = ?, error_message = ?, updated_at = ?, completed_at = ? WHERE workflow_id = ?`,
      [
        status,
        error === undefined ? null : "WorkflowError",
        error ?? null,
        this.now(),
        ENDED.has(status) ? this.now() : null,
        workflowId,
      ],
    );
  }

  /** Resets the instance to its state at its start. */
  reset(workflowId: string): void {
    this.runtime.query(
      `UPDATE ${WORKFLOWS_TABLE} SET status = 'queued', error_name = NULL, error_message = NULL, created_at = ?, updated_at = ?, completed_at = NULL WHERE workflow_id = ?`,
      [this.now(), this.now(), workflowId],
    );
  }

  /** Throws for an invalid cursor and for an unknown criterion. */
  page(criteria: WorkflowQueryCriteria): WorkflowPage {
    checkOptions("getWorkflows", criteria, CRITERIA);
    const { limit: asked = LIMIT_MAX, offset = 0, orderBy = "desc", cursor = null } = criteria;
    const limit = Math.min(Math.max(1, Math.floor(asked)), LIMIT_MAX);
    const from = cursor === null ? undefined : readCursor(cursor);
    if (!this.exists()) return { workflows: [], total: 0, nextCursor: null };
    const { where, params } = conditions(criteria);
    const total = Number(
      this.runtime.query(`SELECT count(*) FROM ${WORKFLOWS_TABLE} ${whereOf(where)}`, params)
        .rows[0]![0],
    );
    if (from !== undefined) {
      where.push(`(created_at, workflow_id) ${orderBy === "asc" ? ">" : "<"} (?, ?)`);
      params.push(from.c, from.i);
    }
    const order = orderBy === "asc" ? "ASC" : "DESC";
    const found = this.select(
      `${whereOf(where)} ORDER BY created_at ${order}, workflow_id ${order} LIMIT ? OFFSET ?`,
      [...params, limit + 1, Math.max(0, Math.floor(offset))],
    );
    const workflows = found.slice(0, limit);
    const last = workflows.at(-1);
    const more = found.length > limit && last !== undefined;
    return { workflows, total, nextCursor: more ? cursorOf(last) : null };
  }

  remove(workflowId: string): boolean {
    if (this.get(workflowId) === undefined) return false;
    this.runtime.query(`DELETE FROM ${WORKFLOWS_TABLE} WHERE workflow_id = ?`, [workflowId]);
    return true;
  }

  /** Returns the number of deleted rows. Throws for an unknown criterion and an invalid date. */
  removeAll(criteria: WorkflowDeleteCriteria): number {
    checkOptions("deleteWorkflows", criteria, DELETE_CRITERIA);
    const { createdBefore } = criteria;
    const beforeMs = timeOf("deleteWorkflows: createdBefore", createdBefore);
    if (!this.exists()) return 0;
    const { where, params } = conditions(criteria);
    if (beforeMs !== undefined) {
      where.push("created_at < ?");
      params.push(Math.floor(beforeMs / MS_PER_SECOND));
    }
    return this.runtime.query(`DELETE FROM ${WORKFLOWS_TABLE} ${whereOf(where)}`, params)
      .rowsWritten;
  }

  /** Returns the number of renamed rows. */
  rename(before: string, after: string): number {
    if (!this.exists()) return 0;
    const sql = `UPDATE ${WORKFLOWS_TABLE} SET workflow_name = ? WHERE workflow_name = ?`;
    return this.runtime.query(sql, [after, before]).rowsWritten;
  }

  private now(): number {
    return Math.floor(this.runtime.time.nowMs() / MS_PER_SECOND);
  }

  private make(): void {
    if (this.exists()) return;
    this.runtime.query(DDL, []);
    this.runtime.query(INDEX, []);
  }

  /** Users may drop the table; then it has no rows. */
  private exists(): boolean {
    return tableExists(this.runtime, WORKFLOWS_TABLE);
  }

  private select(rest: string, params: ReadonlyArray<SqlValue>): WorkflowInfo[] {
    if (!this.exists()) return [];
    const { rows } = this.runtime.query(
      `SELECT ${COLUMNS} FROM ${WORKFLOWS_TABLE} ${rest}`,
      params,
    );
    return rows.map(toInfo);
  }
}

/** The instances that an agent's database tracks and that had not ended by their last report. */
export function listUnended(
  database: Parameters<typeof tableExists>[0],
): ReadonlyArray<Pick<WorkflowInfo, "workflowId" | "workflowName">> {
  if (!tableExists(database, WORKFLOWS_TABLE)) return [];
  const sql = `SELECT workflow_id, workflow_name, status FROM ${WORKFLOWS_TABLE} ORDER BY rowid`;
  return database
    .query(sql, [])
    .rows.filter(([, , status]) => !ENDED.has(String(status)))
    .map(([id, name]) => ({ workflowId: String(id), workflowName: String(name) }));
}

function toInfo(row: ReadonlyArray<SqlValue>): WorkflowInfo {
  const date = (seconds: SqlValue | undefined): Date => new Date(Number(seconds) * MS_PER_SECOND);
  return {
    id: String(row[0]),
    workflowId: String(row[1]),
    workflowName: String(row[2]),
    status: String(row[3]) as WorkflowStatus,
    metadata: row[4] === null ? null : (JSON.parse(String(row[4])) as Record<string, unknown>),
    error: row[5] === null ? null : { name: String(row[5]), message: String(row[6] ?? "") },
    createdAt: date(row[7]),
    updatedAt: date(row[8]),
    completedAt: row[9] === null ? null : date(row[9]),
  };
}

function conditions({ status, workflowName, metadata }: WorkflowQueryCriteria) {
  const where: string[] = [];
  const params: SqlValue[] = [];
  if (status !== undefined) {
    const statuses: ReadonlyArray<string> = typeof status === "string" ? [status] : status;
    where.push(`status IN (${statuses.map(() => "?").join(", ")})`);
    params.push(...statuses);
  }
  if (workflowName !== undefined) {
    where.push("workflow_name = ?");
    params.push(workflowName);
  }
  for (const [key, value] of Object.entries(metadata ?? {})) {
    where.push("json_extract(metadata, ?) = ?");
    params.push(`$.${JSON.stringify(key)}`, typeof value === "boolean" ? Number(value) : value);
  }
  return { where, params };
}

const whereOf = (where: ReadonlyArray<string>): string =>
  where.length === 0 ? "" : `WHERE ${where.join(" AND ")}`;

const cursorOf = ({ createdAt, workflowId }: WorkflowInfo): string =>
  toBase64(
    new TextEncoder().encode(
      JSON.stringify({ c: createdAt.getTime() / MS_PER_SECOND, i: workflowId }),
    ),
  );

/** Throws for a text that is no cursor. */
export function readCursor(cursor: string): { readonly c: number; readonly i: string } {
  try {
    const { c, i } = JSON.parse(new TextDecoder().decode(fromBase64(cursor))) as {
      readonly c: unknown;
      readonly i: unknown;
    };
    if (typeof c === "number" && typeof i === "string") return { c, i };
  } catch {
    // Reported below, whatever the error.
  }
  throw new Error("Invalid pagination cursor. The cursor may be malformed or corrupted.");
}
