/**
 * `agents restore <folder>` makes all agents of a backup (`agents/restoreBackup`); `agents restore
 * <class> <name> --at …` puts one agent back to an earlier point (`agents/putBack`). The number of
 * arguments says which is meant, and `--at` belongs to the second only.
 */
import type { Command } from "commander";
import { putBack } from "../agents/putBack.ts";
import { restoreBackup } from "../agents/restoreBackup.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { usage } from "../terminal/CliError.ts";

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly at?: string;
  readonly yes?: boolean;
}

export function addRestore(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("restore"))
    .description(
      "With a class and a name: puts the agent's state, rows and schedules back as they were, while it works. With a folder: makes the agents of a backup in an installation that is provisioned, empty, and without hosts; its namespace, shards and stream groups may be others.",
    )
    .argument("<class-or-folder>", "agent class; or what agents backup has made")
    .argument("[name]", "name of the agent, with a class")
    .addOption(option.at())
    .option("--yes", "put it back; without it, the difference is shown")
    .addHelpText(
      "after",
      `
An agent is put back by one more event: its history stays, and the restore can be undone in the
same way. Webhooks that it has done stay done, and what it has sent is not sent again. Jobs that
have run since then, and were waiting at that point, run again. Turns that run have 10 s to end.

A backup is checked before anything is written. Start the hosts when it is done.

--json prints {class, name, at: {seq, time}, differences, restored} or what of a backup was made

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
          `Give the agent's name too: agents restore ${first} <name> --at <point>. A backup's folder takes neither --at nor --yes.`,
        );
      if (name !== undefined && at === undefined)
        throw usage(
          `Say to which point: agents restore ${first} ${name} --at 42, or --at 2026-03-01T09:30:00Z. "agents history" shows them.`,
        );
      await withPorts(context, given, (ports) =>
        name === undefined || at === undefined
          ? restoreBackup(ports, terminal, joins.time, { folder: first, json })
          : putBack(ports, terminal, joins.time, {
              className: first,
              name,
              at,
              yes: given.yes === true,
              json,
            }),
      );
    });
}
