/** One `agents` command from the built package, as users run it: its output and its end. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** The largest output: an agent's whole journal, as `agents export` prints it. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

export interface AgentsRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** What a program wrote, without the line about a module that a busy machine loads slowly. */
export const withoutLoading = (err: string): string =>
  err.replace(/^.* is still loading: .*\n/gm, "");

/** `env`: all that it gets beside `PATH`. */
export const runAgents = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
): Promise<AgentsRun> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { PATH: process.env["PATH"] ?? "", ...env }, maxBuffer: OUTPUT_BYTES_MAX },
      (error, out, err) =>
        resolve({
          code: error === null ? 0 : Number(error.code),
          out,
          err: withoutLoading(err),
        }),
    );
  });
