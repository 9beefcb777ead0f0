/** A host's services on a real broker without shards and leases: for benches of one agent. */
import { Effect, Exit, Layer, Scope } from "effect";
import { Databases, type DatabasesShape } from "../../../core/database/Databases.ts";
import { Log } from "../../../core/telemetry/Log.ts";
import { agentMetrics } from "../../../core/telemetry/AgentMetrics.ts";
import { Time } from "../../../core/time/Time.ts";
import type { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";
import { handleCall } from "../../../core/runtime/handleCall.ts";
import { agentId, type AgentId, type Epoch } from "../../../schemas/Address.ts";
import { Subjects } from "../../../schemas/Subjects.ts";
import { Agent } from "../../../services/agent/index.ts";
import { PrometheusMetrics } from "../../../services/admin/PrometheusMetrics.ts";
import { SILENT } from "../../../core/telemetry/observability.ts";
import { layer as cronLayer } from "../../../services/cronParser/CronParser.ts";
import { activate } from "../../../services/host/activate.ts";
import { hostServices, type HostServices } from "../../../services/host/HostServices.ts";
import { Nats, type NatsShape } from "../../../services/nats/client/Nats.ts";
import { natsLayer } from "../../../services/nats/natsLayer.ts";
import { asyncAmbientLayer } from "../../../services/node/AsyncAmbient.ts";
import { machineTime } from "../../../services/node/MachineTime.ts";
import { processLog } from "../../../services/node/ProcessLog.ts";
import { sqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { startNats } from "../../kit/natsServer.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { BenchFailed, type BenchOptions } from "../Bench.ts";

/** No shard is claimed here: the epoch is any that does not change. */
const EPOCH = 1 as Epoch;

/** Each `record` changes the state and inserts one row, like the webhook bench's agent. */
class RecordingAgent extends Agent<unknown, { readonly count: number }> {
  override initialState = { count: 0 };
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, type TEXT, body TEXT)`;
  }
  record(body: string): void {
    this.sql`INSERT INTO events (type, body) VALUES (${"push"}, ${body})`;
    this.setState({ count: this.state.count + 1 });
  }
  /** As `record`, but the database stays as large as it is. */
  touch(body: string): void {
    this.sql`INSERT OR REPLACE INTO events (id, type, body) VALUES (1, ${"push"}, ${body})`;
    this.setState({ count: this.state.count + 1 });
  }
  grow(bytes: number): void {
    this.sql`INSERT INTO events (type, body) VALUES (${"ballast"}, randomblob(${bytes}))`;
  }
}

/** As long as what a short webhook would put into a row. */
export const BODY = "x".repeat(200);
const NO_BODY = new Uint8Array(0);

export interface BenchHost {
  readonly services: HostServices;
  readonly nats: NatsShape;
  /** As `services.databases`, in memory only. */
  readonly memoryDatabases: DatabasesShape;
  /** URL of its broker. */
  readonly url: string;
  readonly serverVersion: string;
  readonly wake: (id: AgentId, services: HostServices) => Promise<ActiveAgent>;
  /** A new agent with `turns` recorded turns, left in memory. */
  readonly write: (name: string, events: number) => Promise<ActiveAgent>;
  /** One turn that calls a method: `record`, `touch` (with a body), `grow` (by bytes). */
  readonly call: (
    agent: ActiveAgent,
    method: RecordingMethod,
    arg: string | number,
  ) => Promise<void>;
  readonly close: () => Promise<void>;
}

type RecordingMethod = "record" | "touch" | "grow";

export const agentNamed = (name: string): AgentId => agentId("RecordingAgent", name);

export async function openBenchHost({ syncAlways }: BenchOptions): Promise<BenchHost> {
  const server = await startNats({ syncAlways });
  const folder = tempFolder("bench-images");
  const scope = Effect.runSync(Scope.make());
  const log = processLog({ level: "error" });
  const layer = Layer.mergeAll(
    natsLayer({ servers: server.url, name: "bench", provision: {}, log }),
    sqliteDatabases({ folder: folder.path }),
    asyncAmbientLayer,
    cronLayer,
    Layer.succeed(Time, machineTime),
    Layer.succeed(Log, log),
  );
  const context = await Effect.runPromise(Layer.buildWithScope(layer, scope));
  const inMemory = await Effect.runPromise(
    Layer.buildWithScope(sqliteDatabases({ folder: undefined }), scope),
  );
  const nats = await Effect.runPromise(Effect.provide(Nats, context));
  const services = await Effect.runPromise(
    Effect.provide(
      hostServices({
        config: {
          hostId: "bench",
          subjects: new Subjects(),
          shards: nats.shards,
          drainTimeoutMs: 0,
        },
        module: () => ({ agents: new Map([["RecordingAgent", RecordingAgent]]), env: {} }),
        metrics: agentMetrics(new PrometheusMetrics()),
        observability: SILENT,
      }),
      context,
    ),
  );
  const wake: BenchHost["wake"] = async (id, sources) => {
    const { agent } = await activate(sources, id, {
      ownership: { epoch: EPOCH, signal: new AbortController().signal, isStillOurs: () => true },
      agentClass: RecordingAgent,
      props: undefined,
      supervisor: {
        restoreSockets: () => undefined,
        onCommitted: () => undefined,
        onFailed: (_agent, outcome, error) => {
          throw new BenchFailed(
            `${id.name}: an append was not stored: ${outcome} ${String(error)}`,
          );
        },
        onAbort: (reason) => {
          throw new BenchFailed(`${id.name} was aborted: ${reason}`);
        },
        onDestroyed: () => undefined,
      },
    });
    return agent;
  };
  const call: BenchHost["call"] = async (agent, method, arg) => {
    const { reply } = await handleCall(agent, { kind: "rpc", method, args: [arg] }, NO_BODY);
    if (reply.kind === "error") throw new BenchFailed(`${method}: ${reply.message}`);
  };
  return {
    services,
    nats,
    memoryDatabases: await Effect.runPromise(Effect.provide(Databases, inMemory)),
    url: server.url,
    serverVersion: nats.connection.client.info?.version ?? "of an unknown version",
    wake,
    write: async (name, events) => {
      const agent = await wake(agentNamed(name), services);
      for (let turn = 0; turn < events; turn += 1) await call(agent, "record", BODY);
      return agent;
    },
    call,
    close: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void));
      await server.stop();
      folder.remove();
    },
  };
}

export const durabilityOf = ({ syncAlways }: BenchOptions): string =>
  syncAlways
    ? "each message fsynced before its ack (sync_interval: always)"
    : "acked when written, fsynced every 2 minutes (nats-server's default)";
