/**
 * Parses a command line and runs it. `commandList` has the commands by group. Each one's options,
 * help and body are in a file of its own, which is imported only when the command is used. Commands
 * receive what they need from the system as `Joins`.
 */
import { Command, CommanderError, Help } from "commander";
import type { Joins } from "../wiring/Joins.ts";
import { COMMAND_GROUPS, COMMANDS } from "./commandList.ts";
import type { CommandContext } from "./options/CommandContext.ts";
import { readVariables } from "./options/readVariables.ts";
import { EXIT_OK, EXIT_USAGE } from "./terminal/CliError.ts";
import type { Terminal } from "./terminal/Terminal.ts";

const INTRO = "Stateful agents for webhooks, WebSockets and schedules, on NATS JetStream.";

const OUTRO = `
Exit codes:
  0    done
  1    failed: the message says why and what to do
  2    the command line is wrong
  3    the agent or dead letter does not exist
  4    a run on other code had a different result
  130  Ctrl-C ended the command before it was done; a serving command ends
       with it at the second Ctrl-C
  141  the reader of the output closed the pipe, like head
  143  SIGTERM ended the command before it was done

Many options can also be set by an environment variable, shown in their help. That of
an option without a value says 1, true or yes; or 0, false, no or nothing.
"agents help <command>" shows a command's options and examples.`;

/**
 * Runs one command line, without `node` and the script, and returns its exit code: 0, or 2 for a
 * command line that can't be parsed. Rejects as the command does.
 */
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
    .showHelpAfterError('"agents --help" lists the commands.')
    .enablePositionalOptions()
    .exitOverride()
    .hook("preAction", (_program, command) => readVariables(command))
    .configureOutput({
      writeOut: (text) => terminal.out(text.trimEnd()),
      writeErr: (text) => terminal.err(text.trimEnd()),
    });
  await addCommands(program, { joins, terminal, args, commands: COMMANDS });
  try {
    await program.parseAsync([...askedHelp(args)], { from: "user" });
    return EXIT_OK;
  } catch (error) {
    // Commander has already printed the help, the version or the error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
    throw error;
  }
}

/** `help nope` is reported as `nope` is. Commander would only print the list of commands. */
function askedHelp(args: ReadonlyArray<string>): ReadonlyArray<string> {
  const [first, about] = args;
  if (first !== "help" || about === undefined || COMMANDS.some(({ name }) => name === about))
    return args;
  return about === "help" || about.startsWith("-") ? ["--help"] : [about];
}

/** Beside the commands there is room for this in a terminal of 80 columns. */
const SUMMARY_COLUMNS_MIN = 36;

/** Adds the given command, and the others with only what the list of commands shows. */
async function addCommands(program: Command, context: CommandContext): Promise<void> {
  const { args } = context;
  const given = args[0] === "help" ? args[1] : args[0];
  const takes = new Map<Command, string>();
  const help = new Help();
  program.configureHelp({
    // In the list of commands, all of which have options.
    subcommandTerm: (command) =>
      (takes.has(command)
        ? `${command.name()} ${takes.get(command)}`.trimEnd()
        : help.subcommandTerm(command)
      ).replace(" [options]", ""),
    minWidthToWrap: SUMMARY_COLUMNS_MIN,
  });
  for (const [heading, commands] of COMMAND_GROUPS) {
    program.commandsGroup(heading);
    for (const listed of commands) {
      if (listed.name === given) (await listed.load())(program, context);
      else takes.set(program.command(listed.name), listed.takes);
      const command = program.commands.at(-1)!;
      command.summary(listed.summary);
      pointToHelp(command, `agents ${listed.name}`);
    }
  }
}

/** An error in a command's options points to the help of that command, as `words` call it. */
function pointToHelp(command: Command, words: string): void {
  command.showHelpAfterError(`"${words} --help" shows how it is used.`);
  for (const one of command.commands) pointToHelp(one, `${words} ${one.name()}`);
}
