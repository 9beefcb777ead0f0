/** The built `agents` command with a bench's module, on its own broker, in one process or more. */
import { connect } from "@nats-io/transport-node";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats, type TestNats } from "../../kit/natsServer.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { BenchFailed } from "../Bench.ts";
import { ROOT } from "./findFloor.ts";
import { cpuSeconds, ServerProcess } from "./ServerProcess.ts";

export const COMMAND = join(ROOT, "dist/services/cli/main.js");

export interface AgentsOptions {
  /** Path of the module. */
  readonly module: string;
  /** 0: `agents dev`; else gateways and this many hosts. */
  readonly hosts: number;
  /** Default 1; none beside `agents dev`. */
  readonly gateways?: number;
  readonly syncAlways: boolean;
  /** Options of Node itself. */
  readonly nodeArgs?: ReadonlyArray<string>;
  /** Options of hosts and of `agents dev`. */
  readonly hostArgs?: ReadonlyArray<string>;
  /** Folder for CPU profiles. */
  readonly profile?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

export interface RunningAgents {
  /** Port of the first gateway. */
  readonly port: number;
  /** Port of each gateway. */
  readonly ports: ReadonlyArray<number>;
  /** URL of the first gateway. */
  readonly url: string;
  readonly nats: TestNats;
  /** The version of nats-server. */
  readonly serverVersion: string;
  /** Sum of a metric's series at the only process or last gateway. Rejects if it has none. */
  readonly metric: (name: string) => Promise<number>;
  /** Processor seconds of the Node processes so far; NaN where there is no /proc. */
  readonly nodeSeconds: () => number;
  readonly brokerSeconds: () => number;
  readonly stop: () => Promise<void>;
}

export async function startAgents(options: AgentsOptions): Promise<RunningAgents> {
  if (!existsSync(COMMAND)) throw new BenchFailed("There is no build to measure: npm run build");
  const nats = await startNats({ syncAlways: options.syncAlways });
  const folder = tempFolder("bench");
  const ports: number[] = [];
  const processes: ServerProcess[] = [];
  let admin = 0;
  const start = async (role: "dev" | "gateway" | "host", name: string): Promise<void> => {
    const adminPort = (admin = await pickPort());
    const port = await pickPort();
    if (role !== "host") ports.push(port);
    const process = new ServerProcess({
      name: `agents ${role}`,
      cwd: folder.path,
      args: [
        ...(options.nodeArgs ?? []),
        ...profileArgs(options.profile),
        COMMAND, role, options.module, "--nats", nats.url, "--data", join(folder.path, name),
        "--admin-port", String(adminPort), "--log-level", "warn",
        ...(role === "gateway" ? [] : (options.hostArgs ?? [])),
        // No rate limit, because the bench measures one client that calls as fast as it is
        // answered.
        ...(role === "host"
          ? []
          : ["--port", String(port), "--hostname", "127.0.0.1", "--frames-per-socket", "0"]),
      ], // prettier-ignore
      ...(options.env === undefined ? {} : { env: options.env }),
    });
    processes.push(process);
    await process.ready(() => isReady(adminPort));
  };
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map((process) => process.stop()));
    await nats.stop();
    folder.remove();
  };
  try {
    // The first host creates the installation, so the gateways come last.
    for (let host = 0; host < options.hosts; host += 1) await start("host", `host-${host}`);
    if (options.hosts === 0) await start("dev", "front");
    else
      for (let gateway = 0; gateway < (options.gateways ?? 1); gateway += 1)
        await start("gateway", `front-${gateway}`);
  } catch (error) {
    await stop();
    throw error;
  }
  const port = ports[0]!;
  return {
    port,
    ports,
    url: `http://127.0.0.1:${port}`,
    nats,
    serverVersion: await serverVersion(nats.url),
    metric: async (name) => {
      const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
      const found = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))];
      if (found.length === 0) throw new BenchFailed(`/metrics has no ${name}`);
      return found.reduce((sum, [, value]) => sum + Number(value), 0);
    },
    nodeSeconds: () => processes.reduce((sum, server) => sum + (server.cpuSeconds ?? NaN), 0),
    brokerSeconds: () => cpuSeconds(nats.pid) ?? NaN,
    stop,
  };
}

/** One profile a thread; a control process and its workers have the same arguments. */
const profileArgs = (folder: string | undefined): string[] =>
  folder === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${folder}`];

/** The version that the server at `url` reports. */
export async function serverVersion(url: string): Promise<string> {
  const client = await connect({ servers: url });
  const version = client.info?.version ?? "of an unknown version";
  await client.close();
  return version;
}

/** Whether the process whose admin server this is answers that it is ready. */
export async function isReady(adminPort: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${adminPort}/readyz`)).ok;
  } catch {
    return false; // not listening yet
  }
}
