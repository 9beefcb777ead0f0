/**
 * The ports of one process of a simulation: those of `services/memory`, with the network and its
 * faults between. Every use of the broker is asked for (`<point>:before`), takes its time, happens,
 * takes its time again (`<point>:after`) and is heard of, if the process lives.
 *
 * 1. What was on its way when its process died or froze still arrives.
 * 2. A dead process asks for nothing more.
 */
import { decodeMessage } from "../../schemas/bus/message.ts";
import { BrokerUnavailable, type BusShape } from "../../core/bus/Bus.ts";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import type { DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { TimersShape } from "../../core/schedule/Timers.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import type { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import type { MemoryConnection } from "../../services/memory/MemoryConnection.ts";
import { makeMemoryDeadLetters } from "../../services/memory/MemoryDeadLetters.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { makeMemoryTimers } from "../../services/memory/MemoryTimers.ts";
import { collect } from "../kit/collect.ts";
import type { CrashPoint } from "./rig/crashPoints.ts";
import type { Installation } from "./Installation.ts";
import { never, type SimProcess } from "./rig/SimProcess.ts";
import { simJournal } from "./simJournal.ts";
import { simLeases } from "./simLeases.ts";
import type { Weather } from "./rig/Weather.ts";

export interface SimPorts {
  readonly journal: JournalShape;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly quarantines: QuarantinesShape;
  readonly snapshots: SnapshotsShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly deadLetters: DeadLettersShape;
  readonly timers: TimersShape;
  /** For what is not the broker's. */
  readonly ask: Ask;
  /** Cuts the process off, until the returned function is called. */
  readonly cut: () => () => void;
}

/** One use of the broker by a process, with the network on both sides. */
export type Ask = <A>(
  points: readonly [before: CrashPoint, after: CrashPoint] | undefined,
  f: () => Promise<A>,
) => Promise<A>;

export function simPorts(
  {
    broker,
    seed,
    weather,
    observed,
  }: Pick<Installation, "broker" | "seed" | "weather" | "observed">,
  process: SimProcess,
): SimPorts {
  // What needs the process to listen ends with it; what it has sent off does not (rule 1).
  const line = broker.connect(process.name);
  const wire = broker.connect(process.name);
  process.onDeath(() => line.close());
  const ask = askOf(broker, process);
  const inbox = makeMemoryInbox(wire);
  const snapshots = makeMemorySnapshots(wire);
  const blobs = makeMemoryBlobs(wire);
  const deadLetters = makeMemoryDeadLetters(wire);
  const timers = makeMemoryTimers(wire);
  /** A request or its answer is lost: the adapter says that the broker can't be reached. */
  const lossy = async <A>(f: () => Promise<A>): Promise<A> => {
    const fate = weather.fateOfRequest();
    if (fate === "request lost") throw lost();
    const result = await f();
    if (fate === "answer lost") throw lost();
    return result;
  };
  return {
    journal: simJournal(wire, { seed, broker, process, weather, ask, observed }),
    inbox: {
      ...inbox,
      publish: (id, data, options) =>
        ask(triggerPoints(process), async () => {
          const result = await inbox.publish(id, data, options);
          // The ack was lost and the adapter asked again: stored twice.
          if (weather.isRepeated()) return inbox.publish(id, data, options);
          return result;
        }),
      get: (id, seq) => ask(undefined, () => lossy(() => inbox.get(id, seq))),
      depth: () => ask(undefined, () => inbox.depth()),
      consume: consumeOf(line, process, weather, ask),
    },
    leases: simLeases({ wire, line }, { seed, process, weather, ask, lossy }),
    // Rare, and read at each claim: the network has no part in them.
    quarantines: makeMemoryQuarantines(wire),
    snapshots: {
      put: (id, data) =>
        ask(["snapshot:before", "snapshot:between"], () => lossy(() => snapshots.put(id, data))),
      newestFirst: async function* (id) {
        yield* await ask(undefined, () => lossy(() => collect(snapshots.newestFirst(id))));
      },
      bases: (id) => ask(undefined, () => lossy(() => snapshots.bases(id))),
      putBase: (...args) =>
        ask(["base:before", "base:after"], () => lossy(() => snapshots.putBase(...args))),
      removeBases: (...args) => ask(undefined, () => lossy(() => snapshots.removeBases(...args))),
    },
    blobs: {
      put: (name, data) => ask(undefined, () => lossy(() => blobs.put(name, data))),
      get: (name) => ask(undefined, () => lossy(() => blobs.get(name))),
      remove: (name) => ask(undefined, () => lossy(() => blobs.remove(name))),
    },
    deadLetters: {
      ...deadLetters,
      put: (...args) =>
        ask(["deadLetter:before", "deadLetter:after"], () => lossy(() => deadLetters.put(...args))),
    },
    timers: {
      arm: (...args) => ask(["arm:before", "arm:after"], () => lossy(() => timers.arm(...args))),
      disarm: (...args) =>
        ask(["disarm:before", "disarm:after"], () => lossy(() => timers.disarm(...args))),
    },
    bus: busOf(line, broker, process, weather),
    ask,
    cut: () => {
      line.disconnect();
      wire.disconnect();
      return () => {
        line.reconnect();
        wire.reconnect();
      };
    },
  };
}

const lost = (): BrokerUnavailable => new BrokerUnavailable({ message: "no answer came in time" });

/** A gateway's publish is a webhook; a host's is a trigger. */
const triggerPoints = (process: SimProcess): readonly [CrashPoint, CrashPoint] | undefined =>
  process.name.startsWith("host") ? ["trigger:before", "trigger:after"] : undefined;

function askOf(broker: MemoryBroker, process: SimProcess): Ask {
  return async (points, f) => {
    // Rule 2.
    if (!process.alive || (points !== undefined && process.point(points[0]))) return never();
    const outMs = process.latencyMs();
    if (outMs > 0) await new Promise<void>((resolve) => void broker.time.after(outMs, resolve));
    const result = f();
    result.catch(() => undefined);
    await result.catch(() => undefined);
    if (points !== undefined) process.point(points[1]);
    return process.alive ? process.hear(result) : never();
  };
}

/** Much shorter than the real broker's: a run is short too. */
const ACK_WAIT_MS = 1_000;

function consumeOf(
  line: MemoryConnection,
  process: SimProcess,
  weather: Weather,
  ask: Ask,
): InboxShape["consume"] {
  const inbox = makeMemoryInbox(line);
  return (shard, handler, options) =>
    ask(["consume:before", "consume:after"], async () => {
      let stopped = false;
      const consumer = await inbox.consume(
        shard,
        (delivery) => {
          /** The broker never hears of it, and delivers again. */
          const isLost = (): boolean => {
            if (!weather.losesAck()) return false;
            line.time.after(ACK_WAIT_MS, () => process.enter(deliver));
            return true;
          };
          const given = {
            ...delivery,
            ack: () => {
              if (process.point("ack:before")) return;
              if (!isLost()) delivery.ack();
              process.point("ack:after");
            },
            nak: (delayMs: number) => {
              if (process.point("nak:before")) return;
              if (!isLost()) delivery.nak(delayMs);
              process.point("nak:after");
            },
          };
          const deliver = (): void => {
            if (!stopped) handler(given);
          };
          if (weather.bug?.acksEarly === true) delivery.ack();
          process.enter(deliver);
          if (weather.isRepeated()) process.enter(deliver);
        },
        options,
      );
      const stop = async (): Promise<void> => {
        stopped = true;
        await process.hear(consumer.stop());
      };
      return {
        stop,
        get caughtUp() {
          return consumer.caughtUp;
        },
      };
    });
}

function busOf(
  line: MemoryConnection,
  { subjects }: MemoryBroker,
  process: SimProcess,
  weather: Weather,
): BusShape {
  const bus = makeMemoryBus(line);
  const kindOf = (subject: string): "answer" | "frame" | "reply" | undefined => {
    if (!process.name.startsWith("host")) return undefined;
    if (subject.startsWith("_INBOX.")) return "reply";
    if (!subject.startsWith(`${subjects.namespace}.gateway.`)) return undefined;
    return subject.endsWith(".reply") ? "answer" : "frame";
  };
  const publish: BusShape["publish"] = (subject, data, reply) => {
    const kind = kindOf(subject);
    if (!process.alive || (kind !== undefined && process.point(`${kind}:before`))) return;
    bus.publish(subject, data, reply);
    if (kind !== undefined) process.point(`${kind}:after`);
  };
  return {
    ...bus,
    publish,
    answer: publish,
    subscribe: (subject, handler, options) => {
      const ofClients =
        weather.rates.messageLost > 0 && subject.startsWith(`${subjects.namespace}.call.`);
      const end = bus.subscribe(
        subject,
        (message) => {
          if (ofClients && isClientMessage(message.data) && weather.losesMessage()) return;
          process.enter(() => handler(message));
        },
        options,
      );
      return () => process.hear(end());
    },
    request: (subject, data, options) =>
      process.alive ? process.hear(bus.request(subject, data, options)) : never(),
  };
}

/** Whether it is a client's message, on its way from its gateway to a host. */
const isClientMessage = (data: Uint8Array): boolean =>
  decodeMessage<{ readonly kind?: string }>(data).head.kind === "message";
