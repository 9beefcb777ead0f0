/** SQL of an operator (`AgentDatabase.read`): reads anything, changes nothing, and ends. */
import { beforeEach, expect, it } from "vitest";
import { QueryTooLong, TooManyRows } from "../../core/database/Databases.ts";
import { db, openForEach } from "./eachDatabase.ts";

openForEach();
beforeEach(() => {
  db.query("CREATE TABLE t (a UNIQUE, json TEXT)", []);
  db.query(`INSERT INTO t VALUES (1, '{"n":5,"tags":["x","y"]}'), (2, NULL)`, []);
  db.freeze();
  db.committed();
});

const LIMITS = { rowsMax: 100, timeMsMax: 10_000 };
const read = (sql: string) => db.read(sql, LIMITS).rows;

it("a read-only query can use everything that SELECT has", () => {
  expect(read("SELECT json->>'n' FROM t WHERE json->>'n' > 4")).toEqual([[5]]);
  expect(read("SELECT value FROM t, json_each(t.json, '$.tags')")).toEqual([["x"], ["y"]]);
  expect(read("WITH r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT sum(n) FROM r")).toEqual([[6]]); // prettier-ignore
  expect(read("SELECT row_number() OVER (ORDER BY a DESC) FROM t")).toEqual([[1], [2]]);
  expect(read("VALUES (1)")).toEqual([[1]]);
  expect(read("SELECT name FROM pragma_table_info('t')")).toEqual([["a"], ["json"]]);
  expect(read("EXPLAIN QUERY PLAN SELECT * FROM t")).toHaveLength(1);
  expect(read("SELECT 1; -- the end\n")).toEqual([[1]]);
  expect(read("SELECT name FROM sqlite_schema WHERE type = 'table'")).toEqual([["t"]]);
});

it.each([
  ["INSERT INTO t VALUES (3, NULL)", "may only read"],
  ["WITH x AS (SELECT 1) UPDATE t SET a = 2", "may only read"],
  ["DELETE FROM t RETURNING a", "may only read"],
  ["DROP TABLE t", "may only read"],
  ["CREATE TEMP TABLE x (a)", "may only read"],
  ["CREATE VIEW x AS SELECT 1", "may only read"],
  ["REINDEX", "may only read"],
  ["ANALYZE", "may only read"],
  ["VACUUM", "may only read|ATTACH"],
  ["VACUUM INTO 'x'", "ATTACH"],
  ["ATTACH 'x' AS y", "ATTACH and DETACH are not allowed"],
  ["PRAGMA user_version = 5", "PRAGMA user_version is not allowed"],
  ["PRAGMA table_info(t)", "PRAGMA table_info is not allowed"],
  ["BEGIN", "Transactions are not allowed"],
  ["SAVEPOINT x", "Transactions are not allowed"],
  ["SELECT 1; DELETE FROM t", "may only read|one statement"],
  ["SELECT 1; SELECT 2", "one statement"],
  ["-- nothing", "one statement"],
  ["SELECT load_extension('x')", "no such function|not authorized"],
  ["SELECT * FROM nowhere", "no such table: nowhere"],
  ["SELECT ?", "Wrong number of parameter bindings"],
])("a read-only query can't use %s", (sql, message) => {
  const { writes } = db;
  expect(() => read(sql)).toThrow(new RegExp(message));
  expect(db.writes).toBe(writes);
  expect(read("SELECT a FROM t")).toEqual([[1], [2]]);
});

it("a read-only query does not affect the agent's own SQL", () => {
  expect(() => read("DELETE FROM t")).toThrow("may only read");
  expect(db.query("DELETE FROM t", []).rowsWritten).toBe(2);
});

it("a statement that never ends, or returns too many rows, is ended", () => {
  const endless = "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r)";
  const soon = { rowsMax: 100, timeMsMax: 50 };
  expect(() => db.read(`${endless} SELECT max(n) FROM r`, soon)).toThrow(QueryTooLong);
  expect(() => db.read(`${endless} SELECT n FROM r`, LIMITS)).toThrow(TooManyRows);
  // What runs after it has its own time, and agents' SQL has none.
  expect(read("SELECT a FROM t")).toEqual([[1], [2]]);
  expect(db.query(`${endless} SELECT n FROM r LIMIT 1 OFFSET 300000`, []).rows).toEqual([[300_001]]); // prettier-ignore
});
