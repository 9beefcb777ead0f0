/**
 * What every command that works on a running installation has in common: the options that select
 * the installation, the help of its arguments, and a connection that is open while the command
 * runs.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import type { ReaderOptions, ReadPorts, Target } from "../../wiring/ReadPorts.ts";
import { parsed, readClass, readName } from "./argumentParsers.ts";
import { addLoginOptions, loginOf, type GivenLogin } from "./brokerLogin.ts";
import type { CommandContext } from "./CommandContext.ts";
import { findTarget } from "./findTarget.ts";
import { NO_ARCHIVE } from "../../../core/retention/archiveUrl.ts";
import { archive } from "./historyOptions.ts";
import * as option from "./options.ts";

const CLASS_HELP = "agent class, as in code or in URLs: RepoAgent, repo-agent";
const NAME_HELP = "name of the agent";

/** The values that commander parses for these options. */
export interface GivenTarget extends GivenLogin {
  readonly json?: boolean;
  readonly nats?: string;
  readonly namespace?: string;
  readonly data: string;
  readonly archive?: string;
}

/** `agent` are the first arguments of a command that is about an agent or a class. */
export const addTargetOptions = (
  command: Command,
  ...agent: ReadonlyArray<"<class>" | "[class]" | "<name>" | "[name]">
): Command =>
  addLoginOptions(
    agent
      .reduce(
        (to, name) =>
          name.includes("class")
            ? to.argument(name, CLASS_HELP, parsed(readClass))
            : to.argument(name, NAME_HELP, parsed(readName)),
        command,
      )
      .addOption(option.json())
      .addOption(option.nats())
      .addOption(option.namespace())
      .addOption(option.data())
      .addOption(archive("archive of trimmed history, read together with the journals")),
  );

/**
 * Connects to the installation that the options select, calls `use`, and closes the connection when
 * `use` has settled. Rejects with `CliError` if no installation is found, and as `Joins.openReader`
 * and `use` do.
 */
export async function withPorts<A>(
  { joins, terminal }: CommandContext,
  given: GivenTarget,
  use: (ports: ReadPorts, target: Target) => Promise<A>,
  options: ReaderOptions = {},
): Promise<A> {
  const target = {
    ...findTarget({
      nats: given.nats,
      login: loginOf(given, terminal.cwd),
      namespace: given.namespace,
      dataFolder: resolve(terminal.cwd, given.data),
      cwd: terminal.cwd,
    }),
    ...(given.archive === undefined || given.archive === NO_ARCHIVE
      ? {}
      : { archive: given.archive }),
  };
  const ports = await joins.openReader(target, options);
  try {
    return await use(ports, target);
  } finally {
    await ports.close();
  }
}

/** As `withPorts`, without SQLite, for commands that query no database. */
export const withoutSql = (
  context: CommandContext,
  given: GivenTarget,
  use: (ports: ReadPorts) => Promise<void>,
): Promise<void> => withPorts(context, given, use, { sql: false });
