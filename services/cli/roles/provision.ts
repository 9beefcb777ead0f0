/**
 * `agents provision`: creates an installation's streams and buckets at the broker, or completes
 * them. The operator of the broker runs it once. Running it again with the same options changes
 * nothing.
 *
 * If the broker has lost the stream of the timers or an inbox, agents would sleep past their
 * schedules, and their queues would not run. Once the stream exists again, their timers and
 * triggers are stored again (`armAll`).
 */
import type { Command } from "commander";
import { counted } from "../../../schemas/counted.ts";
import type { Joins } from "../../wiring/Joins.ts";
import type { ProvisionSettings } from "../../wiring/ProcessSettings.ts";
import type { Target } from "../../wiring/ReadPorts.ts";
import { armAll } from "../agents/wakeAgent.ts";
import { addLoginOptions, loginOf, type GivenLogin } from "../options/brokerLogin.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { NAMESPACE_DEFAULT } from "../../../schemas/Subjects.ts";
import * as option from "../options/options.ts";
import { provisionSettings, type GivenProvision } from "../options/servingOptions.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ProvisionCommandOptions {
  readonly target: Target;
  readonly settings: ProvisionSettings;
  readonly arm: boolean;
  readonly json: boolean;
}

/** The values that commander parses. */
interface Given extends GivenLogin, GivenProvision {
  readonly nats: string;
  readonly namespace?: string;
  readonly arm?: boolean;
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
    .option(
      "--arm",
      "arms the timers of all schedules and wakes agents with queue items, as is done by itself if the stream of the timers or an inbox was missing: for one that was emptied, or restored from an older copy",
    )
    .addOption(option.json())
    .addHelpText("after", "\nExample:\n  agents provision --nats nats://nats:4222 --replicas 3")
    .action(async (given: Given) => {
      const target = {
        natsUrl: given.nats,
        login: loginOf(given, terminal.cwd),
        namespace: given.namespace ?? NAMESPACE_DEFAULT,
      };
      const settings = provisionSettings(given);
      const { arm = false, json = false } = given;
      await provision(joins, terminal, { target, settings, arm, json });
    });
}

/** Prints what exists afterwards. Rejects as `Joins.provision` does. */
async function provision(
  joins: Pick<Joins, "provision" | "openReader" | "time">,
  terminal: Terminal,
  { target, settings, arm, json }: ProvisionCommandOptions,
): Promise<void> {
  const { lines, lost, lostTriggers } = await joins.provision(target, settings);
  for (const stream of lost)
    terminal.err(`${stream} was missing. It exists again, without what it held.`);
  const armed = arm || lostTriggers ? await armIn(joins, terminal, target) : undefined;
  if (json)
    return terminal.out(
      JSON.stringify({ namespace: target.namespace, result: lines, lost, ...armed }),
    );
  for (const line of lines) terminal.out(line);
  if (armed !== undefined)
    terminal.out(
      `${counted(armed.timers, "timer")} armed, ${counted(armed.woken, "agent")} with queue items woken`,
    );
}

async function armIn(
  { openReader, time }: Pick<Joins, "openReader" | "time">,
  terminal: Terminal,
  target: Target,
): ReturnType<typeof armAll> {
  const ports = await openReader(target);
  try {
    return await armAll(ports, time, new Progress(terminal, time, "agents armed"));
  } finally {
    await ports.close();
  }
}
