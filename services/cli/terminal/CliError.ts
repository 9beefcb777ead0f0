/**
 * What a command can fail with, and the exit code for it. Codes are part of the interface: scripts
 * decide on them. `main` maps everything else to 1.
 */
import * as Data from "effect/Data";

/** Done. */
export const EXIT_OK = 0;
/** It was understood, tried, and failed. */
export const EXIT_FAILED = 1;
/** The command line is wrong; nothing was tried. */
export const EXIT_USAGE = 2;
/** What was asked for does not exist. */
export const EXIT_NOT_FOUND = 3;
/** A second Ctrl-C ended it before it had stopped: 128 + SIGINT, as shells have it. */
export const EXIT_FORCED = 130;

/** `message` says what happened, to what, and what to do next; it is all that people see. */
export class CliError extends Data.TaggedError("CliError")<{
  readonly message: string;
  readonly exitCode: number;
}> {}

export const failed = (message: string): CliError =>
  new CliError({ message, exitCode: EXIT_FAILED });
export const usage = (message: string): CliError => new CliError({ message, exitCode: EXIT_USAGE });
export const notFound = (message: string): CliError =>
  new CliError({ message, exitCode: EXIT_NOT_FOUND });
