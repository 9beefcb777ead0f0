/**
 * One nats-server, or three as a cluster with three copies of everything, on a disk of their own
 * where the machine lets us mount one (a tmpfs, so that it can be full). Killed, frozen, cut off
 * from one another, started again.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats, type TestNats } from "../../kit/natsServer.ts";
import { pollUntil } from "../../kit/poll.ts";
import { Routes } from "./Routes.ts";

/** Several times what a run of many minutes stores; a file that takes the rest fills the disk. */
const DISK_MIB = 512;
const HEALTHY_TIMEOUT_MS = 60_000;
const MONITOR_TIMEOUT_MS = 2_000;

/** The part of `/jsz` that is read. */
interface JetStreamMonitor {
  readonly account_details?: ReadonlyArray<{
    readonly stream_detail?: ReadonlyArray<{
      readonly name: string;
      readonly cluster?: { readonly leader?: string };
    }>;
  }>;
}

export interface BrokerServer {
  readonly nats: TestNats;
  readonly monitorPort: number;
  /** A file in this folder takes room from the server. */
  readonly disk: string;
}

export class Broker {
  readonly servers: BrokerServer[] = [];
  readonly routes: Routes;

  private constructor(routes: Routes) {
    this.routes = routes;
  }

  static async start(count: 1 | 3, folder: string, mounts: Mounts): Promise<Broker> {
    const routePorts: number[] = [];
    for (let n = 0; n < count; n++) routePorts.push(await pickPort());
    const routes = await Routes.open(routePorts);
    const broker = new Broker(routes);
    const starts = routePorts.map(async (routePort, n) => {
      const disk = mounts.disk(join(folder, `nats-${n}`), DISK_MIB);
      const storeDir = join(disk, "store");
      const monitorPort = await pickPort();
      const cluster = count === 1 ? "" : routes.config(n, routePort);
      const nats = await startNats({
        storeDir,
        // The disk is the limit, not the server's own.
        configExtra: [
          `jetstream { store_dir: ${JSON.stringify(storeDir)}, max_file_store: 8GB }`,
          `http: "127.0.0.1:${monitorPort}"`,
          cluster,
        ].join("\n"),
      });
      return { nats, monitorPort, disk };
    });
    broker.servers.push(...(await Promise.all(starts)));
    await broker.healthy();
    return broker;
  }

  get ports(): number[] {
    return this.servers.map(({ nats }) => nats.port);
  }

  /** For those that need no proxy. */
  get url(): string {
    return this.servers.map(({ nats }) => nats.url).join(",");
  }

  async healthy(): Promise<void> {
    for (const { monitorPort, nats } of this.servers)
      await pollUntil(
        `the nats-server at ${nats.port} is healthy`,
        async () => {
          const response = await fetch(`http://127.0.0.1:${monitorPort}/healthz`, {
            signal: AbortSignal.timeout(MONITOR_TIMEOUT_MS),
          });
          return response.ok || { done: false, saw: await response.text() };
        },
        { timeoutMs: HEALTHY_TIMEOUT_MS, intervalMs: 50 },
      );
  }

  /** Which server leads a stream, as one of them sees it; undefined when it knows of none. */
  async leaderOf(stream: string, seenBy: BrokerServer): Promise<number | undefined> {
    const response = await fetch(`http://127.0.0.1:${seenBy.monitorPort}/jsz?streams=true`, {
      signal: AbortSignal.timeout(MONITOR_TIMEOUT_MS),
    });
    const { account_details: accounts = [] } = (await response.json()) as JetStreamMonitor;
    const found = accounts.flatMap((it) => it.stream_detail ?? []).find(({ name }) => name === stream);
    const n = this.servers.findIndex(({ nats }) => found?.cluster?.leader === nats.serverName);
    return n < 0 ? undefined : n;
  } // prettier-ignore

  async stop(): Promise<void> {
    await Promise.all(this.servers.map(({ nats }) => nats.stop()));
    await this.routes.close();
  }
}

/** File systems of a size, as long as this process lives. */
export class Mounts {
  /** False where the machine does not let us mount: disks then can't be full. */
  works = true;
  private readonly mounted: string[] = [];

  constructor() {
    // Before folders are removed, which can't be while something is mounted in them.
    process.prependOnceListener("exit", () => this.unmount());
  }

  /** The folder `path`, which is a file system of its own where that is possible. */
  disk(path: string, mib: number): string {
    mkdirSync(path, { recursive: true });
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", `size=${mib}m`, "tmpfs", path], {
        stdio: "ignore",
      });
      this.mounted.push(path);
    } catch {
      this.works = false;
    }
    return path;
  }

  /** Also what is still in use. */
  unmount(): void {
    for (const path of this.mounted.splice(0))
      try {
        execFileSync("umount", ["-l", path], { stdio: "ignore" });
      } catch {
        // It has already ended, or ends with the machine.
      }
  }
}
