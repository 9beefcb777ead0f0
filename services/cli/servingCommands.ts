/**
 * The commands that run something: `dev`, `gateway`, `host`, `mail`, `provision`. Adds them to the program;
 * the work is in `commands/`.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { addLoginOptions, loginOf, type GivenLogin } from "./brokerLogin.ts";
import { usage } from "./CliError.ts";
import { dev } from "./commands/dev.ts";
import { provision } from "./commands/provision.ts";
import { serveRole, type ServingOptions } from "./commands/serveRole.ts";
import { serveWorkers } from "./commands/serveWorkers.ts";
import { NAMESPACE_FALLBACK } from "./findTarget.ts";
import type { Joins, LogOptions } from "../wiring/Joins.ts";
import { mailSettings, type MailOptions } from "./mailSettings.ts";
import * as options from "./options.ts";
import type { Terminal } from "./Terminal.ts";

const MODULE_HELP = "file that exports the agents (default: server.ts, src/server.ts, …)";

/** `args` is the whole command line: workers are started with it. */
export function addServingCommands(
  program: Command,
  joins: Joins,
  terminal: Terminal,
  args: ReadonlyArray<string>,
): void {
  const devCommand = program
    .command("dev")
    .summary("run everything for one folder, and load the module again when it changes")
    .description(
      "Runs gateway and host in one process, beside a nats-server of its own (or the one that --nats names). Reads .env files, makes up webhook secrets that are not set, and loads the module again when its files change.",
    )
    .argument("[module]", MODULE_HELP)
    .addOption(options.port())
    .addOption(options.hostname("127.0.0.1"))
    .addOption(options.data())
    .addOption(options.nats())
    .addOption(options.namespace())
    .addOption(options.publicUrl())
    .addOption(options.allowedHosts())
    .addOption(options.allowedOrigins())
    .addOption(options.storeFirst())
    .addOption(options.framesPerSocket())
    .addOption(options.bytesPerSocket())
    .addOption(options.smtpPort())
    .addOption(options.smtpRelay())
    .addOption(options.adminPort())
    .addOption(options.adminHostname())
    .addOption(options.leaseTtl())
    .addOption(options.memory())
    .addOption(options.groupCommit())
    .addOption(options.logLevel())
    .addOption(options.logFormat())
    .addOption(options.noWorkers("dev is one process"))
    .addHelpText(
      "after",
      `
Examples:
  agents dev                          the module is found here
  agents dev src/agents.ts --port 9000
  agents dev --data /tmp/try          data elsewhere; --data with a new folder starts empty

The data is found again at the next start. Webhook secrets come from the environment or from
.env, .env.local and .dev.vars beside the module or here.`,
    )
    .action(async (module: string | undefined, given: Given) => {
      await dev(joins, terminal, servingOptions("dev", module, given, joins, terminal));
    });
  for (const option of options.writeLimits()) devCommand.addOption(option);

  const role = (name: "gateway" | "host" | "mail", summary: string, description: string): Command =>
    addLoginOptions(program.command(name))
      .summary(summary)
      .description(description)
      .argument("[module]", MODULE_HELP)
      .addOption(options.nats())
      .addOption(options.namespace())
      .addOption(options.data())
      .addOption(options.smtpRelay())
      .addOption(options.adminPort())
      .addOption(options.adminHostname())
      .addOption(options.shards())
      .addOption(options.streamGroups())
      .addOption(options.requireDurable())
      .addOption(options.groupCommit())
      .addOption(options.logLevel())
      .addOption(options.logFormat())
      .action(async (module: string | undefined, given: Given) => {
        if (given.nats === undefined)
          throw usage(
            `agents ${name} needs a broker: --nats nats://… or NATS_URL. ("agents dev" brings its own.)`,
          );
        const serving = servingOptions(name, module, given, joins, terminal);
        if (name === "mail" || given.worker !== undefined || (given.workers ?? 1) === 1)
          await serveRole(joins, terminal, serving);
        else await serveWorkers(joins, { ...serving, role: name, count: given.workers!, args });
      });
  role(
    "gateway",
    "serve HTTP, WebSockets and webhooks",
    "Takes HTTP, WebSockets and webhooks, verifies and stores them, and passes them to the hosts. Runs no agent code. Any number of gateways can run.",
  )
    .addOption(options.port())
    .addOption(options.hostname("0.0.0.0"))
    .addOption(options.connectionsMax())
    .addOption(options.perAddress())
    .addOption(options.perEntity())
    .addOption(options.framesPerSocket())
    .addOption(options.bytesPerSocket())
    .addOption(options.trustedProxies())
    .addOption(options.storeFirst())
    .addOption(options.publicUrl())
    .addOption(options.allowedHosts())
    .addOption(options.allowedOrigins())
    .addOption(options.workers())
    .addOption(options.worker())
    .addHelpText(
      "after",
      `
--workers: several gateways on one port, started again when they end. Each counts its limits for itself.
Linux only, and with uWebSockets.js or Node 22.12 and newer.

Examples:
  agents gateway dist/server.js --nats nats://nats:4222 --port 80
  agents gateway --nats nats://nats:4222 --port 80 --workers auto`,
    );
  const host = role(
    "host",
    "run agents",
    "Runs agents: claims a share of them, takes over from hosts that end. Any number of hosts can run; each needs its own --data folder, which is only a cache.",
  )
    .addOption(options.leaseTtl())
    .addOption(options.memory())
    .addOption(options.mcpAllowLoopback())
    .addOption(options.workers())
    .addOption(options.worker())
    .addHelpText(
      "after",
      `
--workers: several hosts, each with a folder of its own below --data, started again when they end.

Examples:
  agents host dist/server.js --nats nats://nats:4222 --data /var/lib/agents
  agents host --nats nats://nats:4222 --workers 4`,
    );
  for (const option of options.writeLimits()) host.addOption(option);

  const mail = role(
    "mail",
    "take mail by SMTP",
    "Takes mail by SMTP, hands it to the module's email handler or routes, and stores it for agents before it says that it has it. Any number can run, behind one name or several MX records.",
  )
    .addOption(options.smtpPort(options.SMTP_PORT_DEFAULT))
    .addOption(options.hostname("0.0.0.0"))
    .addOption(options.noWorkers("start mail as often as you need it"))
    .addHelpText(
      "after",
      `
AGENTS_SMTP_USER and AGENTS_SMTP_PASS, both set: only who knows them may send (needs --tls-cert).

Example:
  agents mail dist/server.js --nats nats://nats:4222 --tls-cert mx.pem --tls-key mx.key`,
    );
  for (const option of options.smtpOptions()) mail.addOption(option);

  addLoginOptions(program.command("provision"))
    .summary("create an installation's streams on a broker, or change their copies")
    .description(
      "Creates what an installation keeps in the broker: streams, leases, blobs. Safe to run again: it completes what is missing, and changes what is asked for: copies, place, the leases' TTL. Run it before processes of a new release.",
    )
    .addOption(options.nats().makeOptionMandatory())
    .addOption(options.namespace())
    .addOption(options.shards())
    .addOption(options.streamGroups())
    .addOption(options.replicas())
    .addOption(options.placementCluster())
    .addOption(options.placementTag())
    .addOption(options.leaseTtl())
    .addOption(options.json())
    .addHelpText("after", "\nExample:\n  agents provision --nats nats://nats:4222 --replicas 3")
    .action(async (given: Given) => {
      const target = {
        natsUrl: given.nats!,
        login: loginOf(given, terminal.cwd),
        namespace: given.namespace ?? NAMESPACE_FALLBACK,
      };
      const json = given.json === true;
      await provision(joins, terminal, { target, settings: provisioning(given), json });
    });
}

/** What commander gives for the options above. */
interface Given extends GivenLogin, MailOptions {
  readonly nats?: string;
  readonly namespace?: string;
  readonly data: string;
  readonly port?: number;
  readonly hostname?: string;
  readonly publicUrl?: string;
  readonly allowedHosts?: ReadonlyArray<string>;
  readonly allowedOrigins?: ReadonlyArray<string>;
  readonly adminPort: number;
  readonly adminHostname: string;
  readonly requireDurable?: boolean;
  readonly maxConnections?: number;
  readonly ratePerAddress?: number;
  readonly ratePerEntity?: number;
  readonly framesPerSocket?: number;
  readonly bytesPerSocket?: number;
  readonly trustedProxies?: number;
  readonly storeFirst?: boolean;
  readonly mcpAllowLoopback?: boolean;
  readonly workers?: number;
  readonly worker?: number;
  readonly groupCommit: "auto" | "on" | "off";
  readonly leaseTtl?: number;
  readonly memory?: number;
  readonly stateBytesMax?: number;
  readonly commitBytesMax?: number;
  readonly journalBytesPerMinute?: number;
  readonly shards?: number;
  readonly streamGroups?: number;
  readonly replicas?: number;
  readonly placementCluster?: string;
  readonly placementTag?: ReadonlyArray<string>;
  readonly json?: boolean;
  readonly logLevel: LogOptions["level"];
  readonly logFormat?: LogOptions["format"];
}

const provisioning = (given: Given): ServingOptions["provision"] => ({
  shards: given.shards,
  streamGroups: given.streamGroups,
  replicas: given.replicas,
  leaseTtlMs: given.leaseTtl,
  placementCluster: given.placementCluster,
  placementTags: given.placementTag,
});

function servingOptions(
  role: ServingOptions["role"],
  module: string | undefined,
  given: Given,
  joins: Pick<Joins, "log">,
  terminal: Terminal,
): ServingOptions {
  const { worker } = given;
  const format = given.logFormat ?? (terminal.interactive ? "text" : "json");
  return {
    role,
    module,
    natsUrl: given.nats,
    natsLogin: loginOf(given, terminal.cwd),
    namespace: given.namespace ?? NAMESPACE_FALLBACK,
    dataFolder: resolve(terminal.cwd, given.data),
    hostname: given.hostname ?? "127.0.0.1",
    port: given.port ?? 0,
    publicUrl: given.publicUrl,
    access: { allowedHosts: given.allowedHosts, allowedOrigins: given.allowedOrigins },
    mail: mailSettings(given, terminal),
    requireDurable: given.requireDurable ?? false,
    limits: {
      connectionsMax: given.maxConnections,
      perAddress: given.ratePerAddress,
      perEntity: given.ratePerEntity,
      framesPerSocket: given.framesPerSocket,
      bytesPerSocket: given.bytesPerSocket,
      trustedProxies: given.trustedProxies,
      storeFirst: given.storeFirst,
    },
    mcpAllowLoopback: given.mcpAllowLoopback ?? false,
    groupCommit: given.groupCommit,
    memory: {
      bytesMax: given.memory === undefined ? undefined : given.memory * 1024 * 1024,
      processes: given.workers ?? 1,
    },
    writeLimits: {
      stateBytesMax: given.stateBytesMax,
      commitBytesMax: given.commitBytesMax,
      journalBytesPerMinute: given.journalBytesPerMinute,
    },
    provision: provisioning(given),
    adminHostname: given.adminHostname,
    adminPort: given.adminPort,
    worker,
    portShared: worker !== undefined,
    log: joins.log({
      level: given.logLevel,
      format,
      ...(worker !== undefined && { fields: { worker } }),
    }),
    progress: terminal.err,
  };
}
