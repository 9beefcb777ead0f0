/** Tables of rows at a terminal, whatever their values and names have in them. */
import { expect, test } from "vitest";
import { printRows } from "../../services/cli/terminal/printRows.ts";

function printed(columns: string[], rows: Array<Array<string | number | null>>): string[] {
  const out: string[] = [];
  printRows({ out: (line) => void out.push(line), err: () => undefined }, { columns, rows }, false);
  return out;
}

test("a table has one line per row, whatever line breaks or text directions it contains", () => {
  const lines = printed(
    ["na\nme", "n"],
    [
      ["two\nlines\u2028three", 1],
      ["\u202egnp.exe\u001b[2J", 2],
    ],
  );
  expect(lines).toEqual([
    "na\\u000ame                 n",
    "-------------------------  -",
    "two\\u000alines\\u2028three  1",
    "\\u202egnp.exe\\u001b[2J     2",
  ]);
});

test("cells and names are cut at sixty whole characters", () => {
  const [name, , cell] = printed(["x".repeat(2_000_000)], [["y".repeat(59) + "😀".repeat(9)]]);
  expect(name).toBe(`${"x".repeat(59)}…`);
  expect(cell).toBe(`${"y".repeat(59)}…`);
});
