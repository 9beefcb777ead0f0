/**
 * `svc_agents_facets`: the facets of an object, as `SubAgentTable` lists sub-agents. One that is
 * deleted stays listed, with a mark, until it has ended. And `svc_agents_facet`: of a facet, the id
 * that its object gave it.
 *
 * Both are tables of the object's own database, whose names users' calls leave alone. The
 * reference's own package has a table of the name that agents have.
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { tableExists } from "../database/tableExists.ts";
import { FACETS, SubAgentTable } from "../subAgent/SubAgentTable.ts";
import type { AgentWork } from "../turn/AgentWork.ts";

export class FacetTable {
  readonly facets: SubAgentTable;

  constructor(private readonly runtime: Pick<AgentWork, "query" | "time">) {
    this.facets = new SubAgentTable(runtime, FACETS, ", deleted INTEGER NOT NULL DEFAULT 0");
  }

  /** It must be ended before it is used again. */
  markDeleted(className: string, name: string): void {
    this.runtime.query(`UPDATE ${FACETS} SET deleted = 1 WHERE class = ? AND name = ?`, [
      className,
      name,
    ]);
  }

  isDeleted(className: string, name: string): boolean {
    if (!this.facets.has(className, name)) return false;
    const sql = `SELECT deleted FROM ${FACETS} WHERE class = ? AND name = ?`;
    return this.runtime.query(sql, [className, name]).rows[0]?.[0] === 1;
  }
}

const IDS = "svc_agents_facet";

/** Stores the id that is given, and returns the stored one. Undefined: a facet has had none. */
export function idOfFacet(
  runtime: Pick<AgentWork, "query">,
  given: readonly [className: string, name: string] | undefined,
): AgentId | undefined {
  const stored = tableExists(runtime, IDS)
    ? runtime.query(`SELECT class, name FROM ${IDS}`, []).rows[0]
    : undefined;
  const [className, name] = given ?? stored ?? [];
  if (className === undefined || name === undefined) return undefined;
  if (className !== stored?.[0] || name !== stored[1]) {
    runtime.query(
      `CREATE TABLE IF NOT EXISTS ${IDS} (id INTEGER PRIMARY KEY CHECK (id = 1), class TEXT NOT NULL, name TEXT NOT NULL)`,
      [],
    );
    runtime.query(`INSERT OR REPLACE INTO ${IDS} (id, class, name) VALUES (1, ?, ?)`, [
      className,
      name,
    ]);
  }
  return agentId(String(className), String(name));
}
