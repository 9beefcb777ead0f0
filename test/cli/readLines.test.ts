/** Lines of a stream, and what becomes of a stream that fails. */
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { readLines } from "../../services/cli/agents/readLines.ts";
import { collect } from "../kit/collect.ts";

const linesOf = (stream: Readable): Promise<string[]> => collect(readLines(stream));
const of = (...chunks: ReadonlyArray<string>): Readable =>
  Readable.from(
    chunks.map((chunk) => Buffer.from(chunk)),
    { objectMode: false },
  );

test.each([
  [["a\nb\n"], ["a", "b"]],
  [
    ["a\r\n", "\r\nb"],
    ["a", "", "b"],
  ],
  [
    ["lo", "n", "g\nx", "y"],
    ["long", "xy"],
  ],
  [["\n"], [""]],
  [[], []],
])("%j is read as the lines %j", async (chunks, lines) => {
  expect(await linesOf(of(...chunks))).toEqual(lines);
});

test("a character split across chunks is decoded whole", async () => {
  const bytes = Buffer.from("é\n");
  const cut = Readable.from([bytes.subarray(0, 1), bytes.subarray(1)], { objectMode: false });
  expect(await linesOf(cut)).toEqual(["é"]);
});

test("a stream that fails before its first line is read rejects", async () => {
  const stream = new Readable({ read: () => undefined });
  const lines = readLines(stream);
  stream.destroy(new Error("damaged"));
  await expect(lines.next()).rejects.toThrow("damaged");
});

test("a stream that is abandoned early is closed", async () => {
  const stream = of("a\nb\n", "c\n");
  for await (const _line of readLines(stream)) break;
  expect(stream.destroyed).toBe(true);
});
