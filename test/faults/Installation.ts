/**
 * A whole installation as processes, as `deploy/` has it: a nats-server, provisioned by `agents
 * provision`, a gateway, and hosts with folders of their own.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { openInspector } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";

export const SECRET = "It's a Secret to Everybody";
const MODULE = fileURLToPath(new URL("./ledgerModule.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));

export interface InstallationOptions {
  readonly shards: number;
  readonly leaseTtlMs: number;
  /** Path of the module that its processes run; default the ledger's. */
  readonly module?: string;
  /** The nats-server's, in bytes; default its own. */
  readonly maxPayload?: number;
}

export class Installation {
  readonly nats: TestNats;
  readonly inspector: Awaited<ReturnType<typeof openInspector>>;
  readonly shards: number;
  private readonly module: string;
  gateway!: AgentsProcess;
  private readonly folder = tempFolder("installation");
  private readonly processes = new Set<AgentsProcess>();

  private constructor(
    nats: TestNats,
    inspector: Installation["inspector"],
    options: InstallationOptions,
  ) {
    this.nats = nats;
    this.inspector = inspector;
    this.shards = options.shards;
    this.module = options.module ?? MODULE;
  }

  /** Everything but the hosts. */
  static async start(options: InstallationOptions): Promise<Installation> {
    const { shards, leaseTtlMs, maxPayload } = options;
    const nats = await startNats(maxPayload === undefined ? {} : { maxPayload });
    await promisify(execFile)(process.execPath, [
      MAIN, "provision", "--nats", nats.url, "--shards", `${shards}`, "--lease-ttl", `${leaseTtlMs}`,
    ]); // prettier-ignore
    const inspector = await openInspector({ nats: nats.url, module: { agents: {} } });
    const installation = new Installation(nats, inspector, options);
    installation.gateway = await installation.startProcess("gateway", ["--port", "0"]);
    return installation;
  }

  /** A host on the folder `name`, whether or not one was there before. */
  startHost(
    name: string,
    args: ReadonlyArray<string> = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<AgentsProcess> {
    return this.startProcess("host", ["--data", this.folderOf(name), ...args], {
      FREEZE_FILE: this.freezeFile(name),
      ...env,
    });
  }

  startRetention(): Promise<AgentsProcess> {
    return this.startProcess("retention", ["--data", this.folderOf("retention")]);
  }

  /** Made by a test, seen by the host in its next turn. */
  freezeFile(name: string): string {
    return join(this.folder.path, `${name}.freeze`);
  }

  /** Where a host on the folder `name` keeps its images. */
  imagesOf(name: string): string {
    return join(this.folderOf(name), "hosts", "0", "images");
  }

  /** How many shards each holder has. */
  async shares(): Promise<ReadonlyMap<string, number>> {
    const shares = new Map<string, number>();
    for (const { value } of await this.inspector.leases.list("shard."))
      shares.set(value, (shares.get(value) ?? 0) + 1);
    return shares;
  }

  /** Resolves when so many holders share all shards, none with more than its fair share. */
  async shared(holders: number, timeoutMs = 15_000): Promise<void> {
    const fair = Math.ceil(this.shards / holders);
    await pollUntil(
      `${holders} hosts share ${this.shards} shards`,
      async () => {
        const shares = await this.shares();
        const counts = [...shares.values()];
        const owned = counts.reduce((sum, count) => sum + count, 0);
        const good =
          owned === this.shards && shares.size === holders && Math.max(...counts) <= fair;
        return good || { done: false, saw: shares };
      },
      { timeoutMs },
    );
  }

  async stop(): Promise<void> {
    for (const running of this.processes) {
      running.thaw();
      await running.stop();
    }
    await this.inspector.close();
    await this.nats.stop();
    this.folder.remove();
  }

  private folderOf(name: string): string {
    return join(this.folder.path, name);
  }

  private async startProcess(
    role: "gateway" | "host" | "retention",
    args: ReadonlyArray<string>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<AgentsProcess> {
    const started = await AgentsProcess.start({
      args: [role, this.module, "--nats", this.nats.url, ...args],
      env: { SECRET, ...env },
    });
    this.processes.add(started);
    return started;
  }
}
