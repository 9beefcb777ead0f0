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
      "Runs agents: claims a share of them, takes over from hosts that end. Any number of hosts can run; each needs its own --data folder, which is only a cache.",
  })
    .addOption(option.leaseTtl())
    .addOption(option.memory())
    .addOption(option.cpuSeconds())
    .addOption(option.turnSeconds())
    .addOption(option.mcpAllowLoopback())
    .addOption(option.workers())
    .addOption(option.worker())
    .addOption(option.isolated())
    .addHelpText(
      "after",
      `
Agents run in workers: processes below this one, which starts them again when they end.
--workers: several of them, each with a folder of its own below --data.

Examples:
  agents host dist/server.js --nats nats://nats:4222 --data /var/lib/agents
  agents host --nats nats://nats:4222 --workers 4`,
    );
  for (const each of [...option.writeLimits(), ...ceilings()]) host.addOption(each);
}
