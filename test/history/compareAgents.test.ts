/** What `agents rerun` tells of two agents that should be one. */
import { beforeAll, expect, test } from "vitest";
import { compareAgents, type ComparedAgent } from "../../core/history/compareAgents.ts";
import { rowAt } from "../../core/history/tableRows.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { agentId } from "../../schemas/Address.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

let sqlite: Awaited<ReturnType<typeof openSqliteDatabases>>;
beforeAll(async () => {
  sqlite = await openSqliteDatabases({ folder: undefined });
  return () => sqlite.close();
});

const databaseOf = (...statements: string[]): AgentDatabase => {
  const { database } = sqlite.databases.open(agentId("A", "a"));
  for (const statement of statements) database.query(statement, []);
  return database;
};
const compare = (
  was: Partial<ComparedAgent>,
  is: Partial<ComparedAgent>,
  before = databaseOf(),
): ReadonlyArray<string> =>
  compareAgents(
    { state: undefined, database: databaseOf(), ...was },
    { state: undefined, database: databaseOf(), ...is },
    before,
  );

test("equal agents have no difference", () => {
  expect(compare({}, {})).toEqual([]);
  const same = ["CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, x'00ff'), (1, x'00ff')"];
  const state = { deep: [{ a: null }] };
  expect(compare({ state, database: databaseOf(...same) }, { state: { deep: [{ a: null }] }, database: databaseOf(...same) })).toEqual([]); // prettier-ignore
});

test("each changed path of the state is listed, whatever its names", () => {
  const was = { state: { a: 1, list: [1, 2], "odd name": { x: true }, gone: "it" } };
  const is = { state: { a: 1, list: [1, 3, 4], "odd name": { x: false }, new: null } };
  expect(compare(was, is)).toEqual([
    "state.list[1]: 2 -> 3",
    "state.list[2]: unset -> 4",
    'state["odd name"].x: true -> false',
    'state.gone: "it" -> unset',
    "state.new: unset -> null",
  ]);
  expect(compare({}, { state: {} })).toEqual(["state: unset -> {}"]);
});

test("rows that share a key are told apart, also by why's reader", () => {
  const rows = (...cells: string[]): AgentDatabase =>
    databaseOf(
      "CREATE TABLE t (a TEXT PRIMARY KEY, b)",
      ...cells.map((cell) => `INSERT INTO t VALUES (NULL, ${cell})`),
    );
  const compared = (was: AgentDatabase, database: AgentDatabase): ReadonlyArray<string> =>
    compare({ database: was }, { database });
  expect(compared(rows("1"), rows("1", "2"))).toEqual(['t[null,2]: unset -> {"a":null,"b":2}']);
  expect(compared(rows("1", "2"), rows("3", "2"))).toEqual(["t[null].b: 1 -> 3"]);
  expect(rowAt(rows("1", "2"), "t", [null])).toEqual({ a: null, b: 1 });
  expect(rowAt(rows("1", "2"), "t", [null, 2])).toEqual({ a: null, b: 2 });
  expect(rowAt(rows("1", "2"), "t", [null, 3])).toBeUndefined();
});

test("each added, removed or changed row is listed by its key, and each added or dropped table", () => {
  const was = databaseOf('CREATE TABLE "a b" (x)', 'INSERT INTO "a b" VALUES (1), (1), (2)', "CREATE TABLE old (x)", "CREATE TABLE keyed (id TEXT PRIMARY KEY, x)", "INSERT INTO keyed VALUES ('k', 1), ('gone', 2)"); // prettier-ignore
  const is = databaseOf('CREATE TABLE "a b" (x)', `INSERT INTO "a b" VALUES (1), (3), (x'0a')`, "CREATE TABLE new (x)", "INSERT INTO new VALUES (1)", "CREATE TABLE keyed (id TEXT PRIMARY KEY, x)", "INSERT INTO keyed VALUES ('k', 9)"); // prettier-ignore
  expect(compare({ database: was }, { database: is })).toEqual([
    '["a b"][2].x: 1 -> 3',
    '["a b"][3].x: 2 -> "1 bytes 0a"',
    'keyed["k"].x: 1 -> 9',
    'keyed["gone"]: {"id":"gone","x":2} -> unset',
    'table:old: "CREATE TABLE old (x)" -> unset',
    'table:new: unset -> "CREATE TABLE new (x)"',
    'new[1]: unset -> {"x":1}',
  ]);
});

test("an added column is listed, even if it is named like a property of objects", () => {
  const was = ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"];
  const names = ["constructor", "__proto__"];
  const is = [...was, ...names.map((name) => `ALTER TABLE t ADD ${name} DEFAULT 2`)];
  const found = compare({ database: databaseOf(...was) }, { database: databaseOf(...is) });
  expect(found.slice(1)).toEqual(["t[1].constructor: unset -> 2", "t[1].__proto__: unset -> 2"]);
});

test("new queue items are listed, whatever their ids", () => {
  const table = "CREATE TABLE svc_agents_queue (id, callback, payload)";
  const row = (id: string, payload: string) =>
    `INSERT INTO svc_agents_queue VALUES ('${id}', 'run', '${payload}')`;
  const before = databaseOf(table, row("1", "old"));
  const was = databaseOf(table, row("2", "new"));
  const is = databaseOf(table, row("1", "old"), row("3", "new"), row("4", "another"));
  expect(compare({ database: was }, { database: is }, before)).toEqual([
    'queue: with {"callback":"run","payload":"another"}',
  ]);
});

test("the list is cut to a readable length", () => {
  const many = (value: number) =>
    Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}`, value]));
  const lines = compare({ state: many(1) }, { state: { ...many(2), long: "x".repeat(1_000) } });
  expect(lines).toHaveLength(21);
  expect(lines.at(-1)).toBe("and 11 more");
  expect(compare({ state: "x".repeat(1_000) }, { state: 1 })[0]!.length).toBeLessThan(300);
});
