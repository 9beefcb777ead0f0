/** Connections that are closed for the room of others: those at rest do not notice it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import { agentId } from "../../schemas/Address.ts";
import { loadEngine, type Engine } from "../../services/sqlite/Engine.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { column, commit, openLayer, REPO, restAll } from "./kit.ts";

let engine: Engine;
let databases: DatabasesShape;
let closeLayer: () => void;

beforeAll(async () => {
  engine = await loadEngine();
  ({ databases, close: closeLayer } = await openLayer(undefined, undefined, 0));
});
afterAll(() => closeLayer());

/** Runs `f` with a database, which then is closed. */
function using(f: (database: AgentDatabase) => void): void {
  const { database } = databases.open(REPO);
  try {
    f(database);
  } finally {
    database.close();
  }
}

/** Whether its connection is closed by now: pages in memory are the file's alone. */
const rests = (database: AgentDatabase): boolean => {
  const { memoryBytes } = database;
  return memoryBytes % 4096 === 0 || memoryBytes < 16 * 1024;
};

describe("SQLite's heap", () => {
  it("stays at its limit however many databases are in use, and all of them answer", async () => {
    const ROOM = 4 * 1024 * 1024;
    const DATABASES = 600; // of some 40 KB each: six times the room
    const before = engine.memoryUsed;
    const layer = await openSqliteDatabases({ folder: undefined, heapBytesMax: before + ROOM });
    const all = Array.from(
      { length: DATABASES },
      (_, n) => layer.databases.open(agentId("Many", `${n}`)).database,
    );
    let most = 0;
    for (let round = 0; round < 3; round++)
      for (const [n, database] of all.entries()) {
        if (round === 0) database.query("CREATE TABLE t (a); CREATE INDEX i ON t (a)", []);
        database.query("INSERT INTO t VALUES (?)", [n + round]);
        commit(database);
        most = Math.max(most, engine.memoryUsed - before);
      }
    expect(most).toBeGreaterThan(ROOM / 2);
    expect(most).toBeLessThan(ROOM * 1.25);
    for (const [n, database] of all.entries())
      expect(column(database, "SELECT a FROM t ORDER BY a")).toEqual([n, n + 1, n + 2]);
    for (const database of all) database.close();
    layer.close();
    expect(engine.memoryUsed).toBe(before);
  });

  it("is freed by closing the least recently used database first", async () => {
    const before = engine.memoryUsed;
    const layer = await openSqliteDatabases({
      folder: undefined,
      heapBytesMax: before + 1_000_000,
    });
    const open = (name: string): AgentDatabase =>
      layer.databases.open(agentId("Many", name)).database;
    const busy = open("busy");
    busy.query("CREATE TABLE t (a)", []);
    commit(busy);
    const idle = open("idle");
    idle.query("CREATE TABLE t (a)", []);
    commit(idle);
    const others = Array.from({ length: 100 }, (_, n) => open(`${n}`));
    for (const other of others) {
      other.query("SELECT 1", []);
      busy.query("SELECT a FROM t", []);
    }
    expect({ busy: rests(busy), idle: rests(idle) }).toEqual({ busy: false, idle: true });
    for (const database of [busy, idle, ...others]) database.close();
    layer.close();
  });
});

describe("a connection that was closed and opened again", () => {
  it("keeps the last insert's rowid, and its settings", () =>
    using((database) => {
      database.query("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (41)", []);
      database.query("PRAGMA foreign_keys = OFF", []);
      database.query("PRAGMA recursive_triggers = ON", []);
      database.query("PRAGMA foreign_keys = 'on'", []);
      database.query("PRAGMA foreign_keys = OFF", []);
      commit(database);
      restAll(databases);
      expect(rests(database)).toBe(true);
      expect(column(database, "SELECT last_insert_rowid()")).toEqual([41]);
      expect(column(database, "PRAGMA foreign_keys")).toEqual([0]);
      expect(column(database, "PRAGMA recursive_triggers")).toEqual([1]);
      restAll(databases);
      expect(rests(database)).toBe(true);
      expect(column(database, "PRAGMA foreign_keys")).toEqual([0]);
    }));

  it("keeps foreign keys as they are where a transaction tries to set them", () =>
    using((database) => {
      database.query("CREATE TABLE t (a INTEGER PRIMARY KEY)", []);
      database.transaction(() => database.query("PRAGMA foreign_keys = OFF", []));
      commit(database);
      expect(column(database, "PRAGMA foreign_keys")).toEqual([1]);
      restAll(databases);
      expect(rests(database)).toBe(true);
      expect(column(database, "PRAGMA foreign_keys")).toEqual([1]);
    }));

  it("reruns a failed schema setup, and fails again", () =>
    using((database) => {
      database.query("CREATE TABLE t (a CHECK (a < 5))", []);
      commit(database);
      restAll(databases);
      expect(() => database.query("INSERT INTO t VALUES (7)", [])).toThrow(
        "CHECK constraint failed",
      );
      expect(column(database, "SELECT count(*) FROM t")).toEqual([0]);
    }));
});

describe("a connection is never closed", () => {
  it.each([
    ["table", "CREATE TEMP TABLE mine (a); INSERT INTO mine VALUES (7)", "SELECT a FROM mine"],
    [
      "table by its schema's name",
      "CREATE TABLE temp.mine (a); INSERT INTO mine VALUES (7)",
      "SELECT a FROM mine",
    ],
    ["view", "CREATE TEMP VIEW mine AS SELECT 7", "SELECT * FROM mine"],
    [
      "virtual table",
      "CREATE VIRTUAL TABLE temp.mine USING fts5(a); INSERT INTO mine VALUES (7)",
      "SELECT a + 0 FROM mine",
    ],
  ])("with a temporary %s", (_, sql, read) =>
    using((database) => {
      database.query(sql, []);
      commit(database);
      restAll(databases);
      expect(column(database, read)).toEqual([7]);
    }),
  );

  it("in a transaction, or with writes that no turn has committed", () =>
    using((database) => {
      database.query("CREATE TABLE t (a)", []);
      commit(database);
      database.transaction(() => {
        database.query("INSERT INTO t VALUES (1), (2)", []);
        restAll(databases);
        expect(column(database, "SELECT changes()")).toEqual([2]);
      });
      restAll(databases);
      expect(column(database, "SELECT changes()")).toEqual([2]);
      expect(column(database, "SELECT a FROM t")).toEqual([1, 2]);
    }));
});
