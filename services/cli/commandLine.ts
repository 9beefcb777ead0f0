/**
 * The command line joined with the adapters. `main` imports it once it has started the first
 * worker.
 */
import { commandJoins, explain, type CommandJoins } from "../wiring/joinCommands.ts";
import type { Joins } from "../wiring/Joins.ts";
import type { WorkerLink } from "../workers/workerLink.ts";
import { maskCommandLine } from "./terminal/commandLineSecrets.ts";
import { runProgram } from "./program.ts";
import { CliError, EXIT_FAILED } from "./terminal/CliError.ts";
import { processTerminal } from "./terminal/Terminal.ts";

interface CommandLine {
  readonly joins: CommandJoins;
  /** Runs a command, reports its errors, and sets the process's exit code. Never rejects. */
  readonly run: (args: ReadonlyArray<string>) => Promise<void>;
}

/** `link` is set in a worker. */
export function commandLine({
  link,
  startWorker,
  version,
}: Pick<Joins, "startWorker"> & {
  readonly link: WorkerLink | undefined;
  readonly version: string;
}): CommandLine {
  const terminal = processTerminal({ isWorker: link !== undefined });
  const joins = commandJoins({ link, startWorker });
  return {
    joins,
    run: async (args) => {
      const warning = maskCommandLine(args);
      // The control process has already reported it.
      if (warning !== undefined && link === undefined) terminal.err(warning);
      try {
        process.exitCode = await runProgram(args, joins, terminal, version);
      } catch (error) {
        const message = explain(error);
        if (message !== "") terminal.err(`agents: ${message}`);
        process.exitCode = error instanceof CliError ? error.exitCode : EXIT_FAILED;
      }
    },
  };
}
