/**
 * Where a command writes and what surrounds it: two streams, the environment, the folder. `main`
 * gives the process's own; tests give one that collects. Results go to `out` and everything else to
 * `err`, so that a pipe gets results only. What would control a terminal is escaped here, in text and in JSON alike.
 */
import { relative } from "node:path";
import { printable } from "../../../core/telemetry/printable.ts";

export interface Terminal {
  /** Writes one line of result. */
  readonly out: (line: string) => void;
  /** Writes one line for people: progress, hints, errors. */
  readonly err: (line: string) => void;
  /** People read `out` (it is a terminal, not a pipe). */
  readonly interactive: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

export function processTerminal(): Terminal {
  // A reader that has seen enough (`agents list | head`) is no failure of ours.
  for (const stream of [process.stdout, process.stderr])
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      throw error;
    });
  return {
    out: (line) => void process.stdout.write(printable(line) + "\n"),
    err: (line) => void process.stderr.write(printable(line) + "\n"),
    interactive: process.stdout.isTTY === true,
    env: process.env,
    cwd: process.cwd(),
  };
}

/** A path as people want to read it: relative where it lies below the folder that they are in. */
export function shownPath(cwd: string, path: string): string {
  const below = relative(cwd, path);
  return below.startsWith("..") ? path : below || ".";
}
