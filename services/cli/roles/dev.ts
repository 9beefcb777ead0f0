/**
 * `agents dev [module]`: runs a gateway and a host in one worker for one folder. By default the
 * control process also runs a broker for them. Reloads the module when its files or its `.env`
 * files change. If that fails, the previous code keeps running.
 */
import { Option, type Command } from "commander";
import * as Effect from "effect/Effect";
import { hostAndPort } from "../../../core/http/hostAndPort.ts";
import type { Joins, RunningProcess } from "../../wiring/Joins.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";
import { ceilings } from "../options/ceilingOptions.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addLoginOptions } from "../options/brokerLogin.ts";
import { archive, history } from "../options/historyOptions.ts";
import * as limit from "../options/gatewayOptions.ts";
import * as option from "../options/options.ts";
import { MODULE_HELP, servingOptions, type GivenServing } from "../options/servingOptions.ts";
import { checkListen } from "../../http/explainListen.ts";
import { identityOfLiving } from "../../lock/ProcessIdentity.ts";
import { findDev, removeDevFile, writeDevFile } from "../serving/devFile.ts";
import { beginAndPrepare, findModule } from "../serving/prepare.ts";
import { keepLoaded } from "../serving/keepLoaded.ts";
import { serve } from "../serving/serve.ts";
import { keptLeases, linkOf, serveRole, type ServingOptions } from "../serving/serveRole.ts";
import type { OpenInstallation } from "./followInstallation.ts";
import type { Tunnel } from "../serving/openTunnel.ts";
import { serveWorkers } from "../serving/serveWorkers.ts";
import { withOptions } from "../serving/workerArguments.ts";
import { agentOption, type GivenFilter } from "../options/deliveryOptions.ts";
import { failed, usage } from "../terminal/CliError.ts";
import { endedBySignal, STOPPED_BEFORE_SERVING } from "../terminal/stopSignals.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";

/** The values that commander parses. */
interface GivenDev extends GivenServing, Pick<GivenFilter, "agent"> {
  readonly consolePort: number;
  readonly open?: boolean;
}

export function addDev(program: Command, context: CommandContext): void {
  const command = program
    .command("dev")
    .description(
      "Runs a gateway and a host with an embedded nats-server (or the one of --nats). Reads .env files, generates webhook secrets that are not set, and reloads the module when its files or the .env files change.",
    )
    .argument("[module]", MODULE_HELP)
    .addOption(option.port())
    .addOption(option.hostname("127.0.0.1"))
    .addOption(option.data())
    .addOption(option.nats())
    .addOption(option.namespace())
    .addOption(option.publicUrl())
    .addOption(option.tunnel())
    .addOption(option.from())
    .addOption(agentOption("with --from: only webhooks of this agent, or of a class"))
    .addOption(option.allowedHosts())
    .addOption(option.allowedOrigins())
    .addOption(limit.storeFirst())
    .addOption(limit.framesPerSocket())
    .addOption(limit.bytesPerSocket())
    .addOption(option.smtpPort())
    .addOption(option.smtpRelay())
    .addOption(option.adminPort())
    .addOption(option.adminHostname())
    .addOption(
      option.consolePort("--console-port", "port of the console; any other if it is taken"),
    )
    .addOption(new Option("--open", "open the console in the browser"))
    .addOption(option.leaseTtl())
    .addOption(option.memory())
    .addOption(option.imageCache())
    .addOption(option.cpuSeconds())
    .addOption(option.turnSeconds())
    .addOption(history())
    .addOption(
      archive(
        "archive in which history is stored before it is trimmed; none: continue without the previous archive",
      ),
    )
    .addOption(option.groupCommit())
    .addOption(option.fetchClasses())
    .addOption(option.requestLog("all"))
    .addOption(option.logLevel())
    .addOption(option.logFormat())
    .addOption(option.noWorkers("dev has one worker"))
    .addOption(option.worker())
    .addOption(option.isolated())
    .addOption(option.reportTurns())
    .addHelpText(
      "after",
      `
Examples:
  agents dev                          finds the module in this folder
  agents dev src/agents.ts --port 9000
  agents dev --data /tmp/try          keeps data elsewhere; a new folder starts empty
  agents dev --tunnel "cloudflared tunnel --url {url}"
                                      providers reach it: prints the URL for each one's settings
  agents dev --from nats://nats.internal:4222 --nats-creds reader.creds --data /tmp/forks
                                      an installation's webhooks reach forks of its agents here

Data is kept between starts. Webhook secrets come from the environment, or from .env, .env.local
and .dev.vars beside the module or in this folder.`,
    )
    .action((module: string | undefined, given: GivenDev) => devCommand(context, module, given));
  addLoginOptions(command);
  for (const each of [...option.writeLimits(), ...ceilings()]) command.addOption(each);
}

async function devCommand(
  context: CommandContext,
  module: string | undefined,
  given: GivenDev,
): Promise<void> {
  const { joins, terminal, args } = context;
  const options = servingOptions("dev", module, given, context);
  if (options.isIsolated) return serveRole(joins, terminal, options);
  if (given.worker !== undefined) return dev(joins, terminal, options);
  if (given.tunnel !== undefined && given.publicUrl !== undefined)
    throw usage(
      "--tunnel and --public-url (AGENTS_PUBLIC_URL) each set the public URL: remove one of them.",
    );
  const file = await findModule(terminal, module);
  refuseSecond(terminal, options.dataFolder);
  // The worker listens last of all: a tunnel would be open to the port's other program.
  await Effect.runPromise(checkListen(options));
  const installation = await openInstallationIfAsked(context, given);
  const { openInBrowser, serveDevConsole } = await import("./devConsole.ts");
  const { onConsoleKey } = await import("../serving/consoleKey.ts");
  // Until `serveWorkers` listens for signals. The program of the tunnel ends with the process.
  const { tunnel, served } = await endedBySignal(joins.time, STOPPED_BEFORE_SERVING, async () => ({
    tunnel: await openTunnelIfAsked(context, given, options),
    served: await serveDevConsole(joins, terminal, {
      dataFolder: options.dataFolder,
      port: given.consolePort,
      module: shownPath(terminal.cwd, file),
      log: options.log,
    }),
  }));
  const more = tunnel === undefined ? [] : ["--tunnel", tunnel.url];
  if (given.open === true && served !== undefined) openInBrowser(served.url);
  const endKey =
    served === undefined
      ? () => undefined
      : onConsoleKey(process.stdin, () => openInBrowser(served.url));
  try {
    await serveWorkers(joins, {
      ...options,
      role: "dev",
      count: 1,
      args: withOptions(args, more),
      console: served?.url,
      // The console's connection ends before the broker does.
      beside: async (broker, tell) => {
        const end = await installation?.follow(broker, tell);
        return async () => {
          await end?.();
          await served?.stop();
        };
      },
    });
  } finally {
    endKey();
    await installation?.close();
    await served?.stop();
    await tunnel?.close();
  }
}

async function openInstallationIfAsked(
  context: CommandContext,
  given: GivenDev,
): Promise<OpenInstallation | undefined> {
  if (given.from === undefined) {
    if (given.agent !== undefined) throw usage("--agent requires --from.");
    return undefined;
  }
  if (given.nats !== undefined)
    throw usage("--from copies agents to its own nats-server: remove --nats (NATS_URL).");
  const { openInstallation } = await import("./followInstallation.ts");
  return openInstallation(context, { ...given, from: given.from });
}

async function openTunnelIfAsked(
  { joins, terminal }: CommandContext,
  { tunnel }: GivenServing,
  { port }: ServingOptions,
): Promise<Tunnel | undefined> {
  if (tunnel === undefined) return undefined;
  const { openTunnel } = await import("../serving/openTunnel.ts");
  return openTunnel({ tunnel, port, time: joins.time, warn: (line) => terminal.err(line) });
}

/**
 * Runs the worker. Resolves when it has stopped after a signal or a request. Rejects with the error
 * that made the start fail.
 */
async function dev(joins: Joins, terminal: Terminal, options: ServingOptions): Promise<void> {
  const { dataFolder, adminHostname, adminPort } = options;
  const link = linkOf(joins, options)!;
  const { again, ...control } = await link.begin;
  const { begun, prepared } = await beginAndPrepare(joins, terminal, {
    ...options,
    role: "dev",
    time: joins.time,
  });
  const settings = {
    ...options,
    module: prepared.module,
    env: prepared.env,
    leases: keptLeases(joins, link),
    isolation: link.isolation,
  };
  const { devGreeting, generatedSecrets } = await import("../serving/devGreeting.ts");
  await serve(
    { time: joins.time, ...begun },
    { settings, adminHostname, adminPort, stopped: link.stopped },
    ({ running, adminPort: ownPort }) => {
      link.serves({
        admin: `http://${adminHostname}:${ownPort}`,
        port: running.port,
        host: running.id,
      });
      const url = urlOf("http", options.hostname, running.port!);
      writeDevFile(dataFolder, {
        url,
        natsUrl: running.natsUrl,
        ...identityOfLiving(process.ppid),
        namespace: options.namespace,
      });
      if (again) terminal.out(`Restarted: ${url}`);
      else {
        const { smtpPort } = running;
        const lines = devGreeting({
          ...prepared,
          url,
          console: control.console,
          tunnel: options.tunnel,
          smtp: smtpPort === undefined ? undefined : urlOf("smtp", options.hostname, smtpPort),
          admin: urlOf("http", control.adminHostname, control.adminPort),
          nats: running.natsSummary,
          dataFolder,
          cwd: terminal.cwd,
          interactive: terminal.interactive,
          nowSeconds: Math.floor(joins.time.nowMs() / 1000),
        });
        for (const line of lines) terminal.out(line);
      }
      const onSecrets = (made: ReadonlyArray<string>): void =>
        terminal.out(generatedSecrets(made, dataFolder, terminal.cwd));
      const watch = reloadChanges(joins, terminal, { prepared, running, onSecrets });
      return () => {
        terminal.out("Stopping …");
        watch.close();
        removeDevFile(dataFolder, process.ppid);
      };
    },
  );
  terminal.out(`Stopped. The data is kept in ${shownPath(terminal.cwd, dataFolder)}.`);
}

/** Loads the module again when a file of it changes. `onSecrets`: secrets were generated for it. */
function reloadChanges(
  { time }: Joins,
  terminal: Terminal,
  parts: {
    readonly prepared: Awaited<ReturnType<typeof beginAndPrepare>>["prepared"];
    readonly running: RunningProcess;
    readonly onSecrets: (made: ReadonlyArray<string>) => void;
  },
): { readonly close: () => void } {
  const { prepared, running, onSecrets } = parts;
  const { module, refreshEnv, envFilesRead, envOf } = prepared;
  const known = new Set(prepared.devSecrets);
  const apply = async (next: LoadedModule) => {
    const { env, devSecrets } = envOf(next);
    await running.reload(next, env);
    const made = devSecrets.filter((name) => !known.has(name));
    for (const name of made) known.add(name);
    if (made.length > 0) onSecrets(made);
  };
  return keepLoaded({ time, terminal, module, refreshEnv, envFilesRead, apply });
}

/** Two dev servers on one data folder would start two brokers on the same files. */
function refuseSecond(terminal: Terminal, dataFolder: string): void {
  const found = findDev(dataFolder);
  if (found._tag !== "Running") return;
  const { pid, url } = found.dev;
  throw failed(
    `A dev server (process ${pid}, ${url}) already uses the data in ${shownPath(terminal.cwd, dataFolder)}. Stop it, or use another folder (--data).`,
  );
}

/** With a name of this machine in place of all its addresses, which a browser can't open. */
function urlOf(scheme: "http" | "smtp", hostname: string, port: number): string {
  const isAny = hostname === "0.0.0.0" || hostname === "::";
  return `${scheme}://${hostAndPort(isAny ? "localhost" : hostname, port)}`;
}
