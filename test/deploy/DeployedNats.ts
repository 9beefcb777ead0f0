/** nats-servers by the configurations of `deploy/nats`: one, or three as a cluster. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect, type NatsConnection, type NodeConnectionOptions } from "@nats-io/transport-node";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { spawnServer, type ServerProcess } from "../../services/natsServer/ServerProcess.ts";
import { startWatchdog } from "../../services/natsServer/Watchdog.ts";
import { natsServerBinary } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const CONFIGS = fileURLToPath(new URL("../../deploy/nats/", import.meta.url));
export const CONFIG_FILES = [
  "single.conf",
  "cluster.conf",
  "permissions.conf",
  "accounts.conf",
  "accounts-nkey.conf",
  "tls.conf",
] as const;
/** Of nine ports, tests beside this one rarely take one. */
const ATTEMPTS_MAX = 3;
/** Three servers that meet, on a busy machine. */
const READY_TIMEOUT_MS = 20_000;
const STOP_GRACE_MS = 5_000;

export type User = "gateway" | "host" | "mail" | "retention" | "reader" | "operator" | "system";

/** Begins with a letter: a variable of digits would be a number to the server. */
export const passwordOf = (user: string): string => `pw-${user}`;

export interface DeployedOptions {
  readonly config: "single.conf" | "cluster.conf";
  /** Changes to a file's text before the secrets are filled in. */
  readonly edit?: (text: string, file: string) => string;
  readonly variables?: Readonly<Record<string, string>>;
  /** Keeps TLS where the configuration has it: `variables` name its files. Default: no TLS. */
  readonly tls?: boolean;
}

export interface DeployedServer {
  readonly name: string;
  readonly port: number;
  readonly monitorPort: number;
  readonly routePort: number;
  readonly storeDir: string;
  readonly log: () => string;
  readonly kill: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** Changes its configuration's files; `stop` and `start` make it take them. */
  readonly edit: (change: (text: string) => string) => void;
}

export interface Deployed {
  readonly servers: ReadonlyArray<DeployedServer>;
  readonly url: (user: User) => string;
  /** A plain client, logged in as a user. */
  readonly connect: (user: User, options?: NodeConnectionOptions) => Promise<NatsConnection>;
  /** Resolves when every server says that it is healthy, JetStream's replicas included. */
  readonly healthy: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Resolves when it serves; a cluster when it has elected. Picks another port if one is taken. */
export async function deployNats(options: DeployedOptions): Promise<Deployed> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await deployOnce(options);
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !String(error).includes("address already in use"))
        throw error;
    }
  }
}

async function deployOnce(options: DeployedOptions): Promise<Deployed> {
  const folder = tempFolder("deployed");
  const count = options.config === "cluster.conf" ? 3 : 1;
  const plans: Array<{ name: string; port: number; monitorPort: number; routePort: number }> = [];
  for (let n = 1; n <= count; n++)
    plans.push({
      name: `nats-${n}`,
      port: await pickPort(),
      monitorPort: await pickPort(),
      routePort: await pickPort(),
    });
  const routes = Object.fromEntries(
    plans.map(({ routePort }, n) => [
      `NATS_ROUTE_${n + 1}`,
      `nats://route:${passwordOf("route")}@127.0.0.1:${routePort}`,
    ]),
  );
  const binary = await natsServerBinary();
  const servers = plans.map((plan) => {
    const home = join(folder.path, plan.name);
    mkdirSync(home);
    const variables = {
      NATS_SERVER_NAME: plan.name,
      NATS_SERVER_TAG: `zone:${plan.name}`,
      NATS_STORE_DIR: join(home, "store"),
      NATS_MAX_FILE: "2GB",
      ...routes,
      ...options.variables,
    };
    const fill = (text: string): string =>
      text.replace(/\$(NATS_[A-Z0-9_]+)/g, (whole, variable: string) => {
        const value = (variables as Record<string, string>)[variable] ?? defaultOf(variable);
        return value === undefined
          ? whole
          : /^\d+[MG]B$/.test(value)
            ? value
            : JSON.stringify(value);
      });
    for (const file of CONFIG_FILES) {
      const text = readFileSync(CONFIGS + file, "utf8")
        .replace("port: 4222", `listen: "127.0.0.1:${plan.port}"`)
        .replace('"127.0.0.1:8222"', `"127.0.0.1:${plan.monitorPort}"`)
        .replace("port: 6222", `listen: "127.0.0.1:${plan.routePort}"`)
        .replace(/^ *include "tls\.conf"$/gm, (line) => (options.tls === true ? line : ""));
      writeFileSync(join(home, file), fill(options.edit?.(text, file) ?? text));
    }
    return makeServer(binary, home, options.config, plan, variables.NATS_STORE_DIR);
  });
  const healthy = async (): Promise<void> => {
    for (const { name, monitorPort } of servers)
      await pollUntil(
        `${name} is healthy`,
        async () => {
          const response = await fetch(`http://127.0.0.1:${monitorPort}/healthz`);
          return response.ok || { done: false, saw: await response.text() };
        },
        { timeoutMs: READY_TIMEOUT_MS },
      );
  };
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.stop()));
    folder.remove();
  };
  try {
    await Promise.all(servers.map((server) => server.start()));
    await healthy();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    servers,
    url: (user) =>
      plans.map(({ port }) => `nats://${user}:${passwordOf(user)}@127.0.0.1:${port}`).join(","),
    connect: (user, more = {}) =>
      connect({
        servers: plans.map(({ port }) => `127.0.0.1:${port}`),
        user,
        pass: passwordOf(user),
        // As `permissions.conf` has it.
        inboxPrefix: `_INBOX.agents.${user === "operator" ? "cli" : user}`,
        ...more,
      }),
    healthy,
    stop,
  };
}

const defaultOf = (variable: string): string | undefined => {
  const user = /^NATS_([A-Z]+)_PASSWORD$/.exec(variable)?.[1];
  return user === undefined ? undefined : passwordOf(user.toLowerCase());
};

function makeServer(
  binary: string,
  home: string,
  config: string,
  plan: Pick<DeployedServer, "name" | "port" | "monitorPort" | "routePort">,
  storeDir: string,
): DeployedServer {
  const logFile = join(home, "server.log");
  const watchdog = startWatchdog();
  let running: ServerProcess | undefined;
  const end = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    running?.signal(signal);
    await running?.stop(STOP_GRACE_MS);
  };
  return {
    ...plan,
    storeDir,
    log: () => readFileSync(logFile, "utf8"),
    kill: () => end("SIGKILL"),
    edit: (change) => {
      for (const file of CONFIG_FILES)
        writeFileSync(join(home, file), change(readFileSync(join(home, file), "utf8")));
    },
    stop: async () => {
      await end("SIGTERM");
      watchdog.release();
    },
    start: async () => {
      const configFile = join(home, config);
      running = spawnServer({
        binary,
        configFile,
        logFile,
        port: plan.port,
        serverName: plan.name,
      });
      if (running.pid !== undefined) watchdog.guard(running.pid);
      await running.serves(READY_TIMEOUT_MS);
    },
  };
}
