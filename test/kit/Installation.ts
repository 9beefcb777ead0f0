/**
 * A whole installation as processes, as `deploy/` has it: a nats-server set up by `agents
 * provision`, a gateway, hosts with folders of their own, and ports that show what is stored. It
 * can use a broker with a login for each role, as `DeployedNats` has one. `system.ts`
 * runs one in the test's own process.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { AgentsProcess, type AgentsProcessOptions } from "./AgentsProcess.ts";
import { startNats, type TestNats } from "./natsServer.ts";
import { runAgents, type AgentsRun } from "./runAgents.ts";
import { shardShares, untilShared } from "./shares.ts";
import { tempFolder } from "./tempFolder.ts";

export const SECRET = "It's a Secret to Everybody";
/** Environment in which the ledger's webhooks wait for the agent on any machine: never 202. */
export const ANSWERED_BY_AGENT = { DEADLINE_MS: "60000" };
const MODULE = fileURLToPath(new URL("../faults/ledgerModule.ts", import.meta.url));
/** Longer than a busy machine stands still: no lease ends unless a test ends it. */
const LEASE_TTL_MS = 30_000;
const CALL_TIMEOUT_MS = 20_000;
const PUBLISH_TIMEOUT_MS = 10_000;
/** Some leases, on a machine that is busy. */
const SHARED_TIMEOUT_MS = 60_000;

/** The user that a process or a command logs in as. */
export type Role = "gateway" | "host" | "mail" | "retention" | "reader" | "operator";

/** A broker that is running. */
export interface Broker {
  readonly url: (role: Role) => string;
  readonly stop: () => Promise<void>;
}

export interface InstallationOptions {
  readonly shards: number;
  /** Stopped with the installation. Default: a new nats-server without logins. */
  readonly broker?: Broker;
  /** More arguments of `agents provision`. */
  readonly provision?: ReadonlyArray<string>;
  /** Path of the module that its processes run; default the ledger's. */
  readonly module?: string;
  /** Default `LEASE_TTL_MS`; where a test waits for a lease to end, `LEASE_TTL_MS_DEFAULT`. */
  readonly leaseTtlMs?: number;
  readonly streamGroups?: number;
  /** Default "agents". */
  readonly namespace?: string;
  /** False: no gateway is started. */
  readonly gateway?: boolean;
  /** The nats-server's, in bytes; default its own. */
  readonly maxPayload?: number;
  /** URL of the archive that `ports.journal` reads, too. */
  readonly archive?: string;
  /** Arguments of all its processes, before their own. */
  readonly args?: ReadonlyArray<string>;
  /** Environment of all its processes, beside `SECRET`. */
  readonly env?: Readonly<Record<string, string>>;
}

/** What a process gets beside the installation's own options. `module`: in place of its module. */
export type ProcessOptions = Partial<AgentsProcessOptions> & { readonly module?: string };

/** `openReader` opens whole ports, of which commands may use less. */
export type InstallationPorts = Omit<ReadPorts, "inbox" | "leases"> & {
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
};

export class Installation {
  readonly shards: number;
  readonly namespace: string;
  /** What `agents provision` printed. */
  provisioned = "";
  ports!: InstallationPorts;
  gateway!: AgentsProcess;
  /** All that were started. */
  readonly processes = new Set<AgentsProcess>();
  private readonly broker: Broker;
  private readonly ownNats: TestNats | undefined;
  private readonly options: InstallationOptions;
  private readonly folder = tempFolder("installation");

  private constructor(broker: Broker | TestNats, options: InstallationOptions) {
    this.ownNats = "restart" in broker ? broker : undefined;
    this.broker =
      "restart" in broker ? { url: () => broker.url, stop: () => broker.stop() } : broker;
    this.options = options;
    this.shards = options.shards;
    this.namespace = options.namespace ?? "agents";
  }

  /** Everything but the hosts. */
  static async start(options: InstallationOptions): Promise<Installation> {
    const { maxPayload, broker } = options;
    const used = broker ?? (await startNats(maxPayload === undefined ? {} : { maxPayload }));
    const installation = new Installation(used, options);
    try {
      await installation.open(options);
    } catch (error) {
      await installation.stop();
      throw error;
    }
    return installation;
  }

  private async open(options: InstallationOptions): Promise<void> {
    const { shards, streamGroups, archive, gateway = true, provision = [] } = options;
    const { leaseTtlMs = LEASE_TTL_MS } = options;
    const provisioned = await this.agents(
      "provision",
      "--shards",
      `${shards}`,
      "--lease-ttl",
      `${leaseTtlMs}`,
      ...(streamGroups === undefined ? [] : ["--stream-groups", `${streamGroups}`]),
      ...provision,
    );
    if (provisioned.code !== 0) throw new Error(`agents provision: ${provisioned.err}`);
    this.provisioned = provisioned.out;
    const target = {
      natsUrl: this.broker.url("reader"),
      namespace: this.namespace,
      ...(archive && { archive }),
    };
    this.ports = (await openReader(target)) as InstallationPorts;
    if (gateway) this.gateway = await this.startGateway();
  }

  /** The nats-server that it started. */
  get nats(): TestNats {
    if (this.ownNats === undefined) throw new Error("the installation is on the test's own broker");
    return this.ownNats;
  }

  /** Another gateway. */
  startGateway(options: ProcessOptions = {}): Promise<AgentsProcess> {
    const { args = [], ...more } = options;
    const data = this.pathOf("gateway");
    return this.startProcess("gateway", {
      args: ["--port", "0", "--data", data, ...args],
      ...more,
    });
  }

  /** A host on the folder `name`, whether or not one was there before. */
  startHost(
    name: string,
    { args = [], env, ...more }: ProcessOptions = {},
  ): Promise<AgentsProcess> {
    return this.startProcess("host", {
      args: ["--data", this.pathOf(name), ...args],
      env: { FREEZE_FILE: this.freezeFile(name), ...env },
      ...more,
    });
  }

  startRetention(options: ProcessOptions = {}): Promise<AgentsProcess> {
    const { args = [], ...more } = options;
    const given = ["--data", this.pathOf("retention"), ...args];
    return this.startProcess("retention", { args: given, ...more });
  }

  /** A process of any role, on the installation's module; `stop` ends it. */
  async startProcess(role: Role, options: ProcessOptions = {}): Promise<AgentsProcess> {
    const { args: common = [] } = this.options;
    const { module = this.options.module ?? MODULE, args = [], env, ...more } = options;
    const where = ["--nats", this.broker.url(role), "--namespace", this.namespace];
    const started = await AgentsProcess.start({
      args: [role, module, ...where, ...common, ...args],
      env: { SECRET, ...this.options.env, ...env },
      ...more,
    });
    this.processes.add(started);
    return started;
  }

  /** Runs one command of the built package on it, as its operator. */
  agents(...args: ReadonlyArray<string>): Promise<AgentsRun> {
    return this.agentsAs("operator", ...args);
  }

  agentsAs(role: Role, ...args: ReadonlyArray<string>): Promise<AgentsRun> {
    const env = { NATS_URL: this.broker.url(role), AGENTS_NAMESPACE: this.namespace };
    return runAgents(args, env);
  }

  /** Calls a method of an agent and returns its result. */
  async call<A>(id: AgentId, method: string, ...args: ReadonlyArray<unknown>): Promise<A> {
    const { reply } = await this.ports.calls.call(
      id,
      { kind: "rpc", method, args: [...args] },
      { deadlineMs: CALL_TIMEOUT_MS, repeatable: false },
    );
    if (reply.kind !== "result") throw new Error(JSON.stringify(reply));
    return reply.value as A;
  }

  /** Returns `call` for agents of one class. */
  caller(className: string) {
    return <A>(name: string, method: string, ...args: ReadonlyArray<unknown>): Promise<A> =>
      this.call<A>(agentId(className, name), method, ...args);
  }

  /** Stores a webhook, as a gateway does when no host answers. `head`: at least its dedup key. */
  async publish(
    id: AgentId,
    head: Partial<InboxHead> & Pick<InboxHead, "key">,
    body: string | Uint8Array,
  ): Promise<void> {
    const whole = {
      kind: "webhook", time: Date.now(), method: "POST", url: "http://localhost/", ...head,
    } as InboxHead; // prettier-ignore
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const signal = AbortSignal.timeout(PUBLISH_TIMEOUT_MS);
    const stored = await this.ports.inbox.publish(id, encodeEnvelope(whole, bytes), { signal });
    if (stored._tag !== "Stored") throw new Error(`not stored: ${stored.message}`);
  }

  /** A path in the installation's folder. */
  pathOf(name: string): string {
    return join(this.folder.path, name);
  }

  /** Made by a test, seen by the host in its next turn. */
  freezeFile(name: string): string {
    return this.pathOf(`${name}.freeze`);
  }

  /** Where a host on the folder `name` keeps its images. */
  imagesOf(name: string): string {
    return join(this.pathOf(name), "hosts", "0", "images");
  }

  /** How many shards each holder has. */
  shares(): Promise<ReadonlyMap<string, number>> {
    return shardShares(this.ports.leases);
  }

  /** Resolves when so many holders share all shards, none with more than its fair share. */
  shared(holders: number, timeoutMs = SHARED_TIMEOUT_MS): Promise<void> {
    return untilShared(this.ports.leases, { holders, shards: this.shards, timeoutMs });
  }

  /** Ends all processes in order, then the rest. */
  stop(): Promise<void> {
    return this.end(async (running) => {
      running.thaw();
      await running.stop();
    });
  }

  /** Ends it at once, where nothing depends on how it ends. */
  kill(): Promise<void> {
    return this.end((running) => running.kill());
  }

  private async end(endProcess: (running: AgentsProcess) => Promise<void>): Promise<void> {
    for (const running of this.processes) await endProcess(running);
    await this.ports?.close();
    await this.broker.stop();
    this.folder.remove();
  }
}
