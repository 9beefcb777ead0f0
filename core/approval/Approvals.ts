/**
 * The approvals that an agent asks for, in its workflow or in its fibers: what is asked, until when
 * it can be answered, and who decided what and when. `cf_agents_approvals` of its own database,
 * made with the first question. `AwaitedEvents` (workflows) and `FiberApprovals` ask and wait;
 * links, callables and webhooks decide.
 *
 * 1. A question is decided once. The same answer by the same person again changes nothing; any
 *    other answer is refused with `ApprovalClosed`.
 * 2. A decision is written in the turn that makes it. The requester continues once it is stored.
 * 3. A timeout is a decision as well. Only the agent writes either, so the first one counts.
 * 4. The SQL text of a decision contains who decided, and what, since the agent's history shows
 *    statements without their parameters.
 */
import type { OutgoingShape } from "../outgoing/Outgoing.ts";
import { numberOrNull, textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import type { SqlValue } from "../database/Databases.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type {
  Approval,
  ApprovalCriteria,
  ApprovalDecision,
  ApprovalLinkOptions,
  ApprovalStatus,
  AskedApproval,
} from "./Approval.ts";
import { ApprovalClosed } from "./approvalErrors.ts";
import { makeApprovalLink } from "./approvalLink.ts";
import { checkAnswer, type Answer } from "./checkAnswer.ts";

export const APPROVALS_TABLE = "cf_agents_approvals";
const DDL = `CREATE TABLE IF NOT EXISTS ${APPROVALS_TABLE} (
  id TEXT PRIMARY KEY NOT NULL,
  key TEXT UNIQUE,
  name TEXT NOT NULL,
  prompt TEXT,
  event_type TEXT,
  status TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  notified INTEGER NOT NULL DEFAULT 0,
  decided_at INTEGER,
  decided_by TEXT,
  reason TEXT,
  metadata TEXT
)`;
const COLUMNS =
  "id, key, name, prompt, status, asked_at, expires_at, notified, decided_at, decided_by, reason, metadata";
const CRITERIA: ReadonlySet<string> = new Set<keyof ApprovalCriteria>(["id", "name", "status"]);
const DECISION: ReadonlySet<string> = new Set<keyof ApprovalDecision>([
  "approved", "by", "reason", "metadata",
]); // prettier-ignore
/** Decided approvals are kept for people to look at; the oldest are deleted first. */
const ROWS_MAX = 1000;

/** The agent that asked for them. */
export interface ApprovalsAgent extends Pick<AgentWork, "id" | "time" | "query"> {
  readonly parts: {
    readonly env: unknown;
    /** Namespace of the installation. */
    readonly installation: string;
    readonly outgoing: Pick<OutgoingShape, "hmacSha256">;
  };
}

/** A question, and who waits for its answer. */
interface Asked {
  /** Identifies who waits; unique within the agent. */
  readonly key: string;
  readonly name: string;
  readonly prompt?: string | undefined;
  readonly expiresAt: number;
  /** The event by which a workflow's approval can be answered as well. */
  readonly eventType?: string;
}

export interface ApprovalRow extends Approval {
  readonly key: string | null;
  readonly notified: boolean;
}

export class Approvals {
  private readonly listeners = new Set<(row: ApprovalRow) => void>();

  constructor(private readonly agent: ApprovalsAgent) {}

  /** Adds a question. A waiting one with its key is withdrawn. Callers have checked the prompt. */
  ask({ key, name, prompt, expiresAt, eventType }: Asked): void {
    const { agent } = this;
    if (!this.exists) agent.query(DDL, []);
    const before = this.byKey(key);
    if (before !== undefined)
      agent.query(
        `UPDATE ${APPROVALS_TABLE} SET key = NULL, status = iif(status = 'waiting', 'withdrawn', status) WHERE id = ?`,
        [before.id],
      );
    const over = this.select("ORDER BY rowid DESC", []).filter(
      ({ status }) => status !== "waiting",
    );
    for (const { id } of over.slice(ROWS_MAX - 1))
      agent.query(`DELETE FROM ${APPROVALS_TABLE} WHERE id = ?`, [id]);
    const { time } = agent;
    agent.query(
      `INSERT INTO ${APPROVALS_TABLE} (id, key, name, prompt, event_type, status, asked_at, expires_at) VALUES (?, ?, ?, ?, ?, 'waiting', ?, ?)`,
      [time.id(), key, name, prompt ?? null, eventType ?? null, time.nowMs(), expiresAt],
    );
  }

  byKey(key: string): ApprovalRow | undefined {
    return this.select("WHERE key = ?", [key])[0];
  }

  /** The oldest approval that waits for an event of this type. */
  waitingFor(eventType: string): ApprovalRow | undefined {
    const sql = "WHERE event_type = ? AND status = 'waiting' ORDER BY rowid";
    return this.select(sql, [eventType]).find(({ status }) => status === "waiting");
  }

  /** Newest first. Throws `TypeError` for an unknown criterion. */
  list(criteria: ApprovalCriteria = {}): Approval[] {
    checkOptions("getApprovals", criteria, CRITERIA);
    return listApprovals(this.agent, this.agent.time.nowMs(), criteria);
  }

  /**
   * Decides an approval and returns it (rule 1). `which`: its id, or its name; of several with that
   * name, the one that waits, else the last. Throws `ApprovalClosed`, an `Error` when there is
   * none, and `TypeError` or `RangeError` for an invalid decision.
   */
  decide(which: string, decision: ApprovalDecision): Approval {
    checkOptions(`decideApproval("${which}", …)`, decision, DECISION);
    const answer = checkAnswer(decision);
    if (answer.by === null)
      throw new TypeError("a decision must say who decides: { approved: true, by: …}");
    const row = this.find(which);
    const { id, name, status, by } = row;
    const decided = answer.approved ? "approved" : "rejected";
    if (status === decided && by === answer.by) return this.list({ id })[0]!;
    if (status !== "waiting") throw new ApprovalClosed({ approval: name, status, by });
    this.answer(row, answer);
    return this.list({ id })[0]!;
  }

  /** Decides an approval that waits, in the running turn (rule 2). */
  answer(row: ApprovalRow, answer: Answer): void {
    this.write(row, answer);
    for (const listener of this.listeners) listener(row);
  }

  /** Decides or expires the approval with this key, if it still waits (rule 3). */
  settle(key: string, answer: Answer | "expired"): void {
    const row = this.select("WHERE key = ? AND status = 'waiting'", [key])[0];
    if (row === undefined) return;
    if (answer !== "expired") return this.write(row, answer);
    const sql = `UPDATE ${APPROVALS_TABLE} SET status = 'expired' WHERE id = ?`;
    this.agent.query(sql, [row.id]);
  }

  /** Withdraws the approvals that wait and whose key begins with `keyStart`. */
  withdraw(keyStart = ""): void {
    for (const { id, key } of this.select("WHERE status = 'waiting'", []))
      if (key?.startsWith(keyStart) === true)
        this.agent.query(`UPDATE ${APPROVALS_TABLE} SET status = 'withdrawn' WHERE id = ?`, [id]);
  }

  /** Replaces the start `from` of keys by `to`. */
  move(from: string, to: string): void {
    for (const { id, key } of this.select("WHERE key IS NOT NULL", []))
      if (key!.startsWith(from))
        this.agent.query(`UPDATE ${APPROVALS_TABLE} SET key = ? WHERE id = ?`, [
          to + key!.slice(from.length),
          id,
        ]);
  }

  /** Records that `notify` was called for it. */
  notified({ id }: ApprovalRow): void {
    this.agent.query(`UPDATE ${APPROVALS_TABLE} SET notified = 1 WHERE id = ?`, [id]);
  }

  /** The argument of `notify`. Throws an `Error` for an unknown approval. */
  asked(which: string): AskedApproval {
    const { key: _key, notified: _notified, ...approval } = this.find(which);
    return { ...approval, link: async (options) => this.link(approval.id, options) };
  }

  /** Throws an `Error` for an unknown approval, and `TypeError` as `makeApprovalLink`. */
  link(which: string, options: ApprovalLinkOptions): string {
    const { id: agent, time, parts } = this.agent;
    const { id, expiresAt } = this.find(which);
    const { env, installation } = parts;
    const { hmacSha256 } = parts.outgoing;
    const given = { options, env, installation, hmacSha256 };
    return makeApprovalLink({ agent, id, expiresAt, nowMs: time.nowMs(), ...given });
  }

  /** Calls `listener` in the turn of each decision, until the returned function is called. */
  onDecided(listener: (row: ApprovalRow) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private find(which: string): ApprovalRow {
    const rows = this.select("WHERE id = ? OR name = ? ORDER BY rowid DESC", [which, which]);
    const row =
      rows.find(({ id }) => id === which) ??
      rows.find(({ status }) => status === "waiting") ??
      rows[0];
    if (row !== undefined) return row;
    const { class: className, name } = this.agent.id;
    throw new Error(
      `${className}/${name} has no approval "${which}": getApprovals() lists its approvals`,
    );
  }

  /** Rule 4. */
  private write({ id }: ApprovalRow, { approved, by, reason, metadata }: Answer): void {
    const status = approved ? "approved" : "rejected";
    this.agent.query(
      `UPDATE ${APPROVALS_TABLE} SET status = '${status}', decided_by = ${by === null ? "NULL" : quoted(by)}, decided_at = ${this.agent.time.nowMs()}, reason = ?, metadata = ? WHERE id = ?`,
      [reason ?? null, metadata === undefined ? null : JSON.stringify(metadata), id],
    );
  }

  private select(rest: string, params: ReadonlyArray<SqlValue>): ApprovalRow[] {
    return select(this.agent, this.agent.time.nowMs(), rest, params);
  }

  private get exists(): boolean {
    return tableExists(this.agent, APPROVALS_TABLE);
  }
}

type Database = Parameters<typeof tableExists>[0];

/** The approvals of an agent's database as they are at a time, newest first. */
export const listApprovals = (
  database: Database,
  nowMs: number,
  { id, name, status }: ApprovalCriteria = {},
): Approval[] =>
  select(database, nowMs, "ORDER BY rowid DESC", [])
    .filter((row) => id === undefined || row.id === id)
    .filter((row) => name === undefined || row.name === name)
    .filter((row) => status === undefined || row.status === status)
    .map(({ key: _key, notified: _notified, ...approval }) => approval);

function select(
  database: Database,
  nowMs: number,
  rest: string,
  params: ReadonlyArray<SqlValue>,
): ApprovalRow[] {
  if (!tableExists(database, APPROVALS_TABLE)) return [];
  const sql = `SELECT ${COLUMNS} FROM ${APPROVALS_TABLE} ${rest}`;
  return database.query(sql, params).rows.map((row) => toRow(row, nowMs));
}

/** An approval that still waits after `expires_at` has expired. */
function toRow(row: ReadonlyArray<SqlValue>, nowMs: number): ApprovalRow {
  const expiresAt = Number(row[6]);
  const isOver = row[4] === "waiting" && expiresAt <= nowMs;
  return {
    id: String(row[0]),
    key: textOrNull(row[1]),
    name: String(row[2]),
    prompt: textOrNull(row[3]),
    status: isOver ? "expired" : (String(row[4]) as ApprovalStatus),
    askedAt: Number(row[5]),
    expiresAt,
    notified: row[7] === 1,
    decidedAt: numberOrNull(row[8]),
    by: textOrNull(row[9]),
    reason: textOrNull(row[10]),
    ...(row[11] === null ? {} : { metadata: JSON.parse(String(row[11])) as unknown }),
  };
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;
