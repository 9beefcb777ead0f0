/**
 * `agents retention [module]`: trims agents' journals to the history that their classes keep. The
 * body is `serving/serveRole`.
 */
import type { Command } from "commander";
import type { CommandContext } from "../options/CommandContext.ts";
import { archive, history } from "../options/historyOptions.ts";
import * as option from "../options/options.ts";
import { roleCommand } from "../options/roleCommand.ts";

export function addRetention(program: Command, context: CommandContext): void {
  roleCommand(program, context, "retention", {
    description:
      "Trims journals to the history that classes keep (static options = { history: { days: 30 } }), or to --history. Without either, all history is kept. Any number of these processes can run, and one works at a time. Agents keep running, and keep their state, SQL, schedules, queue and processed inputs.",
  })
    .addOption(history())
    .addOption(
      archive(
        "archive in which history is stored before it is trimmed; none: continue without the previous archive",
      ),
    )
    .addOption(option.noWorkers("one process trims at a time"))
    .addHelpText(
      "after",
      `
It logs in to the broker as the user "retention" (deploy/nats). agents dev trims in its own process.

Example:
  agents retention dist/server.js --nats nats://nats:4222 --history days=90`,
    );
}
