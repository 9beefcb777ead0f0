/** The installation of one run, each process on its own link. `heal` mends what faults broke. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { AgentsProcess } from "../../kit/AgentsProcess.ts";
import { pollUntil } from "../../kit/poll.ts";
import { SECRET } from "../../kit/Installation.ts";
import { runAgents } from "../../kit/runAgents.ts";
import { shardShares, untilShared } from "../../kit/shares.ts";
import { openInspector } from "../../kit/system.ts";
import { Bites } from "./Bites.ts";
import { Broker, Mounts } from "./Broker.ts";
import { Link } from "./Link.ts";
import type { Run } from "./rigModule.ts";

export const LEASE_TTL_MS = 1_500;
/** Some a host, some agents a shard. */
const SHARDS = 8;
/** Hosts' caches of dozens of small agents; a file that takes the rest makes a full disk. */
const HOST_DISK_MIB = 64;
/** Several take-overs, one after the other, on a busy machine. */
const SHARED_TIMEOUT_MS = 45_000;
/** A cluster that has just met has no leader for a while. */
const PROVISION_TIMEOUT_MS = 60_000;

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const MODULE = here("./rigModule.ts");
const CLOCK = here("./clockShift.mjs");

/** A host or a gateway, whichever process it is just now. */
export interface Seat {
  readonly role: "host" | "gateway";
  readonly name: string;
  readonly link: Link;
  readonly port: number;
  readonly clockFile: string;
  process: AgentsProcess;
}

export interface RigOptions {
  readonly folder: string;
  readonly servers: 1 | 3;
  readonly receiverUrl: string;
}

export class Rig {
  readonly bites = new Bites();
  readonly mounts = new Mounts();
  readonly folder: string;
  readonly shards = SHARDS;
  readonly hosts: Seat[] = [];
  readonly gateways: Seat[] = [];
  /** Lines of processes that are gone. */
  readonly logs: string[] = [];
  broker!: Broker;
  inspector!: Awaited<ReturnType<typeof openInspector>>;
  private readonly options: RigOptions;

  private constructor(options: RigOptions) {
    this.options = options;
    this.folder = options.folder;
  }

  static async start(options: RigOptions): Promise<Rig> {
    const rig = new Rig(options);
    try {
      rig.broker = await Broker.start(options.servers, options.folder, rig.mounts);
      await rig.provision();
      rig.inspector = await openInspector({ nats: rig.broker.url, module: { agents: {} } });
      rig.hosts.push(...(await Promise.all(["a", "b"].map((n) => rig.seat("host", n)))));
      rig.gateways.push(...(await Promise.all(["x", "y"].map((n) => rig.seat("gateway", n)))));
      await rig.shared(2);
    } catch (error) {
      await rig.stop();
      throw error;
    }
    return rig;
  }

  get runsFile(): string {
    return join(this.folder, "runs.jsonl");
  }
  get runs(): Run[] {
    const lines = readFileSync(this.runsFile, "utf8").split("\n").filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Run);
  }

  dataOf(seat: Seat): string {
    return join(this.folder, seat.name);
  }
  freezeFile(seat: Seat): string {
    return join(this.folder, `${seat.name}.freeze`);
  }
  imagesOf(seat: Seat): string {
    return join(this.dataOf(seat), "hosts", "0", "images");
  }

  /** Starts the seat's process anew, on its folder, port and link. */
  async restart(seat: Seat): Promise<void> {
    this.logs.push(...seat.process.lines.map((line) => `${seat.name} ${JSON.stringify(line)}`));
    if (seat.process.noise !== "") this.logs.push(`${seat.name} noise: ${seat.process.noise}`);
    seat.process = await this.launch(seat);
  }

  /** Shifts the wall clock of a seat's process. */
  shiftClock(seat: Seat, ms: number): void {
    writeFileSync(seat.clockFile, String(ms));
    process.kill(seat.process.pid, "SIGUSR2");
  }

  /** How many shards each holder has. */
  shares(): Promise<ReadonlyMap<string, number>> {
    return shardShares(this.inspector.leases);
  }

  /** Resolves when this many holders share all shards fairly. */
  shared(holders: number): Promise<void> {
    return untilShared(this.inspector.leases, {
      holders, shards: SHARDS, told: () => this.told(), timeoutMs: SHARED_TIMEOUT_MS, intervalMs: 50,
    }); // prettier-ignore
  }

  /** Every link, clock and frozen process is as it should be; who died was started by its fault. */
  async heal(): Promise<void> {
    for (const { nats } of this.broker.servers) nats.thaw();
    this.broker.routes.heal();
    for (const seat of [...this.hosts, ...this.gateways]) {
      seat.link.heal();
      rmSync(this.freezeFile(seat), { force: true });
      seat.process.thaw();
      if (seat.process.exitCode !== undefined) await this.restart(seat);
      else this.shiftClock(seat, 0);
    }
    await this.broker.healthy();
    await this.shared(2);
  }

  /** The last lines of all processes, for errors. */
  told(): string {
    return [...this.hosts, ...this.gateways]
      .map((seat) => `${seat.name}: ${seat.process.told()}`)
      .join("\n");
  }

  /** Logs what each server knows of connections and streams, and the leases. Never rejects. */
  async diagnose(): Promise<void> {
    for (const { monitorPort } of this.broker?.servers ?? [])
      for (const path of ["connz?subs=1", "jsz?streams=true&consumers=true"])
        await fetch(`http://127.0.0.1:${monitorPort}/${path}`)
          .then(async (response) => this.logs.push(JSON.stringify(await response.json())))
          .catch((error: unknown) => this.logs.push(`no ${path}: ${String(error)}`));
    await this.inspector?.leases
      .list("")
      .then((leases) => this.logs.push(JSON.stringify(leases)))
      .catch((error: unknown) => this.logs.push(`no leases: ${String(error)}`));
  }

  async stop(): Promise<void> {
    for (const seat of [...this.hosts, ...this.gateways]) {
      seat.process.thaw();
      this.logs.push(...seat.process.lines.map((line) => `${seat.name} ${JSON.stringify(line)}`));
      await seat.process.kill();
      await seat.link.close();
    }
    await this.inspector?.close();
    await this.broker?.stop();
    this.mounts.unmount();
  }

  private async seat(role: Seat["role"], letter: string): Promise<Seat> {
    const name = `${role}-${letter}`;
    const clockFile = join(this.folder, `${name}.clock`);
    writeFileSync(clockFile, "0");
    const link = await Link.open(this.broker.ports);
    const port = role === "gateway" ? await pickPort() : 0;
    const plan = { role, name, link, port, clockFile };
    if (role === "host") this.mounts.disk(this.dataOf({ ...plan } as Seat), HOST_DISK_MIB);
    else mkdirSync(join(this.folder, name), { recursive: true });
    return { ...plan, process: await this.launch(plan) };
  }

  private launch(seat: Omit<Seat, "process">): Promise<AgentsProcess> {
    const own =
      seat.role === "gateway"
        ? ["--port", String(seat.port)]
        : ["--data", join(this.folder, seat.name)];
    return AgentsProcess.start({
      args: [seat.role, MODULE, "--nats", seat.link.url, ...own],
      nodeArgs: ["--import", CLOCK],
      env: {
        SECRET,
        CLOCK_FILE: seat.clockFile,
        RUNS_FILE: this.runsFile,
        RECEIVER_URL: this.options.receiverUrl,
        ...(seat.role === "host" ? { FREEZE_FILE: join(this.folder, `${seat.name}.freeze`) } : {}),
      },
    });
  }

  private async provision(): Promise<void> {
    writeFileSync(this.runsFile, "");
    const replicas = String(this.options.servers);
    await pollUntil(
      "the installation is provisioned",
      async () => {
        const { code, err } = await runAgents([
          "provision", "--nats", this.broker.url, "--shards", String(SHARDS),
          "--lease-ttl", String(LEASE_TTL_MS), "--replicas", replicas,
        ], {}); // prettier-ignore
        return code === 0 || { done: false, saw: err };
      },
      { timeoutMs: PROVISION_TIMEOUT_MS, intervalMs: 200 },
    );
  }
}
