/**
 * Joins the processes of an installation in memory, its gateway and its hosts. The parts are those
 * of `agents dev`; only the adapters differ. `joinMemory` starts and crashes them.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import type { CallResult } from "../../core/call/RepeatedCall.ts";
import { HttpServer } from "../../core/http/HttpServer.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import { MailTransport, type MailTransportShape } from "../../core/mail/MailTransport.ts";
import { McpClients, type McpClientsShape } from "../../core/mcp/McpClients.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { ProcessTargets } from "../../core/runtime/ProcessTargets.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { callDepth } from "../node/AsyncAmbient.ts";
import { layer as cronLayer } from "../cronParser/CronParser.ts";
import { runGateway } from "../gateway/runGateway.ts";
import { LateSockets, ownSockets } from "../gateway/SocketKeeper.ts";
import { runHost } from "../host/runHost.ts";
import type { MemoryBroker } from "../memory/MemoryBroker.ts";
import type { MemoryConnection } from "../memory/MemoryConnection.ts";
import type { MemoryHttpServer } from "../memory/MemoryHttpServer.ts";
import { memoryLayer } from "../memory/memoryLayer.ts";
import type { VirtualTime } from "../memory/VirtualTime.ts";
import { bindEnv } from "../module/bindEnv.ts";
import { gatewayModule } from "../module/gatewayModule.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { gatedDrop, gatedTransport } from "../node/gatedMail.ts";
import { gatedCalls } from "../node/gatedCalls.ts";
import { genericObservability } from "../observability/index.ts";
import { sqliteDatabases } from "../sqlite/sqliteDatabases.ts";

/** One suffices, because shards only divide agents among hosts. */
export const SHARDS = 1;
/** Sweeps are rare, so that a month of virtual time passes quickly. */
const SWEEP_MS = 30_000;
/** How long a stopping host waits for its turns. */
export const DRAIN_TIMEOUT_MS = 1_000;

export const GATEWAY = "gateway";

const METRICS = agentMetrics(noMetrics);

/** What the processes have in common. */
export interface ProcessParts {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, unknown>>;
  readonly publicUrl: string;
  readonly log: LogShape;
  /** As in `HostModule`. */
  readonly recorded: RecordedSteps | undefined;
  readonly time: VirtualTime;
  readonly broker: MemoryBroker;
  readonly http: MemoryHttpServer;
  readonly mcp: McpClientsShape;
  readonly outgoing: OutgoingShape;
  readonly relay: MailTransportShape;
}

/** Runs a process over its connection, until the scope closes. */
export async function runProcess<A, E>(
  process: Effect.Effect<A, E, Ports | Scope.Scope>,
  parts: ProcessParts,
  own: {
    readonly connection: MemoryConnection;
    readonly ambient: AmbientShape;
    readonly scope: Scope.Scope;
  },
): Promise<A> {
  const layer = Layer.buildWithScope(portsOf(parts, own.connection, own.ambient), own.scope);
  const context = await Effect.runPromise(layer);
  return Effect.runPromise(process.pipe(Effect.provide(context), Scope.provide(own.scope)));
}

const portsOf = (parts: ProcessParts, connection: MemoryConnection, ambient: AmbientShape) =>
  Layer.mergeAll(
    memoryLayer(connection),
    sqliteDatabases({ folder: undefined }),
    Layer.succeed(Ambient, ambient),
    cronLayer,
    Layer.succeed(Outgoing, parts.outgoing),
    Layer.succeed(McpClients, parts.mcp),
    Layer.succeed(MailTransport, parts.relay),
    Layer.succeed(Log, parts.log),
    Layer.succeed(HttpServer, parts.http),
  );

type Ports = Layer.Success<ReturnType<typeof portsOf>>;

export const memoryGateway = (parts: ProcessParts) =>
  Effect.gen(function* () {
    const { module, time } = parts;
    const { subjects } = parts.broker;
    const calls = yield* callsOf(parts);
    const sockets = new LateSockets();
    const bus = yield* Bus;
    const targets = new ProcessTargets({ bus, subjects, time, processId: GATEWAY, client: () => gated }); // prettier-ignore
    const gated: StubCalls = gatedCalls(calls, sockets, targets);
    const env = bindEnv(parts.env, module.agents, () => gated, yield* mailing(parts));
    const code = gatewayModule(module, env);
    yield* runGateway({
      gatewayId: GATEWAY,
      subjects,
      shards: SHARDS,
      // With this address, the gateway answers to every host name. No socket is opened.
      hostname: "0.0.0.0",
      port: 0,
      publicUrl: parts.publicUrl,
      module: () => code,
      calls,
      sockets,
      metrics: METRICS,
    });
    return { env, calls };
  });

export const memoryHost = (parts: ProcessParts, id: string, queries: QueriesShape | undefined) =>
  Effect.gen(function* () {
    const { module } = parts;
    const { subjects } = parts.broker;
    const calls = yield* callsOf(parts);
    const sockets = yield* ownSockets({ gatewayId: id, subjects, shards: SHARDS }, calls);
    const gated = gatedCalls(calls, sockets);
    const env = bindEnv(parts.env, module.agents, () => gated, yield* mailing(parts));
    return yield* runHost({
      hostId: id,
      subjects,
      shards: SHARDS,
      module: () => ({
        // `readModule` has checked that these are agent classes.
        agents: module.agents as ReadonlyMap<string, AgentClassType>,
        env,
        recorded: parts.recorded,
      }),
      metrics: METRICS,
      calls,
      observability: genericObservability,
      drainTimeoutMs: DRAIN_TIMEOUT_MS,
      sweepMs: SWEEP_MS,
      queries,
    });
  });

const callsOf = ({ time, broker: { subjects } }: ProcessParts) =>
  Effect.gen(function* () {
    const [bus, blobs] = [yield* Bus, yield* Blobs];
    return new CountingCalls({ bus, blobs, time, subjects, shards: SHARDS, depth: callDepth });
  });

const mailing = ({ time, relay }: ProcessParts) =>
  Effect.gen(function* () {
    return {
      drop: gatedDrop(makeMailDrop({ inbox: yield* Inbox, time })),
      binding: new EmailBinding(gatedTransport(relay), time),
    };
  });

/** A call client that counts its unanswered calls. */
export class CountingCalls extends CallClient {
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
