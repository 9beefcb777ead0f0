/**
 * `agents mail [module]`: receives mail by SMTP and stores it for agents. The body is
 * `serving/serveRole`.
 */
import type { Command } from "commander";
import { SMTP_PORT_DEFAULT } from "../../wiring/ProcessSettings.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { roleCommand } from "../options/roleCommand.ts";

export function addMail(program: Command, context: CommandContext): void {
  const mail = roleCommand(program, context, "mail", {
    description:
      "Receives mail by SMTP, passes it to the module's email handler or routes, and acknowledges a message once it is stored for its agents. Any number can run, behind one name or several MX records.",
  })
    .addOption(option.smtpPort(SMTP_PORT_DEFAULT))
    .addOption(option.hostname("0.0.0.0"))
    .addOption(option.noWorkers("start several mail processes instead"))
    .addHelpText(
      "after",
      `
If AGENTS_SMTP_USER and AGENTS_SMTP_PASS are set, senders must log in with them (needs --tls-cert).

Example:
  agents mail dist/server.js --nats nats://nats:4222 --tls-cert mx.pem --tls-key mx.key`,
    );
  for (const each of option.smtpOptions()) mail.addOption(each);
}
