/** A bench's result as a table for people, then as one line of JSON for programs. */
import type { BenchResult } from "./Bench.ts";
import { round } from "./rig/statistics.ts";

export function printResult(
  name: string,
  machine: string,
  result: BenchResult,
  write: (line: string) => void,
): void {
  const columns = [...new Set(result.rows.flatMap((row) => Object.keys(row.values)))];
  const cells = result.rows.map((row) => [
    row.name,
    ...columns.map((column) => show(row.values[column])),
  ]);
  const table = [["", ...columns], ...cells];
  const widths = table[0]!.map((_, i) => Math.max(...table.map((row) => row[i]!.length)));
  write("");
  write(`${name}: ${result.title}`);
  write(`  ${machine}; nats-server ${result.server}; ${result.durability}`);
  for (const row of table)
    write(
      "  " +
        row
          .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
          .join("  "),
    );
  for (const note of result.notes) write(`  ${note}`);
  write(JSON.stringify({ bench: name, machine, ...result }));
}

const show = (value: number | undefined): string =>
  value === undefined || Number.isNaN(value) ? "–" : round(value).toLocaleString("en");
