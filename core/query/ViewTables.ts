/**
 * The tables of the view (`View`): one for each class, with a row for each agent; `agents`, all of
 * them together, with their class; and `classes`, which names each class's table. The columns are
 * the interface of `agents query` (docs/guides/queries.md).
 *
 * A class's table has the class's name. Where SQLite has that name already, or does not allow it
 * (it does not tell `Repo` from `REPO`), a number is added. Names of agents are only ever bound as
 * values, and classes are identifiers.
 */
import { quoted } from "../database/quoted.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { AgentDatabase, SqlValue } from "../database/Databases.ts";
import type { Schedule } from "../schedule/Schedule.ts";
import { NO_ROW, type AgentRow } from "./AgentRow.ts";

/** The page size of every agent's database (`services/sqlite/PagePool`). */
const PAGE_BYTES = 4096;

/** In their order: the long ones last, so that SQLite need not read through them. */
const COLUMNS = [
  "name",
  "seq",
  "time",
  "errors",
  "error",
  "fault",
  "due",
  "size",
  "schedules",
  "state",
];

/** In the order of their values in `put`. `size` is computed. */
const WRITTEN = COLUMNS.map((name) => (name === "size" ? "pages" : name));

const tableDdl = (table: string): string => `CREATE TABLE ${quoted(table)} (
  name TEXT PRIMARY KEY,
  seq INTEGER,
  time TEXT,
  errors INTEGER,
  error TEXT,
  fault TEXT,
  due TEXT,
  pages INTEGER,
  size INTEGER AS (pages * ${PAGE_BYTES} + coalesce(length(CAST(state AS BLOB)), 0)),
  schedules TEXT,
  state TEXT
)`;

export class ViewTables {
  /** Tables by class. */
  private readonly tables = new Map<string, string>();
  /** Statements by table: they are used for each row. */
  private readonly statements = new Map<string, RowStatements>();

  /** Creates missing tables. */
  constructor(private readonly database: AgentDatabase) {
    // Pages of an ended agent are overwritten.
    database.query("PRAGMA secure_delete = ON", []);
    database.query(
      "CREATE TABLE IF NOT EXISTS classes (class TEXT PRIMARY KEY, table_name TEXT)",
      [],
    );
    for (const [className, table] of database.query("SELECT * FROM classes", []).rows)
      this.tables.set(String(className), String(table));
    if (this.tables.size === 0) this.makeUnion();
  }

  get classes(): ReadonlyArray<string> {
    return [...this.tables.keys()];
  }

  /** The agent's row, or `NO_ROW`. */
  get(id: AgentId): AgentRow {
    const table = this.tables.get(id.class);
    if (table === undefined) return NO_ROW;
    const [row] = this.database.query(this.statementsOf(table).get, [id.name]).rows;
    if (row === undefined) return NO_ROW;
    const [seq, time, errors, error, fault, pages, schedules, state] = row;
    return {
      seq: Number(seq),
      timeMs: time === null ? 0 : Date.parse(String(time)),
      errors: Number(errors),
      error: textOf(error),
      fault: textOf(fault),
      pages: Number(pages),
      schedules: new Map(
        (JSON.parse(String(schedules)) as Schedule[]).map((each) => [each.id, each]),
      ),
      state: textOf(state),
      ended: false,
    };
  }

  /** Called in a transaction. */
  put(id: AgentId, row: AgentRow): void {
    const { name } = id;
    if (row.ended) {
      const table = this.tables.get(id.class);
      if (table === undefined) return;
      this.database.query(this.statementsOf(table).remove, [name]);
      return;
    }
    const schedules = [...row.schedules.values()];
    let dueSeconds = Infinity;
    // 0: a row that can't be armed (`toSchedule`). Null: of users' SQL, an infinite time as JSON.
    for (const { time } of schedules as Iterable<{ readonly time: number | null }>)
      if (time !== 0 && time !== null) dueSeconds = Math.min(dueSeconds, time);
    this.database.query(this.statementsOf(this.tableOf(id.class)).put, [
      name,
      row.seq,
      row.seq === 0 ? null : isoOf(row.timeMs),
      row.errors,
      row.error ?? null,
      row.fault ?? null,
      dueSeconds === Infinity ? null : isoOf(dueSeconds * 1000),
      row.pages,
      JSON.stringify(schedules),
      row.state ?? null,
    ]);
  }

  /** Creates it if it is missing. */
  tableOf(className: string): string {
    const known = this.tables.get(className);
    if (known !== undefined) return known;
    const table = this.freeName(className);
    this.database.query(tableDdl(table), []);
    this.database.query("INSERT INTO classes VALUES (?, ?)", [className, table]);
    this.tables.set(className, table);
    this.makeUnion();
    return table;
  }

  private statementsOf(table: string): RowStatements {
    const known = this.statements.get(table);
    if (known !== undefined) return known;
    const made = rowStatements(quoted(table));
    this.statements.set(table, made);
    return made;
  }

  private freeName(className: string): string {
    const { rows } = this.database.query("SELECT lower(name) FROM sqlite_schema", []);
    const taken = new Set(rows.map(([name]) => name));
    // SQLite reserves names that begin with this.
    const start = className.toLowerCase().startsWith("sqlite_") ? `_${className}` : className;
    let name = start;
    for (let n = 2; taken.has(name.toLowerCase()); n++) name = `${start}_${n}`;
    return name;
  }

  /** Makes `agents` the union of the present tables. */
  private makeUnion(): void {
    const columns = COLUMNS.join(", ");
    const parts = Array.from(
      this.tables,
      ([className, table]) => `SELECT '${className}' AS class, ${columns} FROM ${quoted(table)}`,
    );
    const nothing = `SELECT NULL AS class, ${COLUMNS.map((name) => `NULL AS ${name}`).join(", ")} WHERE false`;
    this.database.query("DROP VIEW IF EXISTS agents", []);
    this.database.query(`CREATE VIEW agents AS ${parts.join(" UNION ALL ") || nothing}`, []);
  }
}

interface RowStatements {
  readonly get: string;
  readonly put: string;
  readonly remove: string;
}

/** `put` changes a row in its place: REPLACE would remove and add it, and its index entry. */
function rowStatements(table: string): RowStatements {
  const [name, ...changing] = WRITTEN;
  return {
    get: `SELECT seq, time, errors, error, fault, pages, schedules, state FROM ${table} WHERE name = ?`,
    put: `INSERT INTO ${table} (${WRITTEN.join(", ")}) VALUES (${WRITTEN.map(() => "?").join(", ")})
      ON CONFLICT (${name}) DO UPDATE SET ${changing.map((column) => `${column} = excluded.${column}`).join(", ")}`,
    remove: `DELETE FROM ${table} WHERE name = ?`,
  };
}

const textOf = (value: SqlValue | undefined): string | undefined =>
  typeof value === "string" ? value : undefined;

/** Null for an invalid time: users' SQL writes rows of schedules. */
function isoOf(ms: number): string | null {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
