/**
 * Names a place in loaded code by the author's line, such as `src/agents.ts:12:5`, with its source
 * map where one is known. `line` and `column` are from 0, as the debugger and source maps count
 * them. The watchdog and `watchLoad` use it.
 */
import { findSourceMap } from "node:module";
import { withoutLoadMark } from "../node/loadMark.ts";

export function sourceLine(url: string, line: number, column: number): string {
  const found = findSourceMap(url)?.findEntry(line, column);
  const mapped = found !== undefined && "originalSource" in found;
  const file = mapped ? found.originalSource : url;
  const at = mapped ? [found.originalLine, found.originalColumn] : [line, column];
  return `${withoutLoadMark(file).replace("file://", "")}:${at[0]! + 1}:${at[1]! + 1}`;
}
