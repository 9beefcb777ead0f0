/**
 * `agents sql <class> <name> "<query>" [--at …]`: asks an agent's database, now or at any point of
 * its history. It runs on a copy rebuilt from the journal, so a statement that writes is refused: its
 * effect would be lost without a word.
 */
import type { SqlResult, SqlValue } from "../../../core/database/Databases.ts";
import { failed } from "../CliError.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";
import { withAgentAt, type AgentAt } from "../withAgentAt.ts";

export interface SqlOptions extends AgentAt {
  readonly query: string;
  readonly json: boolean;
}

/** `--json` prints an array of rows, objects by column; blobs are base64, integers past 2^53 are strings. */
export const sql = (ports: ReadPorts, terminal: Terminal, options: SqlOptions): Promise<void> =>
  withAgentAt(ports, options, (_id, { database }) => {
    let result: SqlResult;
    try {
      result = database.query(options.query, []);
    } catch (error) {
      throw failed(`SQLite: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (result.wrote)
      throw failed(
        "The statement writes, and this is a copy that is thrown away: nothing was changed. Only the agent's own code writes to its database.",
      );
    const rows = result.rows.map((row) => row.map(printable));
    if (options.json) {
      const objects = rows.map((row) =>
        Object.fromEntries(result.columns.map((column, i) => [column, row[i]])),
      );
      terminal.out(JSON.stringify(objects));
      return;
    }
    for (const line of table(result.columns, rows)) terminal.out(line);
    terminal.err(`${rows.length} ${rows.length === 1 ? "row" : "rows"}`);
  });

type Printable = string | number | null;

function printable(value: SqlValue): Printable {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

/** Characters of a cell that are shown; `--json` has all. */
const CELL_MAX = 60;

function table(
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Printable>>,
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

function cell(value: Printable): string {
  // A line break or an escape sequence in a cell would break the table, or the terminal.
  const text = value === null ? "NULL" : String(value).replace(/[\p{Cc}]+/gu, " ");
  return text.length > CELL_MAX ? text.slice(0, CELL_MAX - 1) + "…" : text;
}
