/**
 * `agents host [module]`: runs agents, in one process or several. The body is `serving/serveRole`.
 */
import type { Command } from "commander";
import { ceilings } from "../options/ceilingOptions.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { roleCommand } from "../options/roleCommand.ts";

export function addHost(program: Command, context: CommandContext): void {
  const host = roleCommand(program, context, "host", {
    description:
      "Runs agents: claims a share of them, and takes over those of lost hosts. Any number of hosts can run. Each needs its own --data folder, which is only a cache.",
  })
    .addOption(option.leaseTtl())
    .addOption(option.memory())
    .addOption(option.imageCache())
    .addOption(option.cpuSeconds())
    .addOption(option.turnSeconds())
    .addOption(option.mcpAllowLoopback())
    .addOption(option.workers())
    .addOption(option.worker())
    .addOption(option.isolated())
    .addOption(option.reportTurns())
    .addHelpText(
      "after",
      `
Agents run in workers: child processes, which are restarted when they end.
--workers sets their number. Each has its own folder below --data.

Examples:
  agents host dist/server.js --nats nats://nats:4222 --data /var/lib/agents
  agents host --nats nats://nats:4222 --workers 4`,
    );
  for (const each of [...option.writeLimits(), ...ceilings()]) host.addOption(each);
}
