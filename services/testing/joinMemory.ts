/**
 * Joins a gateway and hosts with the in-memory adapters: a whole installation in the test's own
 * process, in virtual time, without a server or a socket. `joinProcesses` runs the processes. Used
 * by `TestAgents` and `rerunEvent`.
 *
 * 1. A crash loses a host's connection and its whole memory at once. Its leases stay until they
 *    expire, and the broker keeps what it has stored.
 * 2. Leases are long, so that days of virtual time do not consist of renewals. The leases of a lost
 *    host expire when the next host starts.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { IncomingMessage, MailAnswer } from "../../core/mail/MailServer.ts";
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import type { OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import { addressKey } from "../../schemas/Address.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { takeMessage, UNKNOWN_RECIPIENT } from "../mail/takeMessage.ts";
import { makeMcpClients } from "../mcp/McpClientsLayer.ts";
import { MemoryBroker } from "../memory/MemoryBroker.ts";
import type { MemoryConnection } from "../memory/MemoryConnection.ts";
import { MemoryHttpServer } from "../memory/MemoryHttpServer.ts";
import { makeMemoryJournal } from "../memory/MemoryJournal.ts";
import { memoryQueries } from "../memory/memoryQueries.ts";
import { makeMemorySnapshots } from "../memory/MemorySnapshots.ts";
import { MemorySocket } from "../memory/MemorySocket.ts";
import { VirtualTime } from "../memory/VirtualTime.ts";
import { mailModule } from "../module/mailModule.ts";
import { asyncAmbient } from "../node/AsyncAmbient.ts";
import { openSqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import {
  DRAIN_TIMEOUT_MS,
  GATEWAY,
  memoryGateway,
  memoryHost,
  runProcess,
  SHARDS,
  type CountingCalls,
  type ProcessParts,
} from "./joinProcesses.ts";
import { RealWork } from "./RealWork.ts";

/** Rule 2. */
const LEASE_TTL_MS = 86_400_000;

/** The test's own connection, which reads what is stored. */
const READER = "test";

/** Where in a commit the host crashes: before its event is stored, or right after. */
export type CrashPoint = (typeof CRASH_POINTS)[number];
export const CRASH_POINTS = ["before commit", "after commit"] as const;

interface JoinOptions extends Pick<ProcessParts, "env" | "log" | "module" | "publicUrl"> {
  readonly seed: number;
  readonly startMs: number | undefined;
  readonly recorded?: ProcessParts["recorded"];
  /** Whether `query` is answered. Default: it is refused. */
  readonly answersQueries?: boolean;
  /** Receives webhooks and mail. */
  readonly outgoing: (time: VirtualTime) => {
    readonly port: OutgoingShape;
    readonly relay: MailTransportShape;
  };
}

interface RunningHost {
  readonly id: string;
  readonly connection: MemoryConnection;
  readonly scope: Scope.Closeable;
  /** Agents that are or were in its memory. */
  readonly agents: Set<ActiveAgent>;
  alive: boolean;
}

/** Starts a gateway and a first host. */
export async function joinMemory(options: JoinOptions): Promise<MemoryInstallation> {
  const reading = await openSqliteDatabases({ folder: undefined });
  const installation = new MemoryInstallation(options, reading);
  await installation.startGateway();
  await installation.startHost();
  return installation;
}

export class MemoryInstallation {
  readonly time: VirtualTime;
  readonly broker: MemoryBroker;
  readonly journal: JournalShape;
  readonly snapshots: SnapshotsShape;
  readonly databases: DatabasesShape;
  /** As the gateway binds it. */
  env: Readonly<Record<string, unknown>> = {};
  private readonly parts: ProcessParts;
  private readonly queries: QueriesShape | undefined;
  private readonly scope = Effect.runSync(Scope.make());
  private readonly dead = new WeakSet<ActiveAgent>();
  private readonly work = new RealWork();
  private gatewayCalls: CountingCalls | undefined;
  private activities = 0;
  private loading: Promise<unknown> | undefined;
  private hosts = 0;
  private host: RunningHost | undefined;

  constructor(
    options: JoinOptions,
    private readonly reading: Awaited<ReturnType<typeof openSqliteDatabases>>,
  ) {
    const { seed, startMs, answersQueries = false } = options;
    this.databases = reading.databases;
    this.time = new VirtualTime({ seed, ...(startMs === undefined ? {} : { startMs }) });
    this.broker = new MemoryBroker({ time: this.time, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    this.broker.intercept = ({ kind, connection }) => this.counted(kind, connection);
    const { port: outgoing, relay } = options.outgoing(this.time);
    const mcp = makeMcpClients({
      // Allowed because the test's handler answers for every server.
      allowLoopback: true,
      log: options.log,
      // Read at each request, because within an agent's turn it is the test's.
      fetch: (url, init) => globalThis.fetch(url, init),
      onLoad: (begun) => (this.loading = begun),
    });
    const { time, broker } = this;
    const { recorded } = options;
    this.parts = { ...options, recorded, time, broker, http: new MemoryHttpServer(), mcp, outgoing, relay }; // prettier-ignore
    const reader = broker.connect(READER);
    const { databases } = this;
    const journal = (this.journal = makeMemoryJournal(reader));
    const snapshots = (this.snapshots = makeMemorySnapshots(reader));
    this.queries = answersQueries
      ? memoryQueries(broker, { journal, snapshots, databases })
      : undefined;
  }

  /** The gateway's. */
  get calls(): CountingCalls {
    return this.gatewayCalls!;
  }

  /** Grows with everything that the processes do. */
  get activity(): number {
    return this.activities;
  }

  /** Code that is being loaded, which virtual time waits for. Returned once. */
  takeLoading(): Promise<unknown> | undefined {
    const begun = this.loading;
    this.loading = undefined;
    return begun;
  }

  get alive(): boolean {
    return this.host?.alive === true;
  }

  isDead(agent: ActiveAgent): boolean {
    return this.dead.has(agent);
  }

  /** Agents in memory now. */
  agents(): ReadonlyArray<ActiveAgent> {
    const { agents } = this.host!;
    for (const agent of agents) if (agent.discarded) agents.delete(agent);
    return [...agents];
  }

  /** Whether code in a turn has work of the machine that has not ended. */
  isWorking(): boolean {
    const { agents } = this.host!;
    return this.work.some((agent) => !agent.idle && agents.has(agent));
  }

  request(
    ...args: Parameters<MemoryHttpServer["request"]>
  ): ReturnType<MemoryHttpServer["request"]> {
    return this.parts.http.request(...args);
  }

  /** Delivers a message without SMTP. Resolves to the answer that SMTP would give. */
  async mail(message: IncomingMessage): Promise<MailAnswer> {
    const { module, relay, time, log } = this.parts;
    const handlers = mailModule(module, this.env);
    if (!message.to.every((address) => handlers.mayKnow(address))) return UNKNOWN_RECIPIENT;
    const unfinished = new UnfinishedWork(time, log);
    return takeMessage(
      { module: () => handlers, transport: relay, unfinished, time, log },
      message,
    );
  }

  async connect(...args: Parameters<MemoryHttpServer["connect"]>) {
    const result = await this.parts.http.connect(...args);
    return result instanceof MemorySocket
      ? ({ _tag: "Open", socket: result } as const)
      : ({ _tag: "Refused", response: result } as const);
  }

  /** Rule 1. */
  crash(): void {
    const own = this.host;
    if (own === undefined || !own.alive) throw new Error("no host is running: call revive() first");
    own.alive = false;
    own.connection.close();
    for (const agent of own.agents) {
      this.dead.add(agent);
      agent.discard();
    }
    own.agents.clear();
    // The rest of the host ends by itself, without a connection.
    void closeScope(own.scope);
  }

  /** Crashes at the next commit of the agent, or of any. Resolves when it has crashed. */
  crashAt(point: CrashPoint, key: string | undefined): Promise<void> {
    const { broker } = this;
    return new Promise((resolve) => {
      const before = broker.intercept;
      const offStore = broker.journal.watch(({ id }) => {
        if (point !== "after commit" || (key !== undefined && addressKey(id) !== key)) return;
        over();
      });
      const over = (): void => {
        broker.intercept = before;
        offStore();
        this.crash();
        resolve();
      };
      if (point === "before commit")
        broker.intercept = (operation) => {
          const wanted = operation.kind === "append" && operation.connection === this.host!.id;
          if (wanted && (key === undefined || operation.key === key)) over();
          return before?.(operation);
        };
    });
  }

  /** Expires the lost host's leases and starts the next host. Moves time as needed. */
  async revive(): Promise<void> {
    this.broker.leases.expire(this.host!.id);
    await this.startHost();
  }

  /** Stops the gateway, then the host. Moves time as needed. */
  async close(): Promise<void> {
    let closed = false;
    const all = (async () => {
      await closeScope(this.scope);
      if (this.host?.alive === true) await closeScope(this.host.scope);
    })().finally(() => (closed = true));
    while (!closed) await this.time.advance(DRAIN_TIMEOUT_MS);
    await all;
    this.reading.close();
  }

  private counted(kind: string, connection: string): void {
    // Lease renewals and the test's own reads do not count as activity.
    if (kind === "renew" || connection === READER) return;
    // Requests of a lost host do not count either.
    if (connection === GATEWAY || (this.host?.alive !== false && connection === this.host?.id))
      this.activities++;
  }

  async startGateway(): Promise<void> {
    const { parts, scope } = this;
    const own = { connection: this.broker.connect(GATEWAY), ambient: asyncAmbient, scope };
    const { env, calls } = await runProcess(memoryGateway(parts), parts, own);
    this.env = env;
    this.gatewayCalls = calls;
  }

  async startHost(): Promise<void> {
    const id = `host-${++this.hosts}`;
    const own: RunningHost = {
      id,
      connection: this.broker.connect(id),
      scope: Effect.runSync(Scope.make()),
      agents: new Set(),
      alive: true,
    };
    const ambient: AmbientShape = {
      current: asyncAmbient.current,
      run: (turn, f) => {
        if (turn.owner instanceof ActiveAgent) own.agents.add(turn.owner);
        this.activities++;
        return this.work.during(() => asyncAmbient.run(turn, f));
      },
    };
    const { parts, queries } = this;
    const started = await runProcess(memoryHost(parts, id, queries), parts, { ...own, ambient });
    this.host = own;
    while (!started.ready || started.shardsOwned.length < SHARDS) await this.time.advance(1);
  }
}

const closeScope = (scope: Scope.Closeable): Promise<void> =>
  Effect.runPromise(Scope.close(scope, Exit.void));
