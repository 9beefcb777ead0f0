/**
 * `agents restore <folder>` restores all agents of a backup (`agents/restoreBackup`); `agents
 * restore <class> <name> --at …` puts one agent back to an earlier point (`agents/putBack`). The
 * number of arguments decides which is meant; only the second accepts `--at`.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { putBack } from "../agents/putBack.ts";
import { openBackup, restoreBackup } from "../agents/backup/restoreBackup.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { at as atOption, type Point } from "../options/pointOptions.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { usage } from "../terminal/CliError.ts";

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly at?: Point;
  readonly yes?: boolean;
}

export function addRestore(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("restore"))
    .description(
      "With a class and a name: puts the agent's state, rows and schedules back as they were, while it runs. With a folder: restores the agents of a backup into an installation that is provisioned, empty, and without hosts. Its namespace, shards and stream groups may differ from the original's.",
    )
    .argument("<class-or-folder>", "agent class, or the folder of a backup")
    .argument("[name]", "name of the agent, after a class")
    .addOption(atOption(joins.time))
    .option("--yes", "put it back; without it, only the differences are shown")
    .addHelpText(
      "after",
      `
An agent is put back by one more event: its history stays, and the restore can be undone in the
same way. Processed webhooks stay processed, and nothing is sent again. Jobs that were waiting at
that point and have run since run again. Turns in progress have 10 s to end.

A backup is checked before anything is written. Start the hosts when it is restored.

--json prints {class, name, at: {seq, time}, differences, restored}, or what was restored of a
backup.

Examples:
  agents restore RepoAgent octocat~hello-world --at 2026-03-01T09:30:00Z
  agents restore RepoAgent octocat~hello-world --at 42 --yes
  agents provision --nats nats://new:4222 --replicas 3
  agents restore /backups/2026-03-01 --nats nats://new:4222`,
    )
    .action(async (first: string, name: string | undefined, given: Given) => {
      const json = given.json === true;
      const { at } = given;
      if (name === undefined && (at !== undefined || given.yes === true))
        throw usage(
          `Specify the agent's name too: agents restore ${first} <name> --at <point>. For the folder of a backup, leave out --at and --yes.`,
        );
      if (name !== undefined && at === undefined)
        throw usage(
          `Specify the point: agents restore ${first} ${name} --at 42, or --at 2026-03-01T09:30:00Z. "agents history" lists the events.`,
        );
      if (name === undefined || at === undefined) {
        const chain = await openBackup(resolve(terminal.cwd, first));
        return withPorts(context, given, (ports) =>
          restoreBackup(ports, terminal, joins.time, { chain, json }),
        );
      }
      const yes = given.yes === true;
      return withPorts(context, given, (ports) =>
        putBack(ports, terminal, joins.time, { className: first, name, at, yes, json }),
      );
    });
}
