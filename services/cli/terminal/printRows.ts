/**
 * Prints the rows of a query: a table with the number of rows for people, or an array of objects by
 * column as JSON. Blobs are base64, integers past 2^53 strings.
 */
import type { SqlValue } from "../../../core/database/Databases.ts";
import { plainValue, rowObjects, type PlainValue } from "../../../core/query/askView.ts";
import type { Terminal } from "./Terminal.ts";

/** `note` follows the number of rows, for people. */
export function printRows(
  terminal: Pick<Terminal, "out" | "err">,
  result: {
    readonly columns: ReadonlyArray<string>;
    readonly rows: ReadonlyArray<ReadonlyArray<SqlValue>>;
  },
  json: boolean,
  note = "",
): void {
  const { columns } = result;
  const rows = result.rows.map((row) => row.map(plainValue));
  if (json) return terminal.out(JSON.stringify(rowObjects({ columns, rows })));
  for (const line of table(columns, rows)) terminal.out(line);
  terminal.err(`${rows.length} ${rows.length === 1 ? "row" : "rows"}${note}`);
}

/** Characters of a cell that are shown; `--json` prints all. */
const CELL_MAX = 60;

function table(
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<PlainValue>>,
): string[] {
  if (columns.length === 0) return [];
  const cells = rows.map((row) => row.map(cell));
  const widths = columns.map((name, i) =>
    Math.max(name.length, ...cells.map((row) => row[i]!.length)),
  );
  const line = (values: ReadonlyArray<string>): string =>
    values
      .map((value, i) => value.padEnd(widths[i]!))
      .join("  ")
      .trimEnd();
  return [line(columns), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)];
}

function cell(value: PlainValue): string {
  // A line break or an escape sequence in a cell would break the table or the terminal.
  const text = value === null ? "NULL" : String(value).replace(/[\p{Cc}]+/gu, " ");
  return text.length > CELL_MAX ? text.slice(0, CELL_MAX - 1) + "…" : text;
}
