/**
 * An installation that grows and shrinks: a nats-server, any number of gateways behind one
 * balancer, any number of hosts, each a process of the built package. The parts of `npm run
 * membership` and `membership.test.ts` do to it what an operator does.
 */
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { openInspector } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { Balancer } from "./Balancer.ts";

export const SECRET = "It's a Secret to Everybody";
const MODULE = fileURLToPath(new URL("./memberModule.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** For states that hosts reach in a second or two on a machine of their own. */
const SETTLE_TIMEOUT_MS = 60_000;
/** How often shares are looked at: the error of every time that is told in shares. */
const LOOK_MS = 25;
/** As many as somebody reads. */
const COMPLAINTS_MAX = 10;

/** A package, and the module of agents that its processes run. */
export interface Release {
  /** What agents see of it, as `RELEASE`. */
  readonly name: string;
  readonly main: string;
  readonly module: string;
}
const BUILT: Release = { name: "built", main: MAIN, module: MODULE };

export interface FleetOptions {
  readonly shards: number;
  readonly leaseTtlMs: number;
  readonly gateways: number;
  /** Whose processes it begins with. Default: what is built here. */
  readonly release?: Release;
  /** Environment of all its processes, beside `SECRET` and `RELEASE`. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Who holds each shard: host by shard key. */
export type Owners = ReadonlyMap<string, string>;

/** Undefined: it has none now. */
export interface OwnerChange {
  readonly key: string;
  readonly owner: string | undefined;
  readonly atMs: number;
}

export class Fleet {
  readonly balancer: Balancer;
  readonly hosts: AgentsProcess[] = [];
  readonly gateways: AgentsProcess[] = [];
  readonly shards: number;
  readonly leaseTtlMs: number;
  readonly inspector: Awaited<ReturnType<typeof openInspector>>;
  readonly nats: TestNats;
  /** Release of the processes that are added. */
  release: Release;
  private readonly env: Readonly<Record<string, string>>;
  private readonly folder = tempFolder("fleet");
  private readonly processes = new Set<AgentsProcess>();
  private hostsStarted = 0;

  private constructor(
    nats: TestNats,
    inspector: Fleet["inspector"],
    balancer: Balancer,
    { shards, leaseTtlMs, release = BUILT, env = {} }: FleetOptions,
  ) {
    this.nats = nats;
    this.inspector = inspector;
    this.balancer = balancer;
    this.shards = shards;
    this.leaseTtlMs = leaseTtlMs;
    this.release = release;
    this.env = env;
  }

  /** Everything but the hosts. */
  static async start(options: FleetOptions): Promise<Fleet> {
    const nats = await startNats();
    const { main } = options.release ?? BUILT;
    await promisify(execFile)(process.execPath, [
      main, "provision", "--nats", nats.url,
      "--shards", `${options.shards}`, "--lease-ttl", `${options.leaseTtlMs}`,
    ]); // prettier-ignore
    const inspector = await openInspector({ nats: nats.url, module: { agents: {} } });
    const fleet = new Fleet(nats, inspector, await Balancer.listen(), options);
    for (let n = 0; n < options.gateways; n++) await fleet.addGateway();
    return fleet;
  }

  get url(): string {
    return this.balancer.url;
  }

  /** Gets traffic once it is ready, or at once while no shard has a host. */
  async addGateway(): Promise<AgentsProcess> {
    const gateway = await this.startProcess(["gateway", this.release.module, "--port", "0"]);
    if (this.hosts.length > 0) await gateway.ready();
    this.gateways.push(gateway);
    this.balancer.add(portOf(gateway));
    return gateway;
  }

  /** On a folder of its own, as on a machine of its own. */
  async addHost(...more: ReadonlyArray<string>): Promise<AgentsProcess> {
    const folder = join(this.folder.path, `host-${this.hostsStarted++}`);
    const host = await this.startProcess(["host", this.release.module, "--data", folder, ...more]);
    this.hosts.push(host);
    return host;
  }

  /** `agents retention`, with an archive in a folder of the fleet's. */
  addRetention(): Promise<AgentsProcess> {
    return this.startProcess(["retention", this.release.module, "--archive", this.archive]);
  }

  /** `agents mail`. */
  addMail(): Promise<AgentsProcess> {
    const where = ["--smtp-port", "0", "--hostname", "127.0.0.1"];
    return this.startProcess(["mail", this.release.module, ...where]);
  }

  /** URL of the archive. */
  get archive(): string {
    const path = join(this.folder.path, "archive");
    mkdirSync(path, { recursive: true });
    return pathToFileURL(path).href;
  }

  /**
   * SIGTERM; resolves when it has ended, with the milliseconds that took. The balancer leaves a
   * gateway before, as in `deploy/kubernetes`: the kernel resets a connection that arrives between
   * a server's last look at its new connections and the end of its listening.
   */
  async stopMember(member: AgentsProcess): Promise<number> {
    if (this.gateways.includes(member)) this.balancer.remove(portOf(member));
    this.forget(member);
    const startMs = performance.now();
    await member.stop();
    return performance.now() - startMs;
  }

  async killMember(member: AgentsProcess): Promise<void> {
    this.forget(member);
    await member.kill();
  }

  /** Every change of a shard's owner until `signal` fires, with when it was heard of. */
  async changes(signal: AbortSignal): Promise<ReadonlyArray<OwnerChange>> {
    const changes: OwnerChange[] = [];
    const now = await this.owners();
    await this.inspector.leases.watch(({ key, value }) => {
      if (key.startsWith("shard.")) changes.push({ key, owner: value, atMs: performance.now() });
    }, signal);
    // The watch begins with what there is.
    changes.splice(0, now.size);
    return changes;
  }

  async owners(): Promise<Owners> {
    const leases = await this.inspector.leases.list("shard.");
    return new Map(leases.map(({ key, value }) => [key, value]));
  }

  /**
   * Resolves when each of the fleet's hosts has its share, none one shard more than another, and so
   * the next time that it is looked at: with the milliseconds until then, and the shares, largest
   * first.
   */
  async fair(): Promise<{ readonly ms: number; readonly shares: ReadonlyArray<number> }> {
    const startMs = performance.now();
    return await pollUntil(
      `${this.hosts.length} hosts share ${this.shards} shards fairly`,
      async () => {
        const shares = sharesOf(await this.owners());
        const owned = shares.reduce((sum, count) => sum + count, 0);
        const even = shares.length > 0 && shares[0]! - shares.at(-1)! <= 1;
        if (owned !== this.shards || shares.length !== this.hosts.length || !even)
          return { done: false as const, saw: shares };
        return { done: true as const, value: { ms: performance.now() - startMs, shares } };
      },
      { timeoutMs: SETTLE_TIMEOUT_MS, intervalMs: LOOK_MS },
    );
  }

  async stop(): Promise<void> {
    for (const running of this.processes) await running.kill();
    await this.balancer.close();
    await this.inspector.close();
    await this.nats.stop();
    this.folder.remove();
  }

  /** What its processes logged as errors, for people; empty when nothing. */
  complaints(): string {
    const errors = [...this.processes].flatMap(({ lines }) =>
      lines.filter(({ level }) => level === "error").map((line) => JSON.stringify(line)),
    );
    return errors.slice(0, COMPLAINTS_MAX).join("\n");
  }

  private forget(member: AgentsProcess): void {
    for (const members of [this.hosts, this.gateways]) {
      const at = members.indexOf(member);
      if (at >= 0) members.splice(at, 1);
    }
  }

  private async startProcess(args: ReadonlyArray<string>): Promise<AgentsProcess> {
    const started = await AgentsProcess.start({
      args: [...args, "--nats", this.nats.url],
      main: this.release.main,
      env: { SECRET, RELEASE: this.release.name, ...this.env },
    });
    this.processes.add(started);
    return started;
  }
}

const portOf = (gateway: AgentsProcess): number => Number(new URL(gateway.url).port);

/** Shards of each host, largest first. */
export function sharesOf(owners: Owners): number[] {
  const shares = new Map<string, number>();
  for (const host of owners.values()) shares.set(host, (shares.get(host) ?? 0) + 1);
  return [...shares.values()].toSorted((a, b) => b - a);
}
