/**
 * `agents retention [module]`: trims agents' journals to what their classes keep. The body is
 * `serving/serveRole`.
 */
import type { Command } from "commander";
import type { CommandContext } from "../options/CommandContext.ts";
import { archive, history } from "../options/historyOptions.ts";
import * as option from "../options/options.ts";
import { roleCommand } from "../options/roleCommand.ts";

export function addRetention(program: Command, context: CommandContext): void {
  roleCommand(program, context, "retention", {
    description:
      "Trims agents' journals to what their classes keep (static options = { history: { days: 30 } }) or --history says; without either, all of history is kept. One such process works at a time, any number may run. Agents go on meanwhile and keep state, SQL, schedules, queue and done inputs.",
  })
    .addOption(history())
    .addOption(
      archive(
        "archive that history goes to before it is trimmed; none: go on without the one that it went to",
      ),
    )
    .addOption(option.noWorkers("one process trims for all"))
    .addHelpText(
      "after",
      `
Its user in the broker is "retention" (deploy/nats). agents dev does the same by itself.

Example:
  agents retention dist/server.js --nats nats://nats:4222 --history days=90`,
    );
}
