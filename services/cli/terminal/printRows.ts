/**
 * Prints the rows of a query: a table with the number of rows for people, or an array of objects by
 * column as JSON. Blobs are printed as base64, and integers above 2^53 as strings.
 */
import type { SqlValue } from "../../../core/database/Databases.ts";
import { plainValue, rowObjects, type PlainValue } from "../../../core/query/askView.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
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
  terminal.err(`${counted(rows.length, "row")}${note}`);
}

/** Characters of a cell that are shown; `--json` prints all. */
const CELL_MAX = 60;

function table(
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<PlainValue>>,
): string[] {
  if (columns.length === 0) return [];
  const names = columns.map(cell);
  const cells = rows.map((row) => row.map(cell));
  const widths = names.map((name, i) =>
    cells.reduce((width, row) => Math.max(width, row[i]!.length), name.length),
  );
  const line = (values: ReadonlyArray<string>): string =>
    values
      .map((value, i) => value.padEnd(widths[i]!))
      .join("  ")
      .trimEnd();
  return [line(names), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)];
}

function cell(value: PlainValue): string {
  // Cut before control characters are escaped, because a value can be a megabyte long.
  const start = value === null ? "NULL" : String(value).slice(0, CELL_MAX + 1);
  // A line break or a change of text direction in a cell would break the table.
  const text = oneLine(start.toWellFormed());
  return text.length > CELL_MAX ? text.slice(0, CELL_MAX - 1) + "…" : text;
}
