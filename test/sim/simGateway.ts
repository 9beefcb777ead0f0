/** A gateway of a simulation: the real `Gateway` on simulated ports. Its death cuts all. */
import { Effect, Exit, Scope } from "effect";
import { CallClient } from "../../core/call/CallClient.ts";
import type { HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import type { Verifier, WebhookRequest } from "../../core/webhook/WebhookRoute.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { Access } from "../../services/gateway/Access.ts";
import { Gateway } from "../../services/gateway/Gateway.ts";
import { SocketKeeper } from "../../services/gateway/SocketKeeper.ts";
import { gatedCalls } from "../../services/node/gatedCalls.ts";
import { GATEWAY_BOUNDS_DEFAULT } from "../../services/gateway/GatewayConfig.ts";
import type { GatewayServices } from "../../services/gateway/GatewayServices.ts";
import { MemoryHttpServer } from "../../services/memory/MemoryHttpServer.ts";
import { MemorySocket, type MemoryPeer } from "../../services/memory/MemorySocket.ts";
import { bindEnv } from "../../services/module/bindEnv.ts";
import { body, github, webhook } from "../../services/webhooks/index.ts";
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import { openMail, type TakeMail } from "./simMail.ts";
import { simPorts, type SimPorts } from "./simPorts.ts";
import { never, SimProcess } from "./rig/SimProcess.ts";

export const SECRET = "the simulation's";
/** Shorter than a take-over, so that some are answered 202. */
const DEADLINE_MS = 1_200;
/** Part of the runs whose gateways store every webhook first. */
const STORE_FIRST = 0.25;
const CLASSES = ["Ledger", "Board", "Marcher", "Caller", "Payer", "Tape", "Asker"];
/** Callers that wait longer have given up. */
const REQUEST_DEADLINE_MS = 8_000;

export interface SimGateway {
  readonly process: SimProcess;
  readonly ports: SimPorts;
  /** Never resolves when the gateway dies first. */
  readonly request: (request: HttpRequest, body: Uint8Array) => Promise<HttpResponse>;
  readonly connect: (
    request: HttpRequest,
    peer: MemoryPeer,
  ) => Promise<MemorySocket | HttpResponse>;
  readonly mail: TakeMail;
  readonly stop: () => Promise<void>;
}

export function startGateway(installation: Installation, name: string): SimGateway {
  const { broker, weather, seed, time: base } = installation;
  const process = new SimProcess({
    name,
    seed,
    base,
    delayed: weather.rates.delayed,
    onPoint: () => undefined,
  });
  const ports = simPorts(installation, process);
  const calls = new CallClient({
    bus: ports.bus,
    blobs: ports.blobs,
    time: process.time,
    subjects: broker.subjects,
    shards: broker.shards,
  });
  const give = calls.give.bind(calls);
  calls.give = async (id, head, input) => {
    const { offers } = installation.observed;
    const offer = offers.get(head.key) ?? { all: 0, ended: 0 };
    offers.set(head.key, offer);
    offer.all++;
    const result = await give(id, head, input);
    if (result?.reply.kind !== "stored" && result?.reply.kind !== "notHere") offer.ended++;
    return result;
  };
  const log = installation.logOf(process);
  const github_ = github({ secret: "SECRET" });
  const verify = weather.bug?.verifiesNothing === true ? trusting(github_) : github_;
  const routes = new RouteTable(
    CLASSES.map((agent) =>
      webhook(`/hooks/${agent}`, { agent, verify, entity: body("agent"), deadlineMs: DEADLINE_MS }),
    ),
  );
  const config = {
    gatewayId: name,
    subjects: broker.subjects,
    shards: broker.shards,
    ...GATEWAY_BOUNDS_DEFAULT,
    storeFirst: new Random(seed, "storeFirst").chance(STORE_FIRST),
    requestDeadlineMs: REQUEST_DEADLINE_MS,
    publicUrl: "http://sim.example",
  };
  const { bus, leases } = ports;
  const sockets = new SocketKeeper({ config, calls, bus, leases, log, time: process.time });
  const env = bindEnv({ SECRET }, CLASSES, () => gatedCalls(calls, sockets));
  // Its clients write to the classes that webhooks write to: all are open.
  const module = () => ({ routes, env, signed: new Set<string>() });
  const services: GatewayServices = {
    config,
    sockets,
    module,
    access: new Access({ config, module, log }),
    calls,
    metrics: agentMetrics(noMetrics),
    inbox: ports.inbox,
    unfinished: new UnfinishedWork(process.time, log),
    leases,
    blobs: ports.blobs,
    bus,
    time: process.time,
    log,
  };
  const scope = Effect.runSync(Scope.make());
  const server = new MemoryHttpServer();
  const serve = Effect.gen(function* () {
    const gateway = yield* Gateway.make(services);
    yield* server.listen({ port: 0 } as never, gateway.handlers);
  });
  void Effect.runPromise(serve.pipe(Scope.provide(scope)));
  const peers = new Set<MemoryPeer>();
  process.onDeath(() => {
    for (const peer of peers) base.after(0, () => peer.onClose(VANISHED, ""));
  });
  const alive = <A>(promise: Promise<A>): Promise<A> =>
    new Promise((resolve, reject) => {
      promise.then(
        (value) => process.alive && resolve(value),
        (error: unknown) => process.alive && reject(error as Error),
      );
    });
  return {
    process,
    ports,
    request: (request, data) => (process.alive ? alive(server.request(request, data)) : never()),
    connect: (request, peer) => {
      if (!process.alive) return never();
      // After its gateway's death a client hears of the cut, and of nothing else.
      const guarded: MemoryPeer = {
        onMessage: (data) => process.alive && peer.onMessage(data),
        onClose: (...how) => process.alive && peer.onClose(...how),
      };
      peers.add(peer);
      return alive(server.connect(request, guarded));
    },
    mail: openMail(installation, process, { inbox: ports.inbox, log: services.log }),
    stop: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  };
}

/** RFC 6455, 7.4.1: no close frame came. */
const VANISHED = 1006;

/** A planted bug: whoever asks is who they say. */
const trusting = (verifier: Verifier): Verifier => ({
  ...verifier,
  verify: ({ headers }: WebhookRequest) => ({
    _tag: "Verified",
    dedupId: headers["x-github-delivery"]?.[0] ?? "none",
  }),
});
