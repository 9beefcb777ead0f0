/**
 * How an agent differs between two moments: fields of its state, tables, and rows of the tables
 * that its code made. Pure. For `agents diff`, `agents history --rows`, `compareAgents` and the
 * console.
 */
import { withIndex, withName } from "./FieldPath.ts";
import { counted } from "../../schemas/counted.ts";
import { countRows, rowsByPath, tablesOf, type ReadableDatabase, type Row } from "./tableRows.ts";
import { defined } from "../collections/defined.ts";

/** `before` is absent for additions, `after` for removals. */
export interface Difference {
  /** As `FieldPath` writes it; `table:<name>` for a table's definition. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** Undefined is a state that was never set. */
export function* stateDifferences(
  was: unknown,
  is: unknown,
  path = "state",
): Generator<Difference> {
  if (JSON.stringify(was) === JSON.stringify(is)) return;
  if (!isObject(was) || !isObject(is) || Array.isArray(was) !== Array.isArray(is)) {
    yield differenceOf(path, was, is);
    return;
  }
  const step = Array.isArray(is) ? withIndex : withName;
  for (const key of new Set([...Object.keys(was), ...Object.keys(is)]))
    yield* stateDifferences(own(was, key), own(is, key), step(path, key));
}

/** The rows of an agent's tables at one moment, to be compared with those of another. */
interface TableRows {
  /** The definition. */
  readonly sql: string;
  readonly count: number;
  /** Undefined: more than were to be read. */
  readonly rows: ReadonlyMap<string, Row> | undefined;
}
export type Tables = ReadonlyMap<string, TableRows>;

/** `rowsMax`: of one table; of a larger one only the number is compared. */
export const readTables = (database: ReadableDatabase, rowsMax: number): Tables =>
  new Map(
    Array.from(tablesOf(database), ([name, sql]) => {
      const count = countRows(database, name);
      const rows = count > rowsMax ? undefined : rowsByPath(database, name);
      return [name, { sql, count, rows }] as const;
    }),
  );

export function* tableDifferences(was: Tables, is: Tables): Generator<Difference> {
  for (const name of new Set([...was.keys(), ...is.keys()])) {
    const [before, after] = [was.get(name), is.get(name)];
    if (before?.sql !== after?.sql) yield differenceOf(`table:${name}`, before?.sql, after?.sql);
    yield* rowDifferences(name, before ?? EMPTY, after ?? EMPTY);
  }
}

const EMPTY: TableRows = { sql: "", count: 0, rows: new Map() };

function* rowDifferences(table: string, was: TableRows, is: TableRows): Generator<Difference> {
  if (was.rows === undefined || is.rows === undefined) {
    if (was.count !== is.count)
      yield differenceOf(withName("", table), counted(was.count, "row"), counted(is.count, "row"));
    return;
  }
  for (const [path, before] of was.rows) {
    const after = is.rows.get(path);
    if (after === undefined) yield differenceOf(path, before, undefined);
    else yield* columnDifferences(path, before, after);
  }
  for (const [path, after] of is.rows)
    if (!was.rows.has(path)) yield differenceOf(path, undefined, after);
}

function* columnDifferences(path: string, before: Row, after: Row): Generator<Difference> {
  for (const column of new Set([...Object.keys(before), ...Object.keys(after)]))
    yield* stateDifferences(own(before, column), own(after, column), withName(path, column));
}

/** A field or a column may have the name of something that every object inherits. */
const own = (value: Readonly<Record<string, unknown>>, key: string): unknown =>
  Object.hasOwn(value, key) ? value[key] : undefined;

const differenceOf = (path: string, before: unknown, after: unknown): Difference => ({
  path,
  ...defined({ before, after }),
});

/** Characters of a value in a line. */
const VALUE_MAX = 240;

/** For people. */
export const differenceLine = ({ path, before, after }: Difference): string =>
  `${path}: ${shown(before)} -> ${shown(after)}`;

function shown(value: unknown): string {
  if (value === undefined) return "unset";
  const text = JSON.stringify(value);
  return text.length <= VALUE_MAX ? text : `${text.slice(0, VALUE_MAX)}…`;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;
