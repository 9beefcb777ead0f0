/**
 * Finds the place of a syntax error in JavaScript files. Node prints the place only on stderr when
 * it exits, and does not include it in the error of `import()`. A separate Node process therefore
 * checks the files. Used only by `loadModule` after a failure. For TypeScript files, esbuild names
 * the place.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const JAVASCRIPT = /\.m?js$/;
/** Much longer than parsing takes. A stuck child must not delay the message forever. */
const CHECK_TIMEOUT_MS = 10_000;

/** Returns `file:line: message` with the source line, or undefined if every file parses. */
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
