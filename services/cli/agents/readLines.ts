/**
 * Yields the lines of a text stream, without their line ends (LF or CRLF). A failure of the stream
 * always fails the iteration; with `node:readline`, a failure before the first line ends the
 * process.
 */
import type { Readable } from "node:stream";

/** Closes the stream if the iteration ends early. Rejects with the stream's error. */
export async function* readLines(stream: Readable): AsyncGenerator<string, void, void> {
  /** The pieces of an incomplete line. */
  let begun: string[] = [];
  for await (const chunk of stream.setEncoding("utf8")) {
    const [first = "", ...others] = String(chunk).split("\n");
    begun.push(first);
    const last = others.pop();
    if (last === undefined) continue;
    yield withoutReturn(begun.join(""));
    for (const line of others) yield withoutReturn(line);
    begun = [last];
  }
  const rest = begun.join("");
  if (rest !== "") yield withoutReturn(rest);
}

const withoutReturn = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line);
