/** Findings of the fault rig, by the shortest reproduction (docs/evidence/findings.md). */
import { Effect, Exit, Scope } from "effect";
import { expect, test, vi } from "vitest";
import { agentId, shardOf, type Epoch } from "../../schemas/Address.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { TimeSlices } from "../../core/time/TimeSlices.ts";
import { Host } from "../../services/host/Host.ts";
import { Shard } from "../../services/host/Shard.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import type { BusReply } from "../../core/bus/Bus.ts";
import { AgentDiscarded, CallInterrupted } from "../../core/errors/errors.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import type { Lease } from "../../core/lease/Leases.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { keyOf } from "../../core/schedule/planAlarms.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { encodeCommit } from "../../core/journal/encodeCommit.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { handleCall } from "../../core/runtime/handleCall.ts";
import type { InputHandle } from "../../core/inbox/Inbox.ts";
import { Scheduler } from "../../core/schedule/Scheduler.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import type { NatsConnectionShape } from "../../services/nats/client/NatsConnection.ts";
import { StallDetector } from "../../services/nats/client/StallDetector.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const TTL_MS = 1_000;

test("a call that reaches a host past its lease is not repeated, unless it is repeatable", async () => {
  const time = new VirtualTime();
  const connection = new MemoryBroker({ time }).connect("host");
  const subjects = new Subjects();
  const bus = makeMemoryBus(connection);
  const id = agentId("Board", "one");
  const number = shardOf(id, subjects.layout.shards);
  const services = {
    bus, time, inbox: makeMemoryInbox(connection), leases: { ttlMs: TTL_MS }, config: { subjects },
    quarantines: makeMemoryQuarantines(connection),
  } as object as HostServices; // prettier-ignore
  const lease = { epoch: 1 as Epoch } as Lease;
  const shard = new Shard(services, number, lease, time.monotonicMs());
  await shard.start(() => []);
  const blobs = makeMemoryBlobs(connection);
  const calls = new CallClient({ bus, blobs, time, subjects, shards: subjects.layout.shards });
  const ask = async (repeatable: boolean): Promise<string> => {
    const asked = calls
      .call(id, { kind: "state" }, { deadlineMs: TTL_MS / 10, repeatable })
      .then(() => "answered", String);
    for (let n = 0; n < 10; n++) await time.advance(TTL_MS / 100);
    return asked;
  };
  // Within the margin nobody else can own the shard, so that callers keep asking.
  expect(await ask(false)).toMatch("no host owns it");
  await time.advance(TTL_MS);
  expect(await ask(false)).toMatch("may have run");
  expect(await ask(true)).toMatch("no host owns it");
  shard.drop();
});

test("a shard that is handed over while it starts stops listening", async () => {
  const time = new VirtualTime();
  const connection = new MemoryBroker({ time }).connect("host");
  const subjects = new Subjects();
  const bus = makeMemoryBus(connection);
  const id = agentId("Board", "one");
  const number = shardOf(id, subjects.layout.shards);
  let answer: (reply: BusReply) => void = () => undefined;
  const census = new Promise<BusReply>((resolve) => (answer = resolve));
  const services = {
    bus: { ...bus, request: () => census },
    time, inbox: makeMemoryInbox(connection), leases: { ttlMs: TTL_MS },
    config: { subjects, drainTimeoutMs: TTL_MS },
    quarantines: { list: () => Promise.resolve([]) },
  } as object as HostServices; // prettier-ignore
  const lease = { epoch: 1 as Epoch } as Lease;
  const shard = new Shard(services, number, lease, time.monotonicMs() + TTL_MS);
  const started = shard.start(() => ["gateway"]);
  // The census's answer comes when the host has given the shard away.
  await shard.handOver(new TimeSlices(time));
  answer({ _tag: "Reply", data: encodeMessage({ sockets: [] }) });
  await started;
  const asked = bus.request(subjects.call(number, id), encodeMessage({ kind: "state" }), {
    timeoutMs: TTL_MS,
  });
  await time.advance(TTL_MS);
  expect((await asked)._tag).toBe("NoResponders");
});

test("releasing a shard with unanswered calls does not wait for them", async () => {
  const time = new VirtualTime();
  const connection = new MemoryBroker({ time }).connect("host");
  const subjects = new Subjects();
  const id = agentId("Board", "one");
  const number = shardOf(id, subjects.layout.shards);
  const warned: string[] = [];
  let waits = 0;
  const services = {
    bus: makeMemoryBus(connection),
    time: { ...time, after: (ms: number, f: () => void) => (waits++, time.after(ms, f)) },
    inbox: makeMemoryInbox(connection), leases: { ttlMs: TTL_MS },
    config: { subjects, drainTimeoutMs: TTL_MS },
    log: { warn: (message: string) => void warned.push(message) },
    quarantines: { list: () => Promise.resolve([]) },
  } as object as HostServices; // prettier-ignore
  const lease = { epoch: 1 as Epoch } as Lease;
  const shard = new Shard(services, number, lease, time.monotonicMs() + TTL_MS);
  await shard.start(() => []);
  // A call that never ends.
  (shard as unknown as { openCalls: { size: number } }).openCalls.size = 1;
  const handedOver = shard.handOver(new TimeSlices(time));
  await time.advance(TTL_MS);
  await handedOver;
  expect(warned).toHaveLength(1);
  await time.advance(TTL_MS);
  const before = waits;
  await time.advance(TTL_MS);
  expect(waits).toBe(before);
});

test("a shard that another host held when claimed is claimed again, even without further notice", async () => {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time, leaseTtlMs: TTL_MS, shards: 1 });
  const connection = broker.connect("host");
  const leases = makeMemoryLeases(connection);
  let refused = 0;
  const log: string[] = [];
  const note = (message: string): void => void log.push(message);
  const services = {
    bus: makeMemoryBus(connection), time, inbox: makeMemoryInbox(connection),
    // The leader's answer is older than the watch's news: the owner has already left.
    leases: {
      ...leases,
      claim: async (key: string, value: string) => key.startsWith("shard.") && refused++ === 0 ? { _tag: "Held" } : leases.claim(key, value),
    },
    log: { debug: note, info: note, warn: note, error: note },
    config: { subjects: broker.subjects, shards: 1, hostId: "a", drainTimeoutMs: TTL_MS },
    module: () => ({ agents: new Map() }),
    storing: new Set(),
    quarantines: makeMemoryQuarantines(connection),
  } as object as HostServices; // prettier-ignore
  const scope = Effect.runSync(Scope.make());
  const starting = Effect.runPromise(Scope.provide(Host.make(services), scope));
  for (let n = 0; n < 20; n++) await time.advance(TTL_MS / 10);
  const host = await starting;
  expect({ refused, log, owned: host.shardsOwned }).toMatchObject({ refused: 2, owned: [0] });
  const closing = Effect.runPromise(Scope.close(scope, Exit.void));
  for (let n = 0; n < 20; n++) await time.advance(TTL_MS / 10);
  await closing;
});

test("a process whose server stores nothing moves to another server, but not during an election", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    let left = 0;
    let changed: () => void = () => undefined;
    const connection = {
      connected: () => true,
      onChange: (f: () => void) => (changed = f),
      log: () => undefined,
      client: { getServer: () => "one", reconnect: () => Promise.resolve(void left++) },
    } as object as NatsConnectionShape;
    const stranded = new StallDetector(connection);
    const hears = (answered: boolean, afterMs: number): number => {
      vi.advanceTimersByTime(afterMs);
      stranded.heard(answered);
      return left;
    };
    expect(hears(false, 60_000)).toBe(0);
    expect(hears(false, 9_000)).toBe(0);
    expect(hears(true, 100)).toBe(0);
    expect(hears(false, 9_000)).toBe(0);
    expect(hears(false, 9_900)).toBe(0);
    expect(hears(false, 200)).toBe(1);
    // The next one has as long.
    changed();
    expect(hears(false, 1_000)).toBe(1);
    expect(hears(false, 9_900)).toBe(1);
    expect(hears(false, 200)).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

test("a journal is not read past a gap", async () => {
  const broker = new MemoryBroker({ time: new VirtualTime() });
  const journal = makeMemoryJournal(broker.connect("host"));
  const memory = await openSqliteDatabases({ folder: undefined });
  const id = agentId("Ledger", "one");
  const image = new AgentImage(id);
  const kept: JournalShape["read"] = async function* (of, range) {
    for await (const event of journal.read(of, range)) if (event.seq !== 2) yield event;
  };
  for (let count = 1; count <= 3; count++) {
    const turn = { cause: { kind: "request" }, durable: false } as object as Turn;
    const { data, head, state } = encodeCommit({
      image, host: "a", epoch: 1 as Epoch, timeMs: count, eventId: `e${count}`,
      turns: [{ turn, state: { text: `{"count":${count}}` }, sql: [], outcome: undefined, told: false }],
    }); // prettier-ignore
    const result = await journal.append(id, data, {
      expectedSeq: image.seq,
      signal: new AbortController().signal,
    });
    if (result._tag !== "Stored") throw new Error(result._tag);
    applyEvent(image, result.seq, head, state);
  }
  const read = (from: JournalShape) =>
    rebuildAgent(id, { journal: from, databases: memory.databases }).then(
      ({ state, database }) => (database.close(), state),
      String,
    );
  expect(await read(journal)).toEqual({ count: 3 });
  expect(await read({ ...journal, read: kept })).toMatch(
    "event 3 follows event 2, which is missing",
  );
  memory.close();
});

test("a started call of a discarded agent may have been done; one that had not begun was not", async () => {
  const agentThat = (discardedWhen: "before" | "while it is stored") => {
    const agent = {
      discarded: discardedWhen === "before",
      unblocked: () => Promise.resolve(),
      image: { seq: 1, timeMs: 1, state: undefined },
      committer: {
        idle: false,
        settled: false,
        stored: () => {
          agent.discarded = true;
          return Promise.reject(new AgentDiscarded());
        },
      },
    };
    return agent as object as ActiveAgent;
  };
  const fails = (agent: ActiveAgent) =>
    handleCall(agent, { kind: "state" }, new Uint8Array(0)).catch((error: unknown) => error);
  expect(await fails(agentThat("while it is stored"))).toBeInstanceOf(CallInterrupted);
  const before = await fails(agentThat("before"));
  expect(before).toBeInstanceOf(AgentDiscarded);
  expect(before).not.toBeInstanceOf(CallInterrupted);
});

test("a trigger that is early by a slow clock is delayed by seconds at most", () => {
  const putOff: number[] = [];
  const handle = { nak: (ms: number) => putOff.push(ms) } as object as InputHandle;
  // All of a scheduler that this needs: an agent whose clock is an hour slow.
  const scheduler = Object.create(Scheduler.prototype, {
    agent: { value: { time: { nowMs: () => 0 } } },
  }) as Scheduler;
  scheduler.offer(keyOf("one", 3_600_000), handle);
  scheduler.offer(keyOf("one", 20), handle);
  expect(putOff).toEqual([10_000, 20]);
});
