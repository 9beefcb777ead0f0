/**
 * The command line: lists the commands by group, parses one command line and runs it. Each
 * command's options, help and body are in `commands/`. What commands need from the system is passed
 * as `Joins`.
 */
import { Command, CommanderError } from "commander";
import type { Joins } from "../wiring/Joins.ts";
import { addBackup } from "./commands/backup.ts";
import { addCall } from "./commands/call.ts";
import { addConsole } from "./commands/console.ts";
import { addDead } from "./commands/dead.ts";
import { addDeliveries } from "./commands/deliveries.ts";
import { addDev } from "./commands/dev.ts";
import { addErase } from "./commands/erase.ts";
import { addExport } from "./commands/export.ts";
import { addFork } from "./commands/fork.ts";
import { addGateway } from "./commands/gateway.ts";
import { addHistory } from "./commands/history.ts";
import { addHost } from "./commands/host.ts";
import { addImport } from "./commands/import.ts";
import { addInit } from "./commands/init.ts";
import { addList } from "./commands/list.ts";
import { addMail } from "./commands/mail.ts";
import { addProvision } from "./commands/provision.ts";
import { addRedeliver } from "./commands/redeliver.ts";
import { addRerun } from "./commands/rerun.ts";
import { addRestore } from "./commands/restore.ts";
import { addRetention } from "./commands/retention.ts";
import { addSchedules } from "./commands/schedules.ts";
import { addSql } from "./commands/sql.ts";
import { addTop } from "./commands/top.ts";
import { addVerify } from "./commands/verify.ts";
import { addState } from "./commands/state.ts";
import { addTail } from "./commands/tail.ts";
import type { CommandContext } from "./options/CommandContext.ts";
import { EXIT_OK, EXIT_USAGE } from "./terminal/CliError.ts";
import type { Terminal } from "./terminal/Terminal.ts";

type AddCommand = (program: Command, context: CommandContext) => void;

/** In the order of the help: first the groups, then each group's commands. */
const GROUPS: ReadonlyArray<readonly [heading: string, commands: ReadonlyArray<AddCommand>]> = [
  ["Starting:", [addInit]],
  ["Serving:", [addDev, addGateway, addHost, addMail, addRetention, addProvision]],
  [
    "Looking:",
    [
      addList,
      addHistory,
      addDeliveries,
      addState,
      addTop,
      addRerun,
      addSql,
      addSchedules,
      addTail,
      addConsole,
    ],
  ],
  ["Acting:", [addCall, addErase, addDead, addRedeliver]],
  ["Saving:", [addExport, addImport, addFork, addBackup, addVerify, addRestore]],
];

const INTRO = "Stateful agents for webhooks, WebSockets and schedules, on NATS JetStream.";

const OUTRO = `
Exit codes:
  0  done
  1  failed: the message says what and what to do
  2  the command line is wrong
  3  there is no such agent, or no such dead letter

Options can also be set by the environment variable that their help names.
"agents help <command>" has each command's options and examples.`;

/**
 * Runs one command line, without `node` and the script, and returns its exit code: 0, or 2 for a
 * command line that can't be parsed. Rejects with what the command rejects with.
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
    .showHelpAfterError('"agents --help" shows what there is.')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(text.trimEnd()),
      writeErr: (text) => terminal.err(text.trimEnd()),
    });
  for (const [heading, commands] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of commands) add(program, { joins, terminal, args });
  }
  try {
    await program.parseAsync(args as string[], { from: "user" });
    return EXIT_OK;
  } catch (error) {
    // Commander has already printed the help, the version or the error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
    throw error;
  }
}
