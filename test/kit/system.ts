/** A whole system in the test's process: each host and gateway with a connection and scope. */
import { Effect, Exit, Layer, Scope } from "effect";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { DeadLetters } from "../../core/dead/DeadLetters.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { Leases } from "../../core/lease/Leases.ts";
import { Quarantines } from "../../core/quarantine/Quarantines.ts";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import { Snapshots } from "../../core/journal/Snapshots.ts";
import { Time } from "../../core/time/Time.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { PrometheusMetrics } from "../../services/admin/PrometheusMetrics.ts";
import type { GatewayModule } from "../../services/gateway/GatewayServices.ts";
import { runGateway, type RunGatewayOptions } from "../../services/gateway/runGateway.ts";
import { LateSockets, ownSockets } from "../../services/gateway/SocketKeeper.ts";
import { runHost } from "../../services/host/runHost.ts";
import { layer as mcpLayer } from "../../services/mcp/McpClientsLayer.ts";
import { gatewayModule } from "../../services/module/gatewayModule.ts";
import { bindEnv } from "../../services/module/bindEnv.ts";
import { Nats } from "../../services/nats/client/Nats.ts";
import { natsLayer } from "../../services/nats/natsLayer.ts";
import { asyncAmbientLayer, callDepth, callingAgent } from "../../services/node/AsyncAmbient.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import { ProcessTargets } from "../../core/runtime/ProcessTargets.ts";
import { gatedCalls } from "../../services/node/gatedCalls.ts";
import { layer as outgoingLayer } from "../../services/node/NodeOutgoing.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { httpServerLayer, type HttpServerChoice } from "../../services/wiring/httpServerLayer.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { genericObservability } from "../../services/observability/index.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

// The rows of the interface hold with either classes (CONTRIBUTING.md); production's are lazy.
if (process.env["AGENTS_FETCH_CLASSES"] === "lazy") installLazyFetch();

export interface TestModule {
  readonly agents: Readonly<Record<string, AgentClassType>>;
  readonly webhooks?: ReadonlyArray<WebhookRoute>;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly fetch?: NonNullable<GatewayModule["fetch"]>;
  readonly allowedOrigins?: ReadonlyArray<string>;
  readonly version?: string;
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: unknown;
}

/** Collects lines; `AGENTS_TEST_LOG=1` prints them too. */
export function collectingLog(lines: LogLine[] = []): LogShape & { readonly lines: LogLine[] } {
  const at = (level: string) => (message: string, fields?: unknown) => {
    lines.push({ level, message, fields });
    if (process.env["AGENTS_TEST_LOG"]) console.error(level, message, fields ?? "");
  };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export interface SystemOptions {
  readonly nats: string;
  readonly module: TestModule;
  readonly namespace?: string;
  readonly shards?: number;
  readonly streamGroups?: number;
  readonly leaseTtlMs?: number;
  readonly http?: HttpServerChoice;
  readonly gateway?: RunGatewayOptions["bounds"];
  readonly access?: RunGatewayOptions["access"];
  readonly requestLines?: RequestLines;
  /** As in `agents dev`: gateway and host know each other. */
  readonly together?: boolean;
  /** As in `agents dev`, unless said otherwise: tests have their MCP servers here. */
  readonly mcpAllowLoopback?: boolean;
}

/** One process's worth of layers, open until `close`. */
async function openPorts(options: SystemOptions, folder: string | undefined, log: LogShape) {
  const scope = await Effect.runPromise(Scope.make());
  const layer = Layer.mergeAll(
    natsLayer({
      servers: options.nats,
      name: "test",
      log,
      ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
      provision: {
        ...(options.shards === undefined ? {} : { shards: options.shards }),
        ...(options.streamGroups === undefined ? {} : { streamGroups: options.streamGroups }),
        ...(options.leaseTtlMs === undefined ? {} : { leaseTtlMs: options.leaseTtlMs }),
      },
    }),
    sqliteDatabases({ folder }),
    asyncAmbientLayer,
    cronLayer,
    outgoingLayer,
    mcpLayer({ allowLoopback: options.mcpAllowLoopback ?? true, log }),
    Layer.succeed(Time, machineTime),
    Layer.succeed(Log, log),
    httpServerLayer(options.http ?? "auto"),
  );
  const context = await Effect.runPromise(Layer.buildWithScope(layer, scope));
  const metrics = new PrometheusMetrics();
  return {
    scope,
    context,
    metrics,
    close: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  };
}

type Opened = Awaited<ReturnType<typeof openPorts>>;

function callClient(opened: Opened, subjects: Subjects, shards: number): Promise<CallClient> {
  return Effect.runPromise(
    Effect.gen(function* () {
      return new CallClient({
        bus: yield* Bus,
        blobs: yield* Blobs,
        time: yield* Time,
        subjects,
        shards,
        caller: callingAgent,
        depth: callDepth,
      });
    }).pipe(Effect.provide(opened.context)),
  );
}

export async function startTestHost(
  options: SystemOptions,
  hostId: string,
  folder?: string,
  shared?: CallClient,
) {
  const log = collectingLog();
  const opened = await openPorts(options, folder, log);
  const nats = await Effect.runPromise(Effect.provide(Nats, opened.context));
  const subjects = new Subjects(options.namespace);
  const calls = shared ?? (await callClient(opened, subjects, nats.shards));
  const agents = new Map(Object.entries(options.module.agents));
  const sockets = await Effect.runPromise(
    ownSockets({ gatewayId: hostId, subjects, shards: nats.shards }, calls).pipe(
      Effect.provide(opened.context),
      Effect.provideService(Scope.Scope, opened.scope),
    ),
  );
  const gated = gatedCalls(calls, sockets);
  const env = bindEnv(options.module.env ?? {}, agents, () => gated);
  const host = await Effect.runPromise(
    runHost({
      hostId,
      subjects,
      shards: nats.shards,
      module: () => ({ agents, env, version: options.module.version }),
      metrics: agentMetrics(opened.metrics),
      calls,
      observability: genericObservability,
      requestLines: options.requestLines,
    }).pipe(Effect.provide(opened.context), Effect.provideService(Scope.Scope, opened.scope)),
  );
  return { host, log, metrics: opened.metrics, stop: opened.close };
}

export async function startTestGateway(options: SystemOptions, gatewayId: string) {
  const log = collectingLog();
  const opened = await openPorts(options, undefined, log);
  const nats = await Effect.runPromise(Effect.provide(Nats, opened.context));
  const subjects = new Subjects(options.namespace);
  const calls = await callClient(opened, subjects, nats.shards);
  const { agents: classes, webhooks = [], version: _version, ...rest } = options.module;
  const agents = new Map(Object.entries(classes));
  const sockets = new LateSockets();
  const bus = await Effect.runPromise(Effect.provide(Bus, opened.context));
  const targets = new ProcessTargets({ bus, subjects, time: machineTime, processId: gatewayId, client: () => gated }); // prettier-ignore
  const gated: StubCalls = gatedCalls(calls, sockets, targets);
  const env = bindEnv(options.module.env ?? {}, agents, () => gated);
  const code = gatewayModule({ ...rest, agents, webhooks }, env);
  const gateway = await Effect.runPromise(
    runGateway({
      gatewayId,
      subjects,
      shards: nats.shards,
      hostname: "127.0.0.1",
      port: 0,
      module: () => code,
      calls,
      sockets,
      metrics: agentMetrics(opened.metrics),
      ...(options.gateway === undefined ? {} : { bounds: options.gateway }),
      ...(options.access === undefined ? {} : { access: options.access }),
      requestLines: options.requestLines,
    }).pipe(Effect.provide(opened.context), Effect.provideService(Scope.Scope, opened.scope)),
  );
  return {
    ...gateway,
    calls,
    env,
    url: `http://127.0.0.1:${gateway.port}`,
    log,
    metrics: opened.metrics,
    stop: opened.close,
  };
}

/** Ports for looking at what is stored. */
export async function openInspector(options: SystemOptions) {
  const opened = await openPorts(options, undefined, collectingLog());
  const journal = await Effect.runPromise(Effect.provide(Journal, opened.context));
  const snapshots = await Effect.runPromise(Effect.provide(Snapshots, opened.context));
  const inbox = await Effect.runPromise(Effect.provide(Inbox, opened.context));
  const leases = await Effect.runPromise(Effect.provide(Leases, opened.context));
  const deadLetters = await Effect.runPromise(Effect.provide(DeadLetters, opened.context));
  const quarantines = await Effect.runPromise(Effect.provide(Quarantines, opened.context));
  return { journal, snapshots, inbox, leases, deadLetters, quarantines, close: opened.close };
}

/** One gateway and one host. */
export async function startSystem(options: SystemOptions & { readonly folder?: string }) {
  const { folder, together } = options;
  const first = together ? undefined : await startTestHost(options, "host-a", folder);
  const gateway = await startTestGateway(options, "gateway-a");
  const host = first ?? (await startTestHost(options, "host-a", folder, gateway.calls));
  return {
    host,
    gateway,
    url: gateway.url,
    stop: async () => {
      await gateway.stop();
      await host.stop();
    },
  };
}
