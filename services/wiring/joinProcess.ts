/**
 * Joins a serving process with its adapters: the broker (`joinBroker`), the ports over it, then a
 * gateway, a host, or both in one process (`dev`), or the mail listener. `main.ts` passes
 * `startProcess` to the commands.
 */
import { chmodSync, mkdirSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import { messageOf } from "../../core/errors/thrown.ts";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Databases } from "../../core/database/Databases.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { Outgoing } from "../../core/outgoing/Outgoing.ts";
import { processTargets } from "../../core/runtime/ProcessTargets.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { Leases } from "../../core/lease/Leases.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { Time } from "../../core/time/Time.ts";
import { Ambient } from "../../core/turn/Ambient.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { agentId } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { layer as cronLayer } from "../cronParser/CronParser.ts";
import { runGateway } from "../gateway/runGateway.ts";
import { LateSockets, ownSockets } from "../gateway/SocketKeeper.ts";
import { runHost, runIsolated, type RunHostOptions } from "../host/runHost.ts";
import { layer as mcpLayer } from "../mcp/McpClientsLayer.ts";
import { bindEnv } from "../module/bindEnv.ts";
import { gatewayModule } from "../module/gatewayModule.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { mailModule } from "../module/mailModule.ts";
import { describeDurability } from "../nats/setup/durability.ts";
import { Nats } from "../nats/client/Nats.ts";
import { natsLayer } from "../nats/natsLayer.ts";
import { DataFolderInUse, lockDataFolder } from "../lock/DataFolderLock.ts";
import type { FileLock } from "../lock/FileLock.ts";
import { asyncAmbient, asyncAmbientLayer, callDepth, callingAgent } from "../node/AsyncAmbient.ts";
import { effectLogger } from "../node/effectLogger.ts";
import { gatedCalls } from "../node/gatedCalls.ts";
import { installGatedFetch } from "../node/gatedFetch.ts";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";
import { machineTime } from "../node/MachineTime.ts";
import { memoryDefault, memoryInUse, rssBytesMax } from "../node/memoryInUse.ts";
import { handleUnhandledErrors } from "../node/unhandledErrors.ts";
import { layer as outgoingLayer } from "../node/NodeOutgoing.ts";
import { sealedOutgoing } from "../node/sealProcess.ts";
import { httpServerLayer } from "./httpServerLayer.ts";
import { genericObservability } from "../observability/index.ts";
import { bindPlatform } from "../platform/bindPlatform.ts";
import { cachedAgents } from "../sqlite/cachedAgents.ts";
import { sqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import { Endings } from "../watchdog/Endings.ts";
import type { Stall } from "../watchdog/pausedCode.ts";
import { startWatchdog, type WatchdogOptions } from "../watchdog/startWatchdog.ts";
import { forgetErased } from "./forgetErased.ts";
import { gatewayBounds } from "./joinGateway.ts";
import { joinQueries } from "./joinQueries.ts";
import { natsOptions, preflight, provisionOptions } from "./joinNats.ts";
import { mailLayers, mailOfEnv, serveMail } from "./joinMail.ts";
import { serveRetention } from "./joinRetention.ts";
import { startTracing, traceProcess, type TraceCalls } from "./joinOtel.ts";
import type { OpenBroker, ProcessSettings, Role, RunningProcess } from "./Joins.ts";
import { openBroker } from "./joinBroker.ts";
import { readinessOf } from "./readiness.ts";

/**
 * Hosts on one data folder at a time. It guards against a loop that starts hosts: this many would
 * share a few cores.
 */
const HOSTS_PER_FOLDER_MAX = 256;

/** Rejects with a tagged error whose message is for people. */
export async function startProcess(
  settings: ProcessSettings,
  broker: Promise<OpenBroker> = openBroker(settings),
): Promise<RunningProcess> {
  const scope = Effect.runSync(Scope.make());
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void));
  try {
    const started = Effect.provide(start(settings, broker), effectLogger(settings.log));
    return { ...(await Effect.runPromise(Scope.provide(started, scope))), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const start = (settings: ProcessSettings, opening: Promise<OpenBroker>) =>
  Effect.gen(function* () {
    const broker = yield* Effect.acquireRelease(
      Effect.tryPromise({ try: () => opening, catch: (error) => error }),
      (opened) => Effect.promise(opened.stop),
    );
    // A file that an isolated agent's ended process left in this epoch would be taken for the
    // agent's last image.
    const keepsImages = runsAgents(settings.role) && settings.isolated === undefined;
    const own = keepsImages ? yield* hostFolder(settings.dataFolder) : undefined;
    const folder = own === undefined ? undefined : join(own, "images");
    const queries = own === undefined ? undefined : yield* serveQueries(settings, broker, own);
    const otel = yield* startTracing(settings);
    const stalls: StallSink = { tell: () => undefined };
    const ports = yield* Layer.build(portsLayer(settings, { natsUrl: broker.url, folder, stalls }));
    const context =
      settings.leases === undefined
        ? ports
        : Context.add(ports, Leases, settings.leases(Context.get(ports, Leases)));
    if (folder !== undefined) yield* Effect.provide(lookThrough(folder), context);
    const traced = traceProcess(context, otel);
    const joined = { broker, queries, stalls, traceCalls: traced.calls };
    return yield* Effect.provide(serveRoles(settings, joined), traced.context);
  });

/** Answers of this host to questions over all agents, whose view is in its folder. */
const serveQueries = (
  { namespace, natsLogin: login }: ProcessSettings,
  { url: natsUrl }: OpenBroker,
  folder: string,
) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      joinQueries(
        { target: { natsUrl, login, namespace }, folder: join(folder, "view") },
        machineTime,
      ),
    ),
    ({ stop }) => Effect.promise(stop),
  );

/** Removes files of agents that were erased while this host was away, in the background. */
const lookThrough = (folder: string) =>
  Effect.gen(function* () {
    const ports = {
      journal: yield* Journal,
      databases: yield* Databases,
      time: yield* Time,
      log: yield* Log,
    };
    const stopped = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (controller) => Effect.sync(() => controller.abort()),
    );
    const startMs = ports.time.nowMs();
    void forgetErased(ports, cachedAgents(folder, startMs), stopped.signal);
  });

/** Claims a folder for this host's local images: two hosts never share one. */
const hostFolder = (dataFolder: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async (): Promise<FileLock & { folder: string }> => {
        for (let n = 0; n < HOSTS_PER_FOLDER_MAX; n++) {
          const folder = join(dataFolder, "hosts", String(n));
          mkdirSync(folder, { recursive: true, mode: 0o700 });
          chmodSync(folder, 0o700); // an older release made it readable for all
          const lock = await lockDataFolder(folder).catch((error: unknown) => {
            if (error instanceof DataFolderInUse) return undefined;
            throw error;
          });
          if (lock !== undefined) return { ...lock, folder };
        }
        throw new Error(
          `${dataFolder}/hosts: ${HOSTS_PER_FOLDER_MAX} hosts already use it. Use another folder for this one (--data)`,
        );
      }),
      (lock) => Effect.sync(() => lock.release()),
    ),
    ({ folder }) => folder,
  );

/** The watchdog runs before the host does. */
interface StallSink {
  tell: (stall: Stall) => void;
}

const portsLayer = (
  settings: ProcessSettings,
  {
    natsUrl,
    folder,
    stalls,
  }: {
    readonly natsUrl: string;
    readonly folder: string | undefined;
    readonly stalls: StallSink;
  },
) => {
  const { namespace, natsLogin, role, log } = settings;
  return Layer.mergeAll(
    natsLayer({
      ...natsOptions({ natsUrl, login: natsLogin, namespace }, role),
      log,
      leaderOnly: role === "gateway" || role === "mail",
      provision: {
        ...provisionOptions(settings.provision),
        moveInbox: settings.natsUrl === undefined, // the broker is this process's own
      },
    }),
    sqliteDatabases({ folder }),
    settings.watchdog === undefined
      ? asyncAmbientLayer
      : watchedAmbient({
          ...settings.watchdog,
          rssBytesMax: rssBytesMax(settings.memory),
          onStall: (stall) => stalls.tell(stall),
        }),
    cronLayer,
    settings.sealed === undefined ? outgoingLayer : Layer.succeed(Outgoing, sealedOutgoing(log)),
    mcpLayer({ allowLoopback: role === "dev" || settings.mcpAllowLoopback === true, log }),
    mailLayers(settings),
    Layer.succeed(Time, machineTime),
    Layer.succeed(Log, log),
    httpServerLayer("auto", role === "gateway" || role === "dev" ? { log } : {}),
  );
};

/** The ambient context, with the watchdog that it feeds. */
const watchedAmbient = (options: WatchdogOptions) =>
  Layer.effect(
    Ambient,
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => startWatchdog(asyncAmbient, options)),
        ({ stop }) => Effect.promise(stop),
      ),
      ({ ambient }) => ambient,
    ),
  );

const runsAgents = (role: Role): boolean => role === "host" || role === "dev";

interface JoinedParts {
  readonly broker: OpenBroker;
  /** Undefined in a process that is not a host. */
  readonly queries: QueriesShape | undefined;
  readonly stalls: StallSink;
  readonly traceCalls: TraceCalls;
}

const serveRoles = (
  settings: ProcessSettings,
  { broker, queries, stalls, traceCalls }: JoinedParts,
) =>
  Effect.gen(function* () {
    const { role, log, namespace } = settings;
    const nats = yield* Nats;
    const { shards } = nats;
    const durability = yield* preflight(nats, {
      required: settings.requireDurable,
      own: settings.natsUrl === undefined,
      log,
      time: machineTime,
    });
    const { groupCommit } = settings;
    nats.groupCommit.on =
      groupCommit === "auto" ? durability()._tag === "Durable" : groupCommit === "on";
    const bus = yield* Bus;
    const subjects = new Subjects(namespace);
    const calls = new CallClient({
      bus,
      blobs: yield* Blobs,
      time: yield* Time,
      subjects,
      shards,
      caller: callingAgent,
      depth: callDepth,
    });
    // Runs after gateway and host have stopped, when no call needs the client any more.
    yield* Effect.addFinalizer(() => Effect.sync(() => calls.close()));
    const mailing = yield* mailOfEnv;
    const tracedCalls = traceCalls(calls);
    const id = `${role}-${hostname()}-${machineTime.id().slice(0, 8)}`;
    const sockets = new LateSockets();
    const client = () => stubs;
    const targets = yield* processTargets({ bus, subjects, time: machineTime, processId: id, client }); // prettier-ignore
    const stubs: StubCalls = gatedCalls(tracedCalls, sockets, targets);
    let code = codeOf(settings.module, settings, stubs, mailing, log);
    const metrics = agentMetrics(settings.metrics);
    metrics.durable(() => (durability()._tag === "Durable" ? 1 : 0));
    metrics.roundTrip(async () => (await nats.connection.roundTripMs()) / 1_000);
    if (settings.fetchClasses !== "platform") installLazyFetch();
    installGatedFetch();
    yield* Effect.acquireRelease(
      Effect.sync(() =>
        handleUnhandledErrors({ log, time: machineTime, onError: metrics.unhandledErrors }),
      ),
      (remove) => Effect.sync(remove),
    );
    const databaseBytes = (yield* Databases).memoryBytes;
    const hostOptions = (): RunHostOptions => ({
      hostId: id,
      subjects,
      shards,
      module: () => code.host,
      metrics,
      calls,
      observability: genericObservability,
      turnSeconds: settings.turnSeconds,
      ceilings: settings.ceilings,
      writeLimits: settings.writeLimits,
      requestLines: settings.requestLines,
      ...(settings.watchdog !== undefined && {
        endings: new Endings(settings.watchdog.endings),
      }),
      isolation: settings.isolation,
      queries,
      onStall: (tell) => {
        stalls.tell = ({ className, name, ms }) => tell(agentId(className, name), ms);
      },
      memoryInUse: memoryInUse({
        bytesMax:
          (settings.memory?.bytesMax ?? memoryDefault()) / (settings.memory?.processes ?? 1),
        databaseBytes,
      }),
    });
    const runsGateway = role === "gateway" || role === "dev";
    if (!runsGateway) sockets.set(yield* ownSockets({ gatewayId: id, subjects, shards }, calls));
    if (settings.isolated !== undefined) yield* runIsolated(hostOptions(), settings.isolated);
    const runsHost = runsAgents(role) && settings.isolated === undefined;
    const host = runsHost ? yield* runHost(hostOptions()) : undefined;
    const gateway = !runsGateway
      ? undefined
      : yield* runGateway({
          gatewayId: id,
          subjects,
          shards,
          hostname: settings.hostname,
          port: settings.port,
          ...(settings.publicUrl === undefined ? {} : { publicUrl: settings.publicUrl }),
          access: { ...settings.access, dev: role === "dev" },
          ...gatewayBounds(settings.limits, settings.portShared ?? false),
          requestLines: settings.requestLines,
          module: () => code.gateway,
          calls,
          sockets,
          metrics,
        });
    if (gateway !== undefined) log.debug("gateway listens", { server: gateway.server });
    const seesShards = host ?? gateway?.gateway;
    if (seesShards !== undefined) metrics.shardsWithoutHost(() => seesShards.shardsUnowned);
    const smtpPort = yield* serveMail(settings, () => code.mail);
    const retention = yield* serveRetention(settings, id, () => code.host.agents);
    return {
      id,
      port: gateway?.port,
      smtpPort,
      natsUrl: broker.url,
      natsSummary: broker.summary,
      readiness: () =>
        readinessOf({
          connected: bus.connected(),
          host,
          gateway: gateway?.gateway,
          shards,
          leaseTtlMs: nats.leaseTtlMs,
          durability: describeDurability(durability()),
          retention: retention?.state,
        }),
      reload: async (module: LoadedModule) => {
        code = codeOf(module, settings, stubs, mailing, log);
        settings.isolation?.newCode();
        await host?.recycle();
      },
      // A process that can't go on exits through its own defects, so this never rejects.
      failed: new Promise<never>(() => undefined),
    };
  });

/** What gateway, host and mail use of a module. */
function codeOf(
  module: LoadedModule,
  { env: variables, sealed }: Pick<ProcessSettings, "env" | "sealed">,
  stubs: StubCalls,
  mailing: Effect.Success<typeof mailOfEnv>,
  log: LogShape,
) {
  const env = bindEnv(variables, module.agents, () => stubs, mailing, module.wrangler);
  bindPlatform(module, env, (error) =>
    log.error("a waitUntil promise rejected", { error: messageOf(error) }),
  );
  return {
    // The mark on a class shows that it is a subclass of `Agent`: `readModule` has checked it.
    host: {
      agents: module.agents as ReadonlyMap<string, AgentClassType>,
      env,
      version: module.version,
      recorded: sealed,
    },
    gateway: gatewayModule(module, env),
    mail: mailModule(module, env),
  };
}
