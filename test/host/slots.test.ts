/** Which slot an agent of a shard has, and what becomes of an agent in memory when that changes. */
import { Effect, Layer } from "effect";
import { expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { SILENT } from "../../core/telemetry/observability.ts";
import { agentId, type Epoch, type ShardId } from "../../schemas/Address.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import { AgentSlot } from "../../services/host/AgentSlot.ts";
import { hostServices } from "../../services/host/HostServices.ts";
import { QuarantinedSlot } from "../../services/host/QuarantinedSlot.ts";
import { Slots } from "../../services/host/Slots.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { asyncAmbientLayer } from "../../services/node/AsyncAmbient.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { hostMetrics } from "../kit/hostMetrics.ts";
import { collectingLog } from "../kit/system.ts";

const ID = agentId("Waiting", "one");
const FETCH: SlotCall = {
  kind: "fetch", id: "get", method: "GET", url: "http://agent/", headers: [],
}; // prettier-ignore
const NO_BODY = new Uint8Array();

/** Answers a request once the test says so. */
let answers: Array<() => void> = [];
class Waiting extends Agent<unknown> {
  override async onRequest(): Promise<Response> {
    await new Promise<void>((resolve) => answers.push(resolve));
    return new Response("answered");
  }
}

/** The shard of an agent that is quarantined, over a broker in memory. */
async function quarantined() {
  answers = [];
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time });
  const { subjects, shards } = broker;
  const layer = Layer.mergeAll(
    memoryLayer(broker.connect("host")),
    sqliteDatabases({ folder: undefined }),
    asyncAmbientLayer,
    cronLayer,
    Layer.succeed(Log, collectingLog()),
  );
  const agents = new Map([[ID.class, Waiting as AgentClassType]]);
  const services = await Effect.runPromise(
    hostServices({
      config: { hostId: "host", subjects, shards, drainTimeoutMs: 1000 },
      module: () => ({ agents, env: {} }),
      observability: SILENT,
      metrics: hostMetrics({}),
    }).pipe(Effect.provide(layer), Effect.scoped),
  );
  const slots = new Slots(services, {
    shard: 0 as ShardId,
    epoch: 1 as Epoch,
    signal: new AbortController().signal,
    isHeld: () => true,
    isStillOurs: () => true,
  });
  slots.quarantine.add(ID, { kind: "kills", reason: "it has ended 3 processes" });
  return { time, slots, mark: slots.quarantine.of(ID)! };
}

/** Turns of the loop, for SQLite's first use, until the agent waits for the test. */
async function begun(time: VirtualTime): Promise<void> {
  for (let n = 0; n < 100 && answers.length === 0; n++) await time.settle();
  expect(answers.length).toBe(1);
}

test("an agent that wakes between its quarantine's end and the next sweep is not discarded", async () => {
  const { time, slots, mark } = await quarantined();
  const before = slots.of(ID);
  expect(before).toBeInstanceOf(QuarantinedSlot);
  slots.removeEmpty(before);
  await time.advance(mark.untilMs - time.nowMs() + 1);
  const slot = slots.of(ID);
  expect(slot).toBeInstanceOf(AgentSlot);
  const answering = slot.call(FETCH, NO_BODY);
  await begun(time);

  slots.lookAtQuarantine();
  expect(slots.find(ID)).toBe(slot);
  answers[0]!();
  expect(await answering).toMatchObject({ reply: { kind: "response", status: 200 } });
});
