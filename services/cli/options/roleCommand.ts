/**
 * What `gateway`, `host`, `mail` and `retention` have in common: their shared options, and the
 * choice between one process and a control process with workers. Each command adds its own options
 * to the command that `roleCommand` returns.
 */
import type { Command } from "commander";
import type { Role } from "../../wiring/ProcessSettings.ts";
import { serveRole } from "../serving/serveRole.ts";
import { serveWorkers } from "../serving/serveWorkers.ts";
import { usage } from "../terminal/CliError.ts";
import { addLoginOptions } from "./brokerLogin.ts";
import type { CommandContext } from "./CommandContext.ts";
import * as option from "./options.ts";
import { MODULE_HELP, servingOptions, type GivenServing } from "./servingOptions.ts";

/** Adds the command to the program. The description is shown in its own help. */
export function roleCommand(
  program: Command,
  context: CommandContext,
  role: Exclude<Role, "dev">,
  { description }: { readonly description: string },
): Command {
  const { joins, terminal, args } = context;
  return addLoginOptions(program.command(role))
    .description(description)
    .argument("[module]", MODULE_HELP)
    .addOption(option.nats())
    .addOption(option.namespace())
    .addOption(option.data())
    .addOption(option.smtpRelay())
    .addOption(option.adminPort())
    .addOption(option.adminHostname())
    .addOption(option.shards())
    .addOption(option.streamGroups())
    .addOption(option.requireDurable())
    .addOption(option.groupCommit())
    .addOption(option.fetchClasses())
    .addOption(option.requestLog("failed"))
    .addOption(option.logLevel())
    .addOption(option.logFormat())
    .action(async (module: string | undefined, given: GivenServing) => {
      if (given.nats === undefined)
        throw usage(
          `agents ${role} needs a broker: --nats nats://… or NATS_URL. ("agents dev" brings its own.)`,
        );
      const serving = servingOptions(role, module, given, context);
      const count = given.workers ?? 1;
      // A gateway, the mail listener and the trimming of journals run no agents that a control
      // process would have to survive.
      const isWhole =
        role === "mail" || role === "retention" || (role === "gateway" && count === 1);
      if (isWhole || given.worker !== undefined) await serveRole(joins, terminal, serving);
      else await serveWorkers(joins, { ...serving, role, count, args });
    });
}
