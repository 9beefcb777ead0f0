/** When the process of an isolated agent lets its agent go. The test sends the ward's requests. */
import { Effect, Layer, Scope } from "effect";
import { expect, test } from "vitest";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { Agent } from "../../core/agent/Agent.ts";
import type { IsolatedAsk, IsolatedReply } from "../../core/input/Isolation.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { hostServices } from "../../services/host/HostServices.ts";
import { serveIsolated } from "../../services/host/serveIsolated.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { asyncAmbientLayer } from "../../services/node/AsyncAmbient.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { collectingLog } from "../kit/system.ts";

const ID = agentId("Slow", "one");
const OWNER = { epoch: 1 as Epoch, host: "owner" };
let finish = (): void => undefined;

class Slow extends Agent {
  override async onRequest(): Promise<Response> {
    await new Promise<void>((resolve) => (finish = resolve));
    return new Response("OK");
  }
}

test("the process gives its agent up while that is idle, and not while a turn of it runs", async () => {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time, shards: 1 });
  const connection = broker.connect("alone");
  const layer = Layer.mergeAll(
    memoryLayer(connection),
    sqliteDatabases({ folder: undefined }),
    asyncAmbientLayer,
    cronLayer,
    Layer.succeed(Log, collectingLog()),
  );
  const { subjects, shards } = broker;
  const agents = new Map([["Slow", Slow as unknown as AgentClassType]]);
  const services = await Effect.runPromise(
    hostServices({
      config: { hostId: "alone", subjects, shards, drainTimeoutMs: 60_000 },
      module: () => ({ agents, env: {} }),
      observability: { emit: () => undefined },
      metrics: agentMetrics(noMetrics),
    }).pipe(Effect.provide(layer), Effect.scoped),
  );
  let ask!: (ask: IsolatedAsk) => Promise<IsolatedReply>;
  const isolated = serveIsolated(services, (f) => {
    ask = (asked) => new Promise((answer) => f(ID, OWNER, asked, answer));
  });
  Effect.runSync(isolated.pipe(Scope.provide(Effect.runSync(Scope.make()))));

  expect(await ask({ kind: "yield" })).toEqual({ kind: "drained", sockets: [] });
  const head = { key: "github:1", kind: "webhook", time: time.nowMs() } as const;
  const { signal } = new AbortController();
  await makeMemoryInbox(connection).publish(ID, encodeEnvelope(head), { signal });
  const delivered = ask({ kind: "deliver", seq: 1 as Sequence, deliveries: 1 });
  // The agent starts, and then its turn runs.
  expect(await ask({ kind: "yield" })).toEqual({ kind: "busy" });
  const begun = finish;
  for (let n = 0; finish === begun && n < 1_000; n++) await time.advance(1);
  expect(await ask({ kind: "yield" })).toEqual({ kind: "busy" });
  finish();
  await time.advance(100);
  expect(await delivered).toEqual({ kind: "acked" });
  expect(await ask({ kind: "yield" })).toEqual({ kind: "drained", sockets: [] });
});
