/** Random SQL for the replay property, of all kinds that are hard to rebuild by running again. */
import fc from "../kit/property.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";

export type Statement =
  | { readonly do: "table"; readonly n: number }
  | { readonly do: "dropTable"; readonly n: number }
  | { readonly do: "index"; readonly n: number; readonly column: string }
  | { readonly do: "trigger"; readonly n: number }
  | { readonly do: "alter"; readonly n: number; readonly how: "add" | "rename" | "drop" }
  | { readonly do: "insert"; readonly n: number; readonly rows: number; readonly bytes: number }
  | { readonly do: "upsert"; readonly n: number; readonly key: number }
  | { readonly do: "update"; readonly n: number; readonly from: number; readonly bytes: number }
  | { readonly do: "delete"; readonly n: number; readonly from: number; readonly every: number }
  | { readonly do: "text"; readonly words: ReadonlyArray<string> }
  | { readonly do: "optimizeText" }
  | { readonly do: "fail"; readonly n: number; readonly how: "unique" | "rollback" | "syntax" }
  /** After emptying a table: the database gets smaller. */
  | { readonly do: "vacuum"; readonly n: number }
  | { readonly do: "pragma"; readonly sql: string };

/** What happens to the database between statements. */
export type Step =
  | { readonly step: "run"; readonly statement: Statement }
  | {
      readonly step: "transaction";
      readonly statements: ReadonlyArray<Statement>;
      readonly inner: ReadonlyArray<Statement>;
      readonly innerThrows: boolean;
      readonly throws: boolean;
      /** Freeze (and commit) after this many statements of it. */
      readonly freezeAfter: number | undefined;
    }
  | { readonly step: "freeze" }
  /** Ends the delta in flight; where there is none, of all that was written until now. */
  | { readonly step: "committed" }
  | { readonly step: "snapshot" }
  /** Its connection is closed, for others' room, and opened again by its next query. */
  | { readonly step: "rest" }
  | { readonly step: "reopen"; readonly keep: boolean };

const WORDS = ["push", "pull", "issue", "merge", "tag", "release", "fork", "star"];
const TABLES = 4;
const n = fc.nat(TABLES - 1);
/** Mostly small; now and then megabytes, which make overflow chains and spill every cache. */
const bytes = fc.oneof(
  { arbitrary: fc.integer({ min: 0, max: 300 }), weight: 30 },
  { arbitrary: fc.integer({ min: 3_000, max: 60_000 }), weight: 6 },
  { arbitrary: fc.integer({ min: 1_000_000, max: 3_000_000 }), weight: 1 },
);
const rows = fc.integer({ min: 1, max: 40 });

export const statement: fc.Arbitrary<Statement> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("table" as const), n }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("dropTable" as const), n }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("index" as const),
      n,
      column: fc.constantFrom("k", "r", "lower(k)", "x"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("trigger" as const), n }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("alter" as const),
      n,
      how: fc.constantFrom("add" as const, "rename" as const, "drop" as const),
    }),
  },
  { weight: 14, arbitrary: fc.record({ do: fc.constant("insert" as const), n, rows, bytes }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("upsert" as const), n, key: fc.nat(9) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("update" as const), n, from: fc.nat(60), bytes }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("delete" as const),
      n,
      from: fc.nat(60),
      every: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("text" as const),
      words: fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 30 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("optimizeText" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("fail" as const),
      n,
      how: fc.constantFrom("unique" as const, "rollback" as const, "syntax" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("vacuum" as const), n }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("pragma" as const),
      sql: fc.constantFrom(
        "PRAGMA user_version = 7", "PRAGMA secure_delete = ON", "PRAGMA optimize", "ANALYZE",
        "REINDEX", "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA incremental_vacuum(3)",
      ), // prettier-ignore
    }),
  },
);

const statements = fc.array(statement, { maxLength: 6 });

export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ step: fc.constant("run" as const), statement }) },
  {
    weight: 4,
    arbitrary: fc.record({
      step: fc.constant("transaction" as const),
      statements,
      inner: statements,
      innerThrows: fc.boolean(),
      throws: fc.boolean(),
      freezeAfter: fc.option(fc.nat(5), { nil: undefined }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ step: fc.constant("freeze" as const) }) },
  { weight: 8, arbitrary: fc.record({ step: fc.constant("committed" as const) }) },
  { weight: 1, arbitrary: fc.record({ step: fc.constant("snapshot" as const) }) },
  { weight: 2, arbitrary: fc.record({ step: fc.constant("rest" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ step: fc.constant("reopen" as const), keep: fc.boolean() }),
  },
);

/** Runs it. Statements that do not apply (no such table) fail like a user's would. */
export function run(database: AgentDatabase, what: Statement): void {
  const query = (sql: string, ...params: (string | number)[]): unknown =>
    database.query(sql, params);
  try {
    switch (what.do) {
      case "table":
        query(
          `CREATE TABLE IF NOT EXISTS t${what.n} (id INTEGER PRIMARY KEY ${what.n % 2 ? "AUTOINCREMENT" : ""}, k TEXT UNIQUE, r, x, at DEFAULT CURRENT_TIMESTAMP)`,
        );
        return;
      case "dropTable":
        return void query(`DROP TABLE t${what.n}`);
      case "index":
        return void query(
          `CREATE INDEX i${what.n}_${what.column.length} ON t${what.n} (${what.column})`,
        );
      case "trigger":
        return void query(
          `CREATE TRIGGER g${what.n} AFTER INSERT ON t${what.n} BEGIN
             UPDATE t${what.n} SET r = random() WHERE id = new.id - 1;
             INSERT INTO t${(what.n + 1) % TABLES} (k) VALUES (hex(randomblob(8)));
           END`,
        );
      case "alter":
        return void query(
          `ALTER TABLE t${what.n} ${{ add: "ADD COLUMN y DEFAULT 'some default'", rename: "RENAME COLUMN at TO made", drop: "DROP COLUMN y" }[what.how]}`,
        );
      case "insert":
        return void query(
          `WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ?)
           INSERT INTO t${what.n} (k, r, x) SELECT hex(randomblob(6)), random(), randomblob(?) FROM s`,
          what.bytes > 100_000 ? 1 : what.rows,
          what.bytes,
        );
      case "upsert":
        return void query(
          `INSERT INTO t${what.n} (k, r) VALUES (?, 1) ON CONFLICT (k) DO UPDATE SET r = r + 1`,
          `key${what.key}`,
        );
      case "update":
        return void query(
          `UPDATE t${what.n} SET x = randomblob(?), k = k || 'u' WHERE id BETWEEN ? AND ? + 3`,
          what.bytes,
          what.from,
          what.from,
        );
      case "delete":
        return void query(
          `DELETE FROM t${what.n} WHERE id >= ? AND id % ? = 0`,
          what.from,
          what.every,
        );
      case "text":
        query("CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(body)");
        query("INSERT INTO f (body) VALUES (?)", what.words.join(" "));
        return void query("DELETE FROM f WHERE rowid % 7 = 0");
      case "optimizeText":
        return void query("INSERT INTO f (f) VALUES ('optimize')");
      case "fail":
        return void query(
          {
            unique: `INSERT INTO t${what.n} (k) VALUES ('same1'), ('same2'), ('same1')`,
            rollback: `INSERT OR ROLLBACK INTO t${what.n} (k) VALUES ('same3'), ('same3')`,
            syntax: "SELEC 1",
          }[what.how],
        );
      case "vacuum":
        query(`DELETE FROM t${what.n}`);
        return void query("VACUUM");
      case "pragma":
        return void query(what.sql);
    }
  } catch (error) {
    // SQLite's own refusals are part of the workload; anything else is a finding.
    if (!(error instanceof Error && error.name === "SqliteError")) throw error;
  }
}
