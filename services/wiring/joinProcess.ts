/**
 * Joins a serving process with its adapters: the broker (`joinBroker`), the ports over it, then a
 * gateway, a host, or both in one process (`dev`), or the mail listener. `main.ts` passes
 * `startProcess` to the commands.
 */
import { hostname } from "node:os";
import { join } from "node:path";
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Databases, type DatabasesShape } from "../../core/database/Databases.ts";
import { processTargets } from "../../core/runtime/ProcessTargets.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { Leases } from "../../core/lease/Leases.ts";
import type { LeaseFailure } from "../../core/lease/OwnLease.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import { agentMetrics, type AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { Time } from "../../core/time/Time.ts";
import { agentId } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { runGateway } from "../gateway/runGateway.ts";
import { LateSockets, ownSockets } from "../gateway/SocketKeeper.ts";
import { runHost, runIsolated, type RunHostOptions } from "../host/runHost.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { describeDurability, type Durability } from "../nats/setup/durability.ts";
import { Nats, type NatsShape } from "../nats/client/Nats.ts";
import { checkSubscriptions } from "../nats/client/WaitingWrites.ts";
import { callDepth, callingAgent } from "../node/AsyncAmbient.ts";
import { effectLogger } from "../node/effectLogger.ts";
import { gatedCalls } from "../node/gatedCalls.ts";
import { installGatedFetch } from "../node/gatedFetch.ts";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";
import { machineTime } from "../node/MachineTime.ts";
import { memoryDefault, memoryInUse } from "../node/memoryInUse.ts";
import { handleUnhandledErrors } from "../node/unhandledErrors.ts";
import { genericObservability } from "../observability/index.ts";
import { Endings } from "../watchdog/Endings.ts";
import { gatewayBounds } from "./joinGateway.ts";
import { preflight } from "./joinNats.ts";
import { checkClock } from "../nats/checkClock.ts";
import { mailOfEnv, serveMail } from "./joinMail.ts";
import { serveRetention } from "./joinRetention.ts";
import { startTracing, traceProcess, type TraceCalls } from "./joinOtel.ts";
import type { OpenBroker, RunningProcess } from "./Joins.ts";
import type { ProcessSettings, Role } from "./ProcessSettings.ts";
import { openBroker } from "./joinBroker.ts";
import { openScoped } from "./openScoped.ts";
import { readinessOf, type Unstored } from "./readiness.ts";
import { codeOf } from "./codeOf.ts";
import { hostFolder, lookThrough, serveQueries } from "./joinHostFolder.ts";
import { portsLayer, type StallSink } from "./joinPorts.ts";

/**
 * Rejects with a tagged error whose message is for people, and when `signal` ends the start. What
 * was started is then stopped in order.
 */
export async function startProcess(
  settings: ProcessSettings,
  broker: Promise<OpenBroker> = openBroker(settings),
  signal?: AbortSignal,
): Promise<RunningProcess> {
  const starting = Effect.provide(start(settings, broker), effectLogger(settings.log));
  const { opened, close } = await openScoped(starting, signal);
  return { ...opened, stop: close };
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
    if (own !== undefined && folder !== undefined)
      yield* Effect.provide(lookThrough({ own, images: folder }), context);
    const traced = traceProcess(context, otel);
    const joined = { broker, queries, stalls, traceCalls: traced.calls };
    return yield* Effect.provide(serveRoles(settings, joined), traced.context);
  });

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
    // Retention uses the broker's clock where this one is wrong.
    if (role !== "retention") yield* checkClock(nats, machineTime);
    const durability = yield* checkDurability(nats, settings);
    const id = `${role}-${hostname()}-${machineTime.id().slice(0, 8)}`;
    const { bus, subjects, calls, sockets, stubs } = yield* openCalls(namespace, id, traceCalls);
    const mailing = yield* mailOfEnv;
    let code = codeOf(settings.module, settings, stubs, mailing, log);
    const metrics = agentMetrics(settings.metrics);
    yield* prepareRuntime(settings, metrics);
    const shared: Shared = { id, subjects, shards, metrics, calls };
    const databases = yield* Databases;
    const hostOptions = (): RunHostOptions => ({
      ...hostSettings(settings, shared, databases),
      module: () => code.host,
      queries,
      onStall: (tell) => {
        stalls.tell = ({ className, name, ms }) => tell(agentId(className, name), ms);
      },
    });
    const runsGateway = role === "gateway" || role === "dev";
    if (!runsGateway) sockets.set(yield* ownSockets({ gatewayId: id, subjects, shards }, calls));
    if (settings.isolated !== undefined) yield* runIsolated(hostOptions(), settings.isolated);
    const runsHost = runsAgents(role) && settings.isolated === undefined;
    const host = runsHost ? yield* runHost(hostOptions()) : undefined;
    const gateway = !runsGateway
      ? undefined
      : yield* runGateway({
          ...gatewaySettings(settings, shared),
          module: () => code.gateway,
          sockets,
        });
    if (gateway !== undefined) log.debug("gateway listens", { server: gateway.server });
    const seesShards = host ?? gateway?.gateway;
    const unstored = () => longestUnstored(nats, seesShards?.leaseFailure);
    measure(metrics, { nats, durability, seesShards, unstored });
    yield* Effect.tryPromise({
      try: () => checkSubscriptions(nats.connection, nats.waitingWrites),
      catch: (error) => error,
    });
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
          unstored: unstored(),
          refusal: nats.waitingWrites.refusal,
          shards,
          leaseTtlMs: nats.leaseTtlMs,
          durability: describeDurability(durability()),
          retention: retention?.state,
        }),
      reload: async (module: LoadedModule, env: ProcessSettings["env"]) => {
        code = codeOf(module, { ...settings, env }, stubs, mailing, log);
        settings.isolation?.newCode();
        await host?.recycle();
      },
    };
  });

/** Returns how durable the streams are. That decides about the group commit "auto". */
const checkDurability = (nats: NatsShape, settings: ProcessSettings) =>
  Effect.gen(function* () {
    const durability = yield* preflight(nats, {
      required: settings.requireDurable,
      own: settings.natsUrl === undefined,
      log: settings.log,
      time: machineTime,
    });
    const { groupCommit } = settings;
    nats.groupCommit.on =
      groupCommit === "auto" ? durability()._tag === "Durable" : groupCommit === "on";
    return durability;
  });

/** What the process knows of its broker and of shards, as metrics. */
function measure(
  metrics: AgentMetrics,
  process: {
    readonly nats: NatsShape;
    readonly durability: () => Durability;
    readonly seesShards: { readonly shardsUnowned: number } | undefined;
    readonly unstored: () => Unstored | undefined;
  },
): void {
  const { nats, durability, seesShards, unstored } = process;
  metrics.durable(() => (durability()._tag === "Durable" ? 1 : 0));
  metrics.roundTrip(async () => (await nats.connection.roundTripMs()) / 1_000);
  if (seesShards === undefined) return;
  metrics.shardsWithoutHost(() => seesShards.shardsUnowned);
  metrics.unstored(() => (unstored()?.forMs ?? 0) / 1_000);
}

/** What the process and its code call agents with. */
const openCalls = (namespace: string, processId: string, traceCalls: TraceCalls) =>
  Effect.gen(function* () {
    const bus = yield* Bus;
    const { shards } = yield* Nats;
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
    const sockets = new LateSockets();
    const client = () => stubs;
    const targets = yield* processTargets({ bus, subjects, time: machineTime, processId, client });
    const stubs: StubCalls = gatedCalls(traceCalls(calls), sockets, targets);
    return { bus, subjects, calls, sockets, stubs };
  });

/** Installs what the code of agents and modules finds in the process. */
const prepareRuntime = (
  { fetchClasses, log }: Pick<ProcessSettings, "fetchClasses" | "log">,
  { unhandledErrors: onError }: AgentMetrics,
) => {
  if (fetchClasses !== "platform") installLazyFetch();
  installGatedFetch();
  return Effect.acquireRelease(
    Effect.sync(() => handleUnhandledErrors({ log, time: machineTime, onError })),
    (remove) => Effect.sync(remove),
  );
};

/** `lease`: of the process's own lease. */
function longestUnstored(
  { waitingWrites }: Pick<NatsShape, "waitingWrites">,
  lease: LeaseFailure | undefined,
): Unstored | undefined {
  const nowMs = machineTime.monotonicMs();
  const all = waitingWrites.all.map(({ sinceMs, ...rest }) => ({
    forMs: nowMs - sinceMs,
    ...rest,
  }));
  if (lease !== undefined) all.push({ what: "stored this process's lease", ...lease });
  return all.toSorted((a, b) => b.forMs - a.forMs)[0];
}

/** What a process's host and gateway have in common. */
interface Shared {
  readonly id: string;
  readonly subjects: Subjects;
  readonly shards: number;
  readonly metrics: AgentMetrics;
  readonly calls: CallClient;
}

const hostSettings = (
  settings: ProcessSettings,
  { id: hostId, ...shared }: Shared,
  databases: Pick<DatabasesShape, "memoryBytes" | "unusedBytes">,
) => ({
  hostId,
  ...shared,
  observability: genericObservability,
  turnSeconds: settings.turnSeconds,
  ceilings: settings.ceilings,
  writeLimits: settings.writeLimits,
  requestLines: settings.requestLines,
  ...(settings.watchdog !== undefined && { endings: new Endings(settings.watchdog.endings) }),
  isolation: settings.isolation,
  memoryInUse: memoryInUse({
    bytesMax: (settings.memory?.bytesMax ?? memoryDefault()) / (settings.memory?.processes ?? 1),
    databases,
  }),
});

const gatewaySettings = (settings: ProcessSettings, { id: gatewayId, ...shared }: Shared) => ({
  gatewayId,
  ...shared,
  hostname: settings.hostname,
  port: settings.port,
  publicUrl: settings.publicUrl,
  access: { ...settings.access, dev: settings.role === "dev" },
  ...gatewayBounds(settings),
  requestLines: settings.requestLines,
});
