/**
 * The commands that copy agents out of an installation, into one and within it: `export`, `import`, `fork`, `backup`,
 * `restore`. Adds them to the program; the work is in `commands/`.
 */
import type { Command } from "commander";
import { backup } from "./commands/backup.ts";
import { exportAgent } from "./commands/exportAgent.ts";
import { fork } from "./commands/fork.ts";
import { importAgent } from "./commands/importAgent.ts";
import { restore } from "./commands/restore.ts";
import type { Joins } from "../wiring/Joins.ts";
import * as options from "./options.ts";
import { CLASS_HELP, NAME_HELP } from "./readingCommands.ts";
import { addTargetOptions, withPortsOf, type GivenTarget } from "./targetOptions.ts";
import type { Terminal } from "./Terminal.ts";

export function addSavingCommands(program: Command, joins: Joins, terminal: Terminal): void {
  const withPorts = withPortsOf(joins, terminal);
  const saving = (name: string, summary: string): Command =>
    addTargetOptions(program.command(name).summary(summary));

  saving("export", "copy an agent into a file")
    .description(
      "Prints an agent's whole journal as JSON lines: all that it is and was, for agents import. Reads the broker; the agent goes on meanwhile.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .addHelpText(
      "after",
      `
Inputs that still wait for the agent, and its dead letters, are not in it.

Example:
  agents export RepoAgent octocat~hello-world > agent.jsonl`,
    )
    .action((className: string, name: string, given: GivenTarget) =>
      withPorts(given, (ports) => exportAgent(ports, terminal, joins.time, { className, name })),
    );

  saving("import", "make an agent of a file of agents export")
    .description(
      "Makes the agent of a file, in this installation or another: state, SQL, queue, schedules and history as they were. Refuses where the agent exists. Its schedules are armed again, and what waits in its queue goes on: where the agent that it was copied from lives too, both do it.",
    )
    .argument("<file>", "what agents export has printed")
    .option("--as <name>", "another name for it")
    .addHelpText(
      "after",
      `
The file is checked before anything is written.

Examples:
  agents import agent.jsonl
  agents import agent.jsonl --as octocat-copy --nats nats://other:4222`,
    )
    .action((file: string, given: GivenImport) =>
      withPorts(given, (ports) =>
        importAgent(ports, terminal, joins.time, {
          file,
          name: given.as,
          json: given.json === true,
        }),
      ),
    );

  saving("fork", "make a second agent of a point in one's history")
    .description(
      "Makes an agent of a new name that is what the other was at that point: state, SQL, queue, schedules and history. The other goes on as it is. Its schedules are armed again, and what waits in its queue goes on: both agents do it.",
    )
    .argument("<class>", CLASS_HELP)
    .argument("<name>", NAME_HELP)
    .argument("<new name>", "the fork's")
    .addOption(options.at())
    .addHelpText(
      "after",
      `
Schedules that were due long ago run at once: fork an agent with mail or webhooks to send where that
does no harm (agents export, and agents import elsewhere).

Examples:
  agents fork RepoAgent octocat~hello-world before-the-bug --at 1041
  agents fork RepoAgent octocat~hello-world yesterday --at 2026-03-01T09:30:00Z`,
    )
    .action((className: string, name: string, newName: string, given: GivenFork) =>
      withPorts(given, (ports) =>
        fork(ports, terminal, joins.time, {
          className,
          name,
          newName,
          at: given.at,
          json: given.json === true,
        }),
      ),
    );

  saving("backup", "copy all agents into a folder, while they run")
    .description(
      "Writes every agent's journal, the inputs that wait and the dead letters into a new folder, for agents restore. Whatever was stored when it began is in it; an agent's later commits may be.",
    )
    .argument("<folder>", "new or empty")
    .addHelpText(
      "after",
      `
Don't run dead letters again (agents dead redrive) meanwhile. A folder without manifest.json is
a backup that was not finished.

Example:
  agents backup /backups/$(date +%F)`,
    )
    .action((folder: string, given: GivenTarget) =>
      withPorts(given, (ports) =>
        backup(ports, terminal, joins.time, { folder, json: given.json === true }),
      ),
    );

  saving("restore", "make all agents of a folder of agents backup")
    .description(
      "Makes the agents of a backup in an installation that is provisioned, empty, and without hosts; its namespace, shards and stream groups may be others. Start the hosts when it is done.",
    )
    .argument("<folder>", "what agents backup has made")
    .addHelpText(
      "after",
      `
The backup is checked before anything is written.

Examples:
  agents provision --nats nats://new:4222 --replicas 3
  agents restore /backups/2026-03-01 --nats nats://new:4222`,
    )
    .action((folder: string, given: GivenTarget) =>
      withPorts(given, (ports) =>
        restore(ports, terminal, joins.time, { folder, json: given.json === true }),
      ),
    );
}

interface GivenFork extends GivenTarget {
  readonly at?: string;
}
interface GivenImport extends GivenTarget {
  readonly as?: string;
}
