/**
 * What a command uses of its process: two output streams, the environment and the working folder.
 * `main` passes those of the process, and tests pass a terminal that collects the output. Results
 * go to `out` and everything else to `err`, so that a pipe receives only results. Control
 * characters are escaped here, in text and in JSON alike.
 */
import { relative } from "node:path";
import { printable } from "../../../core/telemetry/printable.ts";
import { EXIT_FAILED } from "./CliError.ts";

export interface Terminal {
  /** Writes one line of result. */
  readonly out: (line: string) => void;
  /** Clears the screen; absent where `out` is not a terminal. */
  readonly clear?: () => void;
  /** Writes one line for people: progress, hints, errors. */
  readonly err: (line: string) => void;
  /**
   * Shows a text below all output, in place of the previous one; undefined removes it. Absent if
   * `err` is not a terminal.
   */
  readonly status?: (text: string | undefined) => void;
  /** True where people read `out`: it is a terminal and not a pipe. */
  readonly interactive: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** The exit code that shells report for a program that SIGPIPE (13) ended. */
const PIPE_CLOSED = 141;

/** `isWorker`: the process serves, whether or not somebody reads what it prints. Default false. */
export function processTerminal({ isWorker = false } = {}): Terminal {
  process.stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (isWorker) return;
    // A reader that has closed the pipe (`agents list | head`) wants no more results. The exit code
    // says that they are incomplete, as for any program that SIGPIPE ends.
    if (code === "EPIPE") process.exit(PIPE_CLOSED);
    process.stderr.write(`agents: The output can't be written, and is incomplete: ${message}\n`);
    process.exit(EXIT_FAILED);
  });
  // A command or service continues, and keeps its exit code, if its messages have no reader, or no
  // room on their disk.
  process.stderr.on("error", () => undefined);
  let shown = false;
  const status = (text: string | undefined): void => {
    if (text === undefined && !shown) return;
    process.stderr.write(`\r${text === undefined ? "" : cut(printable(text))}\u001b[K`);
    shown = text !== undefined;
  };
  return {
    out: (line) => {
      status(undefined);
      process.stdout.write(printable(line) + "\n");
    },
    clear: () => void process.stdout.write("\u001b[H\u001b[2J"),
    err: (line) => {
      status(undefined);
      process.stderr.write(printable(line) + "\n");
    },
    ...(process.stderr.isTTY && { status }),
    interactive: process.stdout.isTTY === true,
    env: process.env,
    cwd: process.cwd(),
  };
}

/** A text that is longer than one line could not be replaced. */
const cut = (text: string): string =>
  text.slice(0, Math.max(0, (process.stderr.columns ?? 80) - 1));

/** Returns a path for people: relative if it is below the working folder. */
export function shownPath(cwd: string, path: string): string {
  const below = relative(cwd, path);
  return below.startsWith("..") ? path : below || ".";
}
