/** Databases for the sqlite adapter's tests: in memory, or with a cache folder, removed later. */
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

export const REPO: AgentId = agentId("RepoAgent", "octocat/hello-world");

const NEIGHBOUR: AgentId = agentId("RepoAgent", "octocat/neighbour");

export const seq = (n: number): Sequence => n as Sequence;

/** A layer of databases as of a process; another `openLayer` on its folder is its restart. */
export async function openLayer(
  folder?: string,
  residentBytesMax?: number,
  heapBytesMax?: number,
): Promise<{ readonly databases: DatabasesShape; readonly close: () => void }> {
  return openSqliteDatabases({
    folder,
    ...(residentBytesMax === undefined ? {} : { residentBytesMax }),
    ...(heapBytesMax === undefined ? {} : { heapBytesMax }),
  });
}

/** In a layer without room (`heapBytesMax` 0): closes the connections of databases at rest. */
export function restAll(databases: DatabasesShape): void {
  // The first pass only notes that they were used; the last of them may still be the neighbour's
  // own.
  for (let pass = 0; pass < 3; pass++) {
    const { database } = databases.open(NEIGHBOUR);
    database.query("SELECT 1", []);
    database.close();
  }
}

/** Freezes and commits what was written; the delta, as the journal would store it. */
export function commit(database: AgentDatabase): Uint8Array | undefined {
  const frozen = database.freeze();
  if (frozen === undefined) return undefined;
  database.committed();
  return frozen.delta;
}

/** First column of the last statement's rows. */
export const column = (database: AgentDatabase, sql: string, params: never[] = []): unknown[] =>
  database.query(sql, params).rows.map((row) => row[0]);
