/** Opens a layer for the tests of a file, and a database for each of them. */
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import { openLayer, REPO } from "./kit.ts";

/** The layer of the file whose tests run, and the database of the test. */
export let databases: DatabasesShape;
export let db: AgentDatabase;

export function openForEach(): void {
  let close: () => void;
  beforeAll(async () => ({ databases, close } = await openLayer()));
  afterAll(() => close());
  beforeEach(() => {
    db = databases.open(REPO).database;
    return () => db.close();
  });
}
