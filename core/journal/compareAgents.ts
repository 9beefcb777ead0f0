/**
 * Tells in which ways what one code made of an agent differs from what another made of it, for
 * people: paths of the state, rows of the tables that its code made, and what was scheduled, queued
 * and sent. Of those only what came anew is compared, for what was there before is done in its own
 * time; and ids that each run makes up are not looked at. Fed by `agents rerun`.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { cut, valueDifferences } from "./valueDifferences.ts";

export interface ComparedAgent {
  /** Undefined: unset. */
  readonly state: unknown;
  readonly database: Pick<AgentDatabase, "query">;
}

/** Rows of one table past which only their number is compared. */
const ROWS_MAX = 10_000;
/** Lines for one comparison: a person reads them. */
const LINES_MAX = 20;
/** Bytes of a blob in a line. */
const BLOB_BYTES_MAX = 120;
/** The library's own tables: bookkeeping with ids and times, but for these columns. */
const OWN_TABLES = /^(?:svc_agents_|cf_agents_|sqlite_)/;
const OWN_COLUMNS = [
  ["svc_agents_schedules", "schedules", "callback, payload, type, delayInSeconds, cron, intervalSeconds"],
  ["svc_agents_queue", "queue", "callback, payload"],
  ["svc_agents_outgoing", "webhooks sent", "callback, payload"],
  ["svc_agents_mail", "mail sent", "callback, payload"],
] as const; // prettier-ignore

/**
 * A line for each difference, at most twenty; none: the same. `was` is the first; `before` is where
 * both began.
 */
export function compareAgents(
  was: ComparedAgent,
  is: ComparedAgent,
  before: ComparedAgent["database"],
): ReadonlyArray<string> {
  const lines = [
    ...valueDifferences(was.state, is.state, "state"),
    ...differentTables(was.database, is.database),
    ...OWN_COLUMNS.flatMap(([table, what, columns]) => {
      const added = ({ database }: ComparedAgent): Rows => {
        const [there, now] = [ownRows(before, table, columns), ownRows(database, table, columns)];
        const texts = without(now, there);
        return { count: texts.length, texts };
      };
      return [...differentRows(what, added(was), added(is))];
    }),
  ];
  if (lines.length <= LINES_MAX) return lines;
  return [...lines.slice(0, LINES_MAX), `and ${lines.length - LINES_MAX} more`];
}

function* differentTables(
  was: ComparedAgent["database"],
  is: ComparedAgent["database"],
): Generator<string> {
  const [before, after] = [tablesOf(was), tablesOf(is)];
  for (const name of new Set([...before, ...after]))
    if (!after.has(name)) yield `table ${name}: gone`;
    else if (before.has(name))
      yield* differentRows(`table ${name}`, rowsOf(was, name), rowsOf(is, name)); // prettier-ignore
    else yield `table ${name}: new, with ${many(rowsOf(is, name).count, "row")}`;
}

interface Rows {
  readonly count: number;
  /** Undefined: too many. */
  readonly texts: ReadonlyArray<string> | undefined;
}

function* differentRows(what: string, was: Rows, is: Rows): Generator<string> {
  if (was.texts === undefined || is.texts === undefined) {
    if (was.count !== is.count) yield `${what}: ${was.count} rows -> ${is.count}`;
    return;
  }
  for (const text of without(was.texts, is.texts)) yield `${what}: without ${cut(text)}`;
  for (const text of without(is.texts, was.texts)) yield `${what}: with ${cut(text)}`;
}

/** The texts that are not among the others, each as often as it is too many. */
function without(texts: ReadonlyArray<string>, others: ReadonlyArray<string>): string[] {
  const left = new Map<string, number>();
  for (const text of others) left.set(text, (left.get(text) ?? 0) + 1);
  return texts.filter((text) => {
    const count = left.get(text) ?? 0;
    if (count > 0) left.set(text, count - 1);
    return count === 0;
  });
}

const tablesOf = (database: ComparedAgent["database"]): ReadonlySet<string> =>
  new Set(
    database
      .query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", [])
      .rows.map(([name]) => String(name))
      .filter((name) => !OWN_TABLES.test(name)),
  );

function rowsOf(database: ComparedAgent["database"], table: string): Rows {
  const quoted = `"${table.replaceAll('"', '""')}"`;
  const count = Number(database.query(`SELECT count(*) FROM ${quoted}`, []).rows[0]?.[0]);
  if (count > ROWS_MAX) return { count, texts: undefined };
  return { count, texts: textsOf(database, `SELECT * FROM ${quoted}`) };
}

function ownRows(
  database: ComparedAgent["database"],
  table: string,
  columns: string,
): ReadonlyArray<string> {
  const there = database.query("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).rows;
  return there.length === 0 ? [] : textsOf(database, `SELECT ${columns} FROM ${table}`);
}

function textsOf(database: ComparedAgent["database"], sql: string): ReadonlyArray<string> {
  const { columns, rows } = database.query(sql, []);
  return rows.map((row) =>
    JSON.stringify(Object.fromEntries(columns.map((name, n) => [name, shown(row[n])]))),
  );
}

/** A cell as JSON can have it. */
function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return `${value.length} bytes ${hexOf(value)}`;
  return typeof value === "bigint" ? String(value) : value;
}

const hexOf = (bytes: Uint8Array): string =>
  Array.from(bytes.subarray(0, BLOB_BYTES_MAX), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
