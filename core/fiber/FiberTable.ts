/**
 * `cf_agents_fibers`: the fibers of an agent, those that `runFiber` began while they run, those of
 * `startFiber` until they are deleted. A table of the agent's own database, which users may read.
 * Made with the first row.
 *
 * Beyond the reference's columns: `kept` (by `startFiber`), `owed` (it runs, or its recovery is not
 * over), `recoveries` (recoveries that began and did not end: hosts may have died of them),
 * `failures` (failed recoveries).
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AgentDatabase, SqlValue } from "../database/Databases.ts";
import { numberOrNull, textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import { timeOf } from "../errors/timeOf.ts";
import { toJson } from "../journal/jsonText.ts";
import type {
  DeleteFibersOptions,
  FiberInspection,
  FiberRecoveryContext,
  FiberStatus,
  ListFibersOptions,
} from "./Fiber.ts";

export interface FiberRow {
  readonly id: string;
  readonly key: string | null;
  readonly name: string;
  readonly status: FiberStatus;
  /** JSON text, like the metadata. */
  readonly snapshot: string | null;
  readonly metadata: string | null;
  readonly error: string | null;
  readonly createdMs: number;
  readonly startedMs: number | null;
  readonly settledMs: number | null;
  readonly kept: boolean;
  readonly owed: boolean;
  readonly recoveries: number;
  readonly failures: number;
}

export const FIBERS_TABLE = "cf_agents_fibers";
const DDL = `CREATE TABLE IF NOT EXISTS ${FIBERS_TABLE} (
  fiber_id TEXT PRIMARY KEY NOT NULL,
  idempotency_key TEXT UNIQUE,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  snapshot TEXT,
  metadata_json TEXT,
  error_message TEXT,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  completed_at INTEGER,
  kept INTEGER NOT NULL,
  owed INTEGER NOT NULL,
  recoveries INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0
)`;
const INDEX = `CREATE INDEX IF NOT EXISTS idx_${FIBERS_TABLE}_owed ON ${FIBERS_TABLE} (created_at) WHERE owed = 1`;
const COLUMNS =
  "fiber_id, idempotency_key, name, status, snapshot, metadata_json, error_message, created_at, started_at, completed_at, kept, owed, recoveries, failures";

/** `protocol.md` §0, limits. */
const LIST = { usual: 50, most: 100 };
const DELETE = { usual: 100, most: 500 };

/** The fiber does not run any more. */
const ENDED: ReadonlyArray<FiberStatus> = ["completed", "aborted", "interrupted", "error"];
/** An interrupted fiber is kept for somebody to look at. */
const DELETED_USUALLY: ReadonlyArray<FiberStatus> = ["completed", "aborted", "error"];

export const hasEnded = (status: FiberStatus): boolean => ENDED.includes(status);

export class FiberTable {
  constructor(private readonly runtime: Pick<AgentWork, "query" | "time">) {}

  add(row: {
    readonly id: string;
    readonly name: string;
    readonly kept: boolean;
    readonly key?: string | undefined;
    readonly metadata?: unknown;
    readonly snapshot?: string | null;
  }): void {
    this.make();
    const { id, key = null, name, metadata, kept, snapshot = null } = row;
    this.runtime.query(
      `INSERT INTO ${FIBERS_TABLE} (fiber_id, idempotency_key, name, status, snapshot, metadata_json, created_at, kept, owed) VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, 1)`,
      [
        id, key, name, snapshot,
        toJson(metadata, `the metadata of the fiber "${name}"`), this.now(), Number(kept),
      ], // prettier-ignore
    );
  }

  get(id: string): FiberRow | undefined {
    return this.select("WHERE fiber_id = ?", [id])[0];
  }
  getByKey(key: string): FiberRow | undefined {
    return this.select("WHERE idempotency_key = ?", [key])[0];
  }

  /** Fibers that run, or ran when their host ended. Oldest first. */
  owed(): ReadonlyArray<FiberRow> {
    return this.select("WHERE owed = 1 ORDER BY created_at, fiber_id", []);
  }

  isAnyOwed(): boolean {
    const sql = `SELECT 1 FROM ${FIBERS_TABLE} WHERE owed = 1 LIMIT 1`;
    return this.exists() && this.runtime.query(sql, []).rows.length > 0;
  }

  /** Kept fibers, newest first. */
  list({ status, name, limit }: ListFibersOptions): ReadonlyArray<FiberRow> {
    const where = ["kept = 1"];
    const params: SqlValue[] = [];
    if (status !== undefined) where.push(isOneOf(statusesOf(status), params));
    if (name !== undefined) {
      where.push("name = ?");
      params.push(name);
    }
    const order = "ORDER BY created_at DESC, fiber_id DESC LIMIT ?";
    return this.select(`WHERE ${where.join(" AND ")} ${order}`, [...params, within(LIST, limit)]);
  }

  /** Deletes those that ended longest ago first. Returns their number. */
  delete({ status = DELETED_USUALLY, settledBefore, limit }: DeleteFibersOptions): number {
    const settledMs = timeOf("deleteFibers: settledBefore", settledBefore);
    const statuses = statusesOf(status).filter(hasEnded);
    if (statuses.length === 0 || !this.exists()) return 0;
    const params: SqlValue[] = [];
    // A fiber that is still to be recovered is not over, although it is `interrupted`.
    const where = ["kept = 1", "owed = 0", isOneOf(statuses, params)];
    if (settledMs !== undefined) {
      where.push("completed_at < ?");
      params.push(settledMs);
    }
    const found = `SELECT fiber_id FROM ${FIBERS_TABLE} WHERE ${where.join(" AND ")} ORDER BY completed_at, created_at LIMIT ?`;
    const sql = `DELETE FROM ${FIBERS_TABLE} WHERE fiber_id IN (${found})`;
    return this.runtime.query(sql, [...params, within(DELETE, limit)]).rowsWritten;
  }

  remove(id: string): void {
    this.write(`DELETE FROM ${FIBERS_TABLE} WHERE fiber_id = ?`, [id]);
  }

  stash(id: string, snapshot: string | null): void {
    this.write(`UPDATE ${FIBERS_TABLE} SET snapshot = ? WHERE fiber_id = ?`, [snapshot, id]);
  }

  begin(id: string): void {
    const sql = `UPDATE ${FIBERS_TABLE} SET status = 'running', started_at = ? WHERE fiber_id = ? AND status = 'pending'`;
    this.write(sql, [this.now(), id]);
  }

  /** Records its end, unless it had ended before. */
  settle(id: string, status: FiberStatus, error: string | null): void {
    const sql = `UPDATE ${FIBERS_TABLE} SET status = ?, error_message = ?, completed_at = ?, owed = 0 WHERE fiber_id = ? AND status IN ('pending', 'running')`;
    this.write(sql, [status, error, this.now(), id]);
  }

  /** Its recovery begins. */
  interrupt(id: string): void {
    const sql = `UPDATE ${FIBERS_TABLE} SET status = 'interrupted', completed_at = ?, recoveries = recoveries + 1 WHERE fiber_id = ? AND owed = 1`;
    this.write(sql, [this.now(), id]);
  }

  /** Its recovery has failed, and will be tried again. */
  recoverLater(id: string): void {
    const sql = `UPDATE ${FIBERS_TABLE} SET recoveries = 0, failures = failures + 1 WHERE fiber_id = ?`;
    this.write(sql, [id]);
  }

  /** Its recovery is over: a kept fiber stays as it is, any other is deleted. */
  recovered({ id, kept }: FiberRow): void {
    if (kept)
      this.write(`UPDATE ${FIBERS_TABLE} SET owed = 0, recoveries = 0 WHERE fiber_id = ?`, [id]);
    else this.remove(id);
  }

  /** Sets the outcome of an interrupted fiber. What is undefined stays as it is. */
  resolve(
    id: string,
    to: {
      readonly status: FiberStatus;
      readonly error: string | null;
      readonly snapshot: unknown;
      readonly metadata: unknown;
    },
  ): void {
    const sql = `UPDATE ${FIBERS_TABLE} SET status = ?, error_message = ?, snapshot = coalesce(?, snapshot), metadata_json = coalesce(?, metadata_json), completed_at = ? WHERE fiber_id = ? AND status = 'interrupted'`;
    const snapshot = toJson(to.snapshot, "the snapshot of a resolved fiber");
    const metadata = toJson(to.metadata, "the metadata of a resolved fiber");
    this.write(sql, [to.status, to.error, snapshot, metadata, this.now(), id]);
  }

  private now(): number {
    return this.runtime.time.nowMs();
  }

  /** Looks first, because every statement appears in the event of its turn. */
  private make(): void {
    if (this.exists()) return;
    this.runtime.query(DDL, []);
    this.runtime.query(INDEX, []);
  }

  /** Users may drop the table; then there are no fibers. */
  private exists(): boolean {
    return tableExists(this.runtime, FIBERS_TABLE);
  }

  private write(sql: string, params: ReadonlyArray<SqlValue>): void {
    if (this.exists()) this.runtime.query(sql, params);
  }

  private select(rest: string, params: ReadonlyArray<SqlValue>): FiberRow[] {
    if (!this.exists()) return [];
    const { rows } = this.runtime.query(`SELECT ${COLUMNS} FROM ${FIBERS_TABLE} ${rest}`, params);
    return rows.map(toRow);
  }
}

/** The ids of an agent's fibers that run, or whose recovery is not over. */
export function owedFibers(database: Pick<AgentDatabase, "query">): ReadonlyArray<string> {
  if (!tableExists(database, FIBERS_TABLE)) return [];
  const sql = `SELECT fiber_id FROM ${FIBERS_TABLE} WHERE owed = 1`;
  return database.query(sql, []).rows.map(([id]) => String(id));
}

function toRow(row: ReadonlyArray<SqlValue>): FiberRow {
  return {
    id: String(row[0]),
    key: textOrNull(row[1]),
    name: String(row[2]),
    status: String(row[3]) as FiberStatus,
    snapshot: textOrNull(row[4]),
    metadata: textOrNull(row[5]),
    error: textOrNull(row[6]),
    createdMs: Number(row[7]),
    startedMs: numberOrNull(row[8]),
    settledMs: numberOrNull(row[9]),
    kept: row[10] === 1,
    owed: row[11] === 1,
    recoveries: Number(row[12]),
    failures: Number(row[13]),
  };
}

/** As `inspectFiber` returns it. */
export function toInspection(row: FiberRow): FiberInspection {
  const snapshot = parse(row.snapshot);
  const metadata = metadataOf(row);
  return {
    fiberId: row.id,
    name: row.name,
    status: row.status,
    createdAt: row.createdMs,
    ...(row.key === null ? {} : { idempotencyKey: row.key }),
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(row.error === null ? {} : { error: row.error }),
    ...(metadata === null ? {} : { metadata }),
    ...(row.startedMs === null ? {} : { startedAt: row.startedMs }),
    ...(row.settledMs === null ? {} : { settledAt: row.settledMs }),
  };
}

/** As `onFiberRecovered` receives it. */
export const contextOf = (row: FiberRow): FiberRecoveryContext => ({
  id: row.id,
  name: row.name,
  snapshot: parse(row.snapshot) ?? null,
  createdAt: row.createdMs,
  recoveryReason: "interrupted",
  ...(row.kept ? { status: "interrupted" } : {}),
  ...(row.kept || row.metadata !== null ? { metadata: metadataOf(row) } : {}),
  ...(row.key === null ? {} : { idempotencyKey: row.key }),
});

/** Undefined if users' SQL left text there that is not JSON. */
function parse(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function metadataOf({ metadata }: FiberRow): Record<string, unknown> | null {
  const value = parse(metadata);
  return typeof value === "object" && !Array.isArray(value)
    ? (value as Record<string, unknown> | null)
    : null;
}

const statusesOf = (status: FiberStatus | ReadonlyArray<FiberStatus>) =>
  typeof status === "string" ? [status] : [...status];

function isOneOf(statuses: ReadonlyArray<FiberStatus>, params: SqlValue[]): string {
  params.push(...statuses);
  return `status IN (${statuses.map(() => "?").join(", ")})`;
}

const within = ({ usual, most }: typeof LIST, limit = usual): number =>
  Math.min(Math.max(1, Math.floor(limit)), most);
