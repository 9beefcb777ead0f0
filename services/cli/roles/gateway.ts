/**
 * `agents gateway [module]`: serves HTTP, WebSockets and webhooks, in one process or several on one
 * port. The body is `serving/serveRole`.
 */
import type { Command } from "commander";
import type { CommandContext } from "../options/CommandContext.ts";
import * as limit from "../options/gatewayOptions.ts";
import * as option from "../options/options.ts";
import { roleCommand } from "../options/roleCommand.ts";

export function addGateway(program: Command, context: CommandContext): void {
  roleCommand(program, context, "gateway", {
    description:
      "Receives HTTP requests, WebSockets and webhooks, verifies webhooks, and passes everything to the hosts. Runs no agent code. Any number of gateways can run.",
  })
    .addOption(option.port())
    .addOption(option.hostname("0.0.0.0"))
    .addOption(limit.connectionsMax())
    .addOption(limit.perAddress())
    .addOption(limit.perEntity())
    .addOption(limit.socketsPerAddress())
    .addOption(limit.framesPerSocket())
    .addOption(limit.bytesPerSocket())
    .addOption(limit.trustedProxies())
    .addOption(limit.storeFirst())
    .addOption(option.publicUrl())
    .addOption(option.allowedHosts())
    .addOption(option.allowedOrigins())
    .addOption(option.workers())
    .addOption(option.worker())
    .addHelpText(
      "after",
      `
--workers runs several gateways on one port and restarts those that end. Each worker applies limits
separately. Requires Linux, and uWebSockets.js or Node 22.12 and newer.

Examples:
  agents gateway dist/server.js --nats nats://nats:4222 --port 80
  agents gateway --nats nats://nats:4222 --port 80 --workers auto`,
    );
}
