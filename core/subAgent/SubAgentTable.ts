/**
 * `cf_agents_sub_agents`: an agent's sub-agents, in the order in which they were first asked for. A
 * table of the agent's own database, which users may read. Made with the first row.
 */
import { copyTable } from "../database/copyTable.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { tableExists } from "../database/tableExists.ts";

/** A sub-agent, as its parent lists it. */
export interface SubAgentInfo {
  readonly className: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

const SUB_AGENTS = "cf_agents_sub_agents";
/** The table of a Durable Object (`FacetTable`). */
export const FACETS = "svc_agents_facets";

export class SubAgentTable {
  /** `more`: SQL of further columns, with a comma before each. */
  constructor(
    private readonly runtime: Pick<AgentWork, "query" | "time">,
    private readonly table = SUB_AGENTS,
    private readonly more = "",
  ) {}

  has(className: string, name: string): boolean {
    return (
      this.exists() &&
      this.runtime.query(`SELECT 1 FROM ${this.table} WHERE class = ? AND name = ?`, [
        className,
        name,
      ]).rows.length > 0
    );
  }

  /** False: it was there. */
  add(className: string, name: string): boolean {
    if (this.has(className, name)) return false;
    this.runtime.query(
      `CREATE TABLE IF NOT EXISTS ${this.table} (
  class TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL${this.more},
  PRIMARY KEY (class, name)
)`,
      [],
    );
    this.runtime.query(`INSERT INTO ${this.table} (class, name, created_at) VALUES (?, ?, ?)`, [
      className,
      name,
      this.runtime.time.nowMs(),
    ]);
    return true;
  }

  remove(className: string, name: string): void {
    if (this.exists())
      this.runtime.query(`DELETE FROM ${this.table} WHERE class = ? AND name = ?`, [
        className,
        name,
      ]);
  }

  list(className?: string): SubAgentInfo[] {
    return listSubAgents(this.runtime, className, this.table);
  }

  count(): number {
    if (!this.exists()) return 0;
    return Number(this.runtime.query(`SELECT count(*) FROM ${this.table}`, []).rows[0]?.[0]);
  }

  private exists(): boolean {
    return tableExists(this.runtime, this.table);
  }
}

/** The sub-agents that an agent's database lists, of one class or of all. */
export function listSubAgents(
  database: Parameters<typeof tableExists>[0],
  className?: string,
  table = SUB_AGENTS,
): SubAgentInfo[] {
  if (!tableExists(database, table)) return [];
  const { rows } = database.query(
    `SELECT class, name, created_at FROM ${table} WHERE class = coalesce(?, class) ORDER BY rowid`,
    [className ?? null],
  );
  return rows.map(([of, name, createdAt]) => ({
    className: String(of),
    name: String(name),
    createdAt: Number(createdAt),
  }));
}

/** Replaces the sub-agents and facets that one database lists by those of another. */
export function copySubAgents(from: AgentDatabase, to: AgentDatabase): void {
  for (const table of [SUB_AGENTS, FACETS]) copyTable(from, to, table);
}
