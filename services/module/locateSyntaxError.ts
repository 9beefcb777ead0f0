/**
 * Finds the place of a syntax error in JavaScript files. Node tells it only on stderr, when it gives
 * up, and not in the error that `import()` rejects with; so the files are checked by a Node of their
 * own. Only for `loadModule`, on its failure path. (TypeScript files: esbuild names the place.)
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const JAVASCRIPT = /\.m?js$/;
/** Far more than parsing takes; a stuck child must not hold the message back for ever. */
const CHECK_TIMEOUT_MS = 10_000;

/** `file:line: message` with the line itself, or undefined where every file parses. */
export function locateSyntaxError(files: ReadonlyArray<string>): string | undefined {
  for (const file of files.filter((name) => JAVASCRIPT.test(name))) {
    const { status, stderr } = spawnSync(
      process.execPath,
      ["--check", "--input-type=module", "-"],
      { input: readFileSync(file), encoding: "utf8", timeout: CHECK_TIMEOUT_MS },
    );
    const [, line, source, message] = /^\[stdin\]:(\d+)\n([^]*?)\n\n(.*)/.exec(stderr) ?? [];
    if (status !== 0 && line !== undefined) return `${file}:${line}: ${message}\n${source}`;
  }
  return undefined;
}
