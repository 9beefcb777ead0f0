/**
 * `agents provision`: creates an installation's streams and buckets at the broker, or completes
 * them. The operator of the broker runs it once. Running it again with the same options changes
 * nothing.
 */
import type { Command } from "commander";
import type { Joins } from "../../wiring/Joins.ts";
import type { ProvisionSettings } from "../../wiring/ProcessSettings.ts";
import type { Target } from "../../wiring/ReadPorts.ts";
import { addLoginOptions, loginOf, type GivenLogin } from "../options/brokerLogin.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { NAMESPACE_FALLBACK } from "../options/findTarget.ts";
import * as option from "../options/options.ts";
import { provisionSettings, type GivenProvision } from "../options/servingOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ProvisionCommandOptions {
  readonly target: Target;
  readonly settings: ProvisionSettings;
  readonly json: boolean;
}

/** The values that commander parses. */
interface Given extends GivenLogin, GivenProvision {
  readonly nats: string;
  readonly namespace?: string;
  readonly json?: boolean;
}

export function addProvision(program: Command, { joins, terminal }: CommandContext): void {
  addLoginOptions(program.command("provision"))
    .description(
      "Creates an installation's streams, leases and blobs at the broker. Can be run again: it creates what is missing, and applies changes of replicas, placement and the lease TTL. Run it before starting a new release.",
    )
    .addOption(option.nats().makeOptionMandatory())
    .addOption(option.namespace())
    .addOption(option.shards())
    .addOption(option.streamGroups())
    .addOption(option.replicas())
    .addOption(option.placementCluster())
    .addOption(option.placementTag())
    .addOption(option.leaseTtl())
    .addOption(option.json())
    .addHelpText("after", "\nExample:\n  agents provision --nats nats://nats:4222 --replicas 3")
    .action(async (given: Given) => {
      const target = {
        natsUrl: given.nats,
        login: loginOf(given, terminal.cwd),
        namespace: given.namespace ?? NAMESPACE_FALLBACK,
      };
      const json = given.json === true;
      await provision(joins, terminal, { target, settings: provisionSettings(given), json });
    });
}

/** Prints what exists afterwards. Rejects as `Joins.provision` does. */
async function provision(
  joins: Pick<Joins, "provision">,
  terminal: Terminal,
  { target, settings, json }: ProvisionCommandOptions,
): Promise<void> {
  const lines = await joins.provision(target, settings);
  if (json) terminal.out(JSON.stringify({ namespace: target.namespace, result: lines }));
  else for (const line of lines) terminal.out(line);
}
