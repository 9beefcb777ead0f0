/**
 * Joins a gateway and hosts with the in-memory adapters: a whole installation in the test's own
 * process, in virtual time, without a server or a socket. The parts are those of `agents dev`; only
 * the adapters differ. Used by `TestAgents` and `rerunEvent`.
 *
 * 1. A crash loses a host's connection and its whole memory at once. Its leases stay until they
 *    expire, and the broker keeps what it has stored.
 * 2. Leases are long, so that days of virtual time do not consist of renewals. The leases of a lost
 *    host expire when the next host starts.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient, type CallResult } from "../../core/call/CallClient.ts";
import { HttpServer } from "../../core/http/HttpServer.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import type { IncomingMessage, MailAnswer } from "../../core/mail/MailServer.ts";
import { MailTransport, type MailTransportShape } from "../../core/mail/MailTransport.ts";
import { McpClients } from "../../core/mcp/McpClients.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import { ProcessTargets } from "../../core/runtime/ProcessTargets.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { addressKey } from "../../schemas/Address.ts";
import { layer as cronLayer } from "../cronParser/CronParser.ts";
import { runGateway } from "../gateway/runGateway.ts";
import { LateSockets, ownSockets } from "../gateway/SocketKeeper.ts";
import { runHost } from "../host/runHost.ts";
import { takeMessage, UNKNOWN_RECIPIENT } from "../mail/takeMessage.ts";
import { makeMcpClients } from "../mcp/McpClientsLayer.ts";
import { MemoryBroker } from "../memory/MemoryBroker.ts";
import type { MemoryConnection } from "../memory/MemoryConnection.ts";
import { MemoryHttpServer } from "../memory/MemoryHttpServer.ts";
import { makeMemoryJournal } from "../memory/MemoryJournal.ts";
import { memoryLayer } from "../memory/memoryLayer.ts";
import { memoryQueries } from "../memory/memoryQueries.ts";
import { makeMemorySnapshots } from "../memory/MemorySnapshots.ts";
import { MemorySocket } from "../memory/MemorySocket.ts";
import { VirtualTime } from "../memory/VirtualTime.ts";
import { bindEnv } from "../module/bindEnv.ts";
import { gatewayModule } from "../module/gatewayModule.ts";
import { mailModule } from "../module/mailModule.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { asyncAmbient } from "../node/AsyncAmbient.ts";
import { gatedDrop, gatedTransport } from "../node/gatedMail.ts";
import { gatedCalls } from "../node/gatedCalls.ts";
import { genericObservability } from "../observability/index.ts";
import { openSqliteDatabases, sqliteDatabases } from "../sqlite/sqliteDatabases.ts";

/** One suffices, because shards only divide agents among hosts. */
const SHARDS = 1;
/** Rule 2. */
const LEASE_TTL_MS = 86_400_000;
/** Sweeps are rare, so that a month of virtual time passes quickly. */
const SWEEP_MS = 30_000;
/** How long a stopping host waits for its turns. */
const DRAIN_TIMEOUT_MS = 1_000;

/** The test's own connection, which reads what is stored. */
const READER = "test";
const GATEWAY = "gateway";

/** Where in a commit the host crashes: before its event is stored, or right after. */
export type CrashPoint = "before commit" | "after commit";

interface JoinOptions {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly startMs: number | undefined;
  readonly publicUrl: string;
  readonly log: LogShape;
  /** As in `HostModule`. */
  readonly recorded?: RecordedSteps;
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
export async function joinMemory(options: JoinOptions) {
  const { module, publicUrl } = options;
  const time = new VirtualTime({
    seed: options.seed,
    ...(options.startMs === undefined ? {} : { startMs: options.startMs }),
  });
  const broker = new MemoryBroker({ time, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
  const { subjects } = broker;
  const http = new MemoryHttpServer();
  const metrics = agentMetrics(noMetrics);
  const scope = Effect.runSync(Scope.make());
  const { port: outgoing, relay } = options.outgoing(time);
  let activity = 0;
  let loading: Promise<unknown> | undefined;
  const mcp = makeMcpClients({
    // Allowed because the test's handler answers for every server.
    allowLoopback: true,
    log: options.log,
    // Read at each request, because within an agent's turn it is the test's.
    fetch: (url, init) => globalThis.fetch(url, init),
    onLoad: (begun) => (loading = begun),
  });
  let hosts = 0;
  let host: RunningHost | undefined;
  const dead = new WeakSet<ActiveAgent>();
  broker.intercept = ({ kind, connection }) => {
    // Lease renewals and the test's own reads do not count as activity.
    if (kind === "renew" || connection === READER) return;
    // Requests of a lost host do not count either.
    if (connection === GATEWAY || (host?.alive !== false && connection === host?.id)) activity++;
  };

  const portsOf = (connection: MemoryConnection, ambient: AmbientShape) =>
    Layer.mergeAll(
      memoryLayer(connection),
      sqliteDatabases({ folder: undefined }),
      Layer.succeed(Ambient, ambient),
      cronLayer,
      Layer.succeed(Outgoing, outgoing),
      Layer.succeed(McpClients, mcp),
      Layer.succeed(MailTransport, relay),
      Layer.succeed(Log, options.log),
      Layer.succeed(HttpServer, http),
    );
  const callsOf = Effect.gen(function* () {
    return new CountingCalls({
      bus: yield* Bus,
      blobs: yield* Blobs,
      time,
      subjects,
      shards: SHARDS,
    });
  });
  const mailing = Effect.gen(function* () {
    return {
      drop: gatedDrop(makeMailDrop({ inbox: yield* Inbox, time })),
      binding: new EmailBinding(gatedTransport(relay), time),
    };
  });

  const startGateway = Effect.gen(function* () {
    const calls = yield* callsOf;
    const sockets = new LateSockets();
    const bus = yield* Bus;
    const targets = new ProcessTargets({ bus, subjects, time, processId: GATEWAY, client: () => gated }); // prettier-ignore
    const gated: StubCalls = gatedCalls(calls, sockets, targets);
    const env = bindEnv(options.env, module.agents, () => gated, yield* mailing);
    const code = gatewayModule(module, env);
    yield* runGateway({
      gatewayId: GATEWAY,
      subjects,
      shards: SHARDS,
      // With this address, the gateway answers to every host name. No socket is opened.
      hostname: "0.0.0.0",
      port: 0,
      publicUrl,
      module: () => code,
      calls,
      sockets,
      metrics,
    });
    return { env, calls };
  });

  const startHost = async (): Promise<void> => {
    const id = `host-${++hosts}`;
    const own: RunningHost = {
      id,
      connection: broker.connect(id),
      scope: Effect.runSync(Scope.make()),
      agents: new Set(),
      alive: true,
    };
    const ambient: AmbientShape = {
      current: asyncAmbient.current,
      run: (turn, f) => {
        if (turn.owner instanceof ActiveAgent) own.agents.add(turn.owner);
        activity++;
        return asyncAmbient.run(turn, f);
      },
    };
    const run = Effect.gen(function* () {
      const calls = yield* callsOf;
      const sockets = yield* ownSockets({ gatewayId: id, subjects, shards: SHARDS }, calls);
      const gated = gatedCalls(calls, sockets);
      const env = bindEnv(options.env, module.agents, () => gated, yield* mailing);
      return yield* runHost({
        hostId: id,
        subjects,
        shards: SHARDS,
        module: () => ({
          // `readModule` has checked that these are agent classes.
          agents: module.agents as ReadonlyMap<string, AgentClassType>,
          env,
          recorded: options.recorded,
        }),
        metrics,
        calls,
        observability: genericObservability,
        drainTimeoutMs: DRAIN_TIMEOUT_MS,
        sweepMs: SWEEP_MS,
        queries,
      });
    });
    const layer = Layer.buildWithScope(portsOf(own.connection, ambient), own.scope);
    const context = await Effect.runPromise(layer);
    const started = await Effect.runPromise(
      run.pipe(Effect.provide(context), Scope.provide(own.scope)),
    );
    host = own;
    while (!started.ready || started.shardsOwned.length < SHARDS) await time.advance(1);
  };

  const closeScope = (which: Scope.Closeable): Promise<void> =>
    Effect.runPromise(Scope.close(which, Exit.void));

  /** Rule 1. */
  const crash = (): void => {
    const own = host;
    if (own === undefined || !own.alive) throw new Error("no host is running: call revive() first");
    own.alive = false;
    own.connection.close();
    for (const agent of own.agents) {
      dead.add(agent);
      agent.discard();
    }
    own.agents.clear();
    // The rest of the host ends by itself, without a connection.
    void closeScope(own.scope);
  };

  const gatewayContext = await Effect.runPromise(
    Layer.buildWithScope(portsOf(broker.connect(GATEWAY), asyncAmbient), scope),
  );
  const gateway = await Effect.runPromise(
    startGateway.pipe(Effect.provide(gatewayContext), Scope.provide(scope)),
  );
  const reading = await openSqliteDatabases({ folder: undefined });
  const reader = broker.connect(READER);
  const journal = makeMemoryJournal(reader);
  const snapshots = makeMemorySnapshots(reader);
  const { databases } = reading;
  const queries =
    options.answersQueries === true
      ? memoryQueries(broker, { journal, snapshots, databases })
      : undefined;
  await startHost();

  return {
    time,
    journal,
    snapshots,
    broker,
    env: gateway.env,
    calls: gateway.calls,
    databases,
    activity: () => activity,
    /** Code that is being loaded, which virtual time waits for. Returned once. */
    takeLoading: (): Promise<unknown> | undefined => {
      const begun = loading;
      loading = undefined;
      return begun;
    },
    get alive() {
      return host?.alive === true;
    },
    get hostId() {
      return host!.id;
    },
    isDead: (agent: ActiveAgent) => dead.has(agent),
    /** Agents in memory now. */
    agents: (): ReadonlyArray<ActiveAgent> => {
      for (const agent of host!.agents) if (agent.discarded) host!.agents.delete(agent);
      return [...host!.agents];
    },
    request: (...args: Parameters<MemoryHttpServer["request"]>) => http.request(...args),
    /** Delivers a message without SMTP. Resolves to the answer that SMTP would give. */
    mail: async (message: IncomingMessage): Promise<MailAnswer> => {
      const handlers = mailModule(module, gateway.env);
      const unknown = message.to.find((address) => !handlers.mayKnow(address));
      if (unknown !== undefined) return UNKNOWN_RECIPIENT;
      const services = { module: () => handlers, transport: relay, time, log: options.log };
      return takeMessage(services, message);
    },
    connect: async (...args: Parameters<MemoryHttpServer["connect"]>) => {
      const result = await http.connect(...args);
      return result instanceof MemorySocket
        ? ({ _tag: "Open", socket: result } as const)
        : ({ _tag: "Refused", response: result } as const);
    },
    crash,
    /** Crashes at the next commit of the agent, or of any. Resolves when it has crashed. */
    crashAt: (point: CrashPoint, key: string | undefined): Promise<void> =>
      new Promise((resolve) => {
        const before = broker.intercept;
        const offStore = broker.journal.watch(({ id }) => {
          if (point !== "after commit" || (key !== undefined && addressKey(id) !== key)) return;
          over();
        });
        const over = (): void => {
          broker.intercept = before;
          offStore();
          crash();
          resolve();
        };
        if (point === "before commit")
          broker.intercept = (operation) => {
            const wanted = operation.kind === "append" && operation.connection === host!.id;
            if (wanted && (key === undefined || operation.key === key)) over();
            return before?.(operation);
          };
      }),
    /** Expires the lost host's leases and starts the next host. Moves time as needed. */
    revive: async (): Promise<void> => {
      broker.leases.expire(host!.id);
      await startHost();
    },
    /** Stops the gateway, then the host. Moves time as needed. */
    close: async (): Promise<void> => {
      let closed = false;
      const all = (async () => {
        await closeScope(scope);
        if (host?.alive === true) await closeScope(host.scope);
      })().finally(() => (closed = true));
      while (!closed) await time.advance(DRAIN_TIMEOUT_MS);
      await all;
      reading.close();
    },
  };
}

/** A call client that counts its unanswered calls. */
class CountingCalls extends CallClient {
  calling = 0;

  override async call(...args: Parameters<CallClient["call"]>): Promise<CallResult> {
    this.calling++;
    try {
      return await super.call(...args);
    } finally {
      this.calling--;
    }
  }
}

export type MemoryInstallation = Awaited<ReturnType<typeof joinMemory>>;
