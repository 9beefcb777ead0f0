/**
 * The command line: commands, their options and their help. Parses, and calls one function of
 * `commands/` each; what those need from the system comes as `Joins`.
 */
import { Command, CommanderError } from "commander";
import { EXIT_OK, EXIT_USAGE } from "./CliError.ts";
import { addActingCommands } from "./actingCommands.ts";
import { addReadingCommands } from "./readingCommands.ts";
import { addSavingCommands } from "./savingCommands.ts";
import { addServingCommands } from "./servingCommands.ts";
import type { Joins } from "../wiring/Joins.ts";
import type { Terminal } from "./Terminal.ts";

const INTRO = "Stateful agents for webhooks, WebSockets and schedules, on NATS JetStream.";

const OUTRO = `
Exit codes:
  0  done
  1  failed: the message says what and what to do
  2  the command line is wrong
  3  there is no such agent, or no such dead letter

Options can also be set by the environment variable that their help names.
"agents help <command>" has each command's options and examples.`;

/** Runs one command line (without `node` and the script) and returns its exit code. Rejects with what a command failed with. */
export async function runProgram(
  args: ReadonlyArray<string>,
  joins: Joins,
  terminal: Terminal,
  version: string,
): Promise<number> {
  const program = new Command("agents")
    .description(INTRO)
    .version(version, "-v, --version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show a command's help")
    .addHelpText("after", OUTRO)
    .showSuggestionAfterError()
    .showHelpAfterError('"agents --help" shows what there is.')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(text.trimEnd()),
      writeErr: (text) => terminal.err(text.trimEnd()),
    });
  program.commandsGroup("Serving:");
  addServingCommands(program, joins, terminal, args);
  program.commandsGroup("Looking:");
  addReadingCommands(program, joins, terminal);
  program.commandsGroup("Acting:");
  addActingCommands(program, joins, terminal);
  program.commandsGroup("Saving:");
  addSavingCommands(program, joins, terminal);
  try {
    await program.parseAsync(args as string[], { from: "user" });
    return EXIT_OK;
  } catch (error) {
    // Commander has already printed help, version or what is wrong.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
    throw error;
  }
}
