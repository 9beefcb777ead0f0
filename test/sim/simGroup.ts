/** Group commit in a simulation: the real `GroupPublisher` before a slow stream in memory. */
import type { AppendResult, JournalShape } from "../../core/journal/Journal.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { MemoryConnection } from "../../services/memory/MemoryConnection.ts";
import {
  WRONG_LAST_SEQUENCE,
  type PublishOutcome,
} from "../../services/nats/client/AckPublisher.ts";
import { GroupPublisher, type BatchPublisher } from "../../services/nats/client/GroupPublisher.ts";
import { Random } from "./rig/Random.ts";
import type { Weather } from "./rig/Weather.ts";

/** The share of runs whose hosts commit in groups. */
const RUNS_WITH_GROUPS = 0.2;
export const commitsInGroups = (seed: number): boolean =>
  new Random(seed, "batch").chance(RUNS_WITH_GROUPS);

/** A slow fsync, for one message as for many: what comes meanwhile is the next batch. */
const STORE_MS = 25;
/** The share of batches in trouble that are lost whole; of the others only the acks are. */
const BATCHES_LOST = 0.2;
/** A run has few agents that write at once. */
const BATCH_MIN = 2;

interface Part {
  readonly id: AgentId;
  readonly data: Uint8Array;
  readonly expectedSeq: Sequence;
}

/** Appends by way of a group, as the real journal makes them: what is not known is looked up. */
export function groupedAppend(
  wire: MemoryConnection,
  { weather, random }: { readonly weather: Weather; readonly random: Random },
): JournalShape["append"] {
  const ids = new Map<string, AgentId>();
  const fate = (): "well" | "lost" | "ack lost" => {
    if (weather.calm || !random.chance(BATCHES_LOST)) return "well";
    return random.pick(["lost", "ack lost"]);
  };
  const publisher = memoryPublisher(wire, { weather, fate, ids });
  const group = new GroupPublisher(publisher, { on: true });
  Object.assign(group, { batchMin: BATCH_MIN });
  const { journal } = wire.broker;
  return async (id, data, { expectedSeq, signal }): Promise<AppendResult> => {
    const key = addressKey(id);
    ids.set(key, id);
    let message = "not tried";
    while (!signal.aborted) {
      try {
        await wire.operation("append", key);
        const outcome = await group.publishAfter(expectedSeq, key, data, signal);
        if (outcome._tag === "Stored") return outcome;
        message = outcome.message;
        const next = journal.eventsOf(id).find(({ seq }) => seq > expectedSeq);
        if (next !== undefined)
          return Buffer.compare(next.data, data) === 0
            ? { _tag: "Stored", seq: next.seq }
            : { _tag: "Conflict" };
        if (outcome._tag === "Refused") return { _tag: "Conflict" };
      } catch (error) {
        message = String(error);
      }
      await wire.pause(signal);
    }
    return { _tag: "Unknown", message };
  };
}

function memoryPublisher(
  { broker }: MemoryConnection,
  parts: {
    readonly weather: Weather;
    /** What becomes of a batch. */
    readonly fate: () => "well" | "lost" | "ack lost";
    readonly ids: ReadonlyMap<string, AgentId>;
  },
): BatchPublisher {
  const { weather, ids } = parts;
  const { journal, time } = broker;
  const staged = new Map<string, Part[]>();
  const partOf = (subject: string, data: Uint8Array, block: Uint8Array): Part => ({
    id: ids.get(subject)!,
    data,
    expectedSeq: Number(valueOf(block, "Nats-Expected-Last-Subject-Sequence")) as Sequence,
  });
  const store = async (batch: ReadonlyArray<Part>): Promise<PublishOutcome> => {
    await new Promise<void>((resolve) => void time.after(STORE_MS, resolve));
    const fate = batch.length > 1 ? parts.fate() : "well";
    if (batch.length > 1) weather.bit(`batch: ${fate}`);
    if (fate === "lost")
      return weather.bug?.groupsLie === true ? { ...STORED, seq: NEVER } : AMBIGUOUS;
    const isExpected = batch.every(
      ({ id, expectedSeq }) => (journal.last(id)?.seq ?? 0) === expectedSeq,
    );
    if (!isExpected) return REFUSED;
    const seqs = batch.map(({ id, data, expectedSeq }) => journal.append(id, data, expectedSeq)!);
    return fate === "well" ? { ...STORED, seq: seqs.at(-1)! } : AMBIGUOUS;
  };
  return {
    fits: () => true,
    send: (subject, data, block) => {
      const name = valueOf(block, "Nats-Batch-Id")!;
      staged.set(name, [...(staged.get(name) ?? []), partOf(subject, data, block)]);
    },
    publish: (subject, data, { headers: block = new Uint8Array(0) } = {}) => {
      const name = valueOf(block, "Nats-Batch-Id") ?? "";
      const batch = [...(staged.get(name) ?? []), partOf(subject, data, block)];
      staged.delete(name);
      return store(batch);
    },
    publishAfter: (expectedSeq, subject, data) =>
      store([{ id: ids.get(subject)!, data, expectedSeq }]),
  };
}

const STORED = { _tag: "Stored" } as const;
/** Past all sequences of a run. */
const NEVER = 1_000_000 as Sequence;
const AMBIGUOUS: PublishOutcome = { _tag: "Ambiguous", message: "no ack from the broker" };
const REFUSED: PublishOutcome = {
  _tag: "Refused",
  code: WRONG_LAST_SEQUENCE,
  message: "wrong last sequence",
};

const valueOf = (block: Uint8Array, name: string): string | undefined =>
  new RegExp(`^${name}: (.*)\r$`, "m").exec(Buffer.from(block).toString("latin1"))?.[1];
