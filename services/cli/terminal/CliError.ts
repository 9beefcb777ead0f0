/**
 * The error that commands fail with, and its exit codes. The codes are part of the interface,
 * because scripts depend on them. `main` maps every other error to 1.
 */
import { constants } from "node:os";

/** Done. */
export const EXIT_OK = 0;
/** The command was understood and tried, and failed. */
export const EXIT_FAILED = 1;
/** The command line is wrong; nothing was tried. */
export const EXIT_USAGE = 2;
/** The agent or dead letter does not exist. */
export const EXIT_NOT_FOUND = 3;
/** A rerun had a different result. */
export const EXIT_DIFFERS = 4;
/** The shells' convention for a process that a signal ended: 128 and the signal's number. */
export const exitOnSignal = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** `message` says what happened, to what, and what to do next. People see nothing else. */
export class CliError extends Error {
  readonly _tag = "CliError";
  readonly exitCode: number;

  constructor({ message, exitCode }: { readonly message: string; readonly exitCode: number }) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const failed = (message: string): CliError =>
  new CliError({ message, exitCode: EXIT_FAILED });
export const usage = (message: string): CliError => new CliError({ message, exitCode: EXIT_USAGE });
export const notFound = (message: string): CliError =>
  new CliError({ message, exitCode: EXIT_NOT_FOUND });
export const differs = (message: string): CliError =>
  new CliError({ message, exitCode: EXIT_DIFFERS });
