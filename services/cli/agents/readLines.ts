/**
 * The lines of a stream of text, without their ends (LF or CRLF). Unlike in `node:readline`, a
 * failure of the stream always fails the iteration; there, a failure before the first line ends the
 * process.
 */
import type { Readable } from "node:stream";

/** Ends the stream when it is left early. Rejects with the stream's error. */
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
