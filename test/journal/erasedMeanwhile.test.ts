/** An agent that is erased while its journal is read: the gap is no damage to its readers. */
import { beforeEach, describe, expect, test } from "vitest";
import { eventRows } from "../../core/history/eventRows.ts";
import { readFromBase } from "../../core/journal/Beginnings.ts";
import { endLife } from "../../core/journal/endLife.ts";
import { HistoryTrimmed } from "../../core/journal/HistoryTrimmed.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { collect } from "../kit/collect.ts";
import { ID, Journaled, STEP_MS } from "../retention/Journaled.ts";

let agent: Journaled;
let seqs: ReadonlyArray<number>;
beforeEach(async () => {
  agent = await Journaled.open();
  seqs = await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
});

/** As `agents erase`. Returns the sequence of the end. */
async function erase(): Promise<number> {
  const end = await eraseUpTo(undefined);
  agent.broker.bases.remove(ID);
  return end;
}

/** As `agents erase` has done when it is about to remove event `seq`; undefined: the end. */
async function eraseUpTo(seq: number | undefined): Promise<number> {
  const { journal, time } = agent.ports;
  const signal = AbortSignal.timeout(1_000);
  const own = { id: () => "end", nowMs: time.nowMs };
  const end = await endLife(ID, { journal, time: own, host: "erase", epoch: undefined, signal });
  agent.broker.journal.purge(ID, (seq as Sequence | undefined) ?? end);
  return end;
}

/** The first read finds only what is left of its range when the first `gone` events are. */
function erasedAt(gone: number, act: () => Promise<unknown> = erase): JournalShape {
  const { journal } = agent.ports;
  let isFirst = true;
  return {
    ...journal,
    read: async function* (id, range) {
      const events = await collect(journal.read(id, range));
      const left = isFirst ? events.slice(gone) : events;
      if (isFirst) await act();
      isFirst = false;
      yield* left;
    },
  };
}

test.each([1, 5, 9, 10])(
  "an agent of which %i events are gone is rebuilt as erased",
  async (gone) => {
    const { image, database } = await rebuildAgent(ID, { ...agent.ports, journal: erasedAt(gone) });
    expect([image.seq, image.state, database.isEmpty]).toEqual([agent.seqs[0], undefined, true]);
    database.close();
  },
);

test("a trimmed agent of which the rest is gone is rebuilt as erased", async () => {
  await agent.trim({ events: 5 });
  const { image, database } = await rebuildAgent(ID, { ...agent.ports, journal: erasedAt(2) });
  expect([image.seq, database.isEmpty]).toEqual([agent.seqs[0], true]);
  database.close();
});

test("at a point that is gone there is no agent", async () => {
  const journal = erasedAt(5);
  const { image, database } = await rebuildAgent(ID, { ...agent.ports, journal, atSeq: seqs[7]! });
  expect([image.seq, database.isEmpty]).toEqual([0, true]);
  database.close();
});

test("of its history the end remains", async () => {
  const { snapshots } = agent.ports;
  const sources = { journal: erasedAt(5), snapshots };
  expect(await collect(readFromBase(ID, sources))).toEqual([]);
  const reads = await collect(readFromBase(ID, sources));
  expect(reads.map((read) => read._tag === "Event" && read.decode().head.kind)).toEqual([
    "destroyed",
  ]);
});

test("who has read a part of its history is refused", async () => {
  const { journal: whole, snapshots } = agent.ports;
  const journal: JournalShape = {
    ...whole,
    read: async function* (id, range) {
      const events = await collect(whole.read(id, range));
      yield* events.slice(0, 3);
      await erase();
      yield* events.slice(6);
    },
  };
  const reading = collect(readFromBase(ID, { journal, snapshots }));
  await expect(reading).rejects.toBeInstanceOf(HistoryTrimmed);
  await expect(reading).rejects.toThrow(`starts with event ${agent.seqs[0]} of`);
});

test("the rows of events that are gone are refused, with the begin of its history", async () => {
  const [from, to] = [seqs[2]!, seqs[8]!];
  const { journal: whole } = agent.ports;
  const journal = erasedAt(3);
  let reads = 0;
  // The rebuild before them reads first.
  const second: JournalShape = {
    ...whole,
    first: journal.first,
    read: (id, range) => (++reads === 1 ? whole : journal).read(id, range),
  };
  const rows = collect(eventRows(ID, [from, to], { ...agent.ports, journal: second }));
  await expect(rows).rejects.toBeInstanceOf(HistoryTrimmed);
  await expect(rows).rejects.toThrow(`starts with event ${agent.seqs[0]} of`);
});

test("a trim of it is overtaken", async () => {
  expect(await agent.trim({ events: 3 }, { journal: erasedAt(4) })).toEqual({ _tag: "Overtaken" });
});

test("a gap in a journal that is as it was is damage", async () => {
  const journal = erasedAt(5, () => Promise.resolve());
  const { snapshots } = agent.ports;
  await expect(agent.rebuilt({ journal })).rejects.toBeInstanceOf(CorruptFrame);
  const reading = collect(
    readFromBase(ID, { journal: erasedAt(5, () => Promise.resolve()), snapshots }),
  );
  await expect(reading).rejects.toBeInstanceOf(CorruptFrame);
});

describe("while an erase is half done", () => {
  test.each([undefined, 3, 6])(
    "the agent is rebuilt as erased (snapshot at event %s)",
    async (n) => {
      if (n !== undefined) {
        const { image, database } = await rebuildAgent(ID, { ...agent.ports, atSeq: seqs[n]! });
        await agent.ports.snapshots.put(ID, image.encode(database.image()));
        database.close();
      }
      const end = await eraseUpTo(seqs[8]);
      const { image, database } = await rebuildAgent(ID, agent.ports);
      expect([image.seq, image.state, database.isEmpty]).toEqual([end, undefined, true]);
      database.close();
    },
  );

  test("a new life is rebuilt from its own events", async () => {
    const end = await eraseUpTo(seqs[5]);
    const turns = [{ cause: { kind: "rpc" as const }, state: { set: { n: 11 } } }];
    const seq = agent.broker.journal.append(
      ID,
      encodeEvent({ id: "11", agent: [ID.class, ID.name], kind: "turns", host: "h", epoch: 1, time: 1, turns, after: end }),
      end as Sequence,
    ); // prettier-ignore
    const { image } = await rebuildAgent(ID, agent.ports);
    expect([image.seq, JSON.parse(image.state!)]).toEqual([seq, { n: 11 }]);
    const reads = await collect(readFromBase(ID, agent.ports));
    expect(reads.map((read) => read._tag === "Event" && read.event.seq)).toEqual([end, seq]);
  });

  test("at a point that is gone, or is about to be, there is no agent", async () => {
    await eraseUpTo(seqs[5]);
    for (const atSeq of [seqs[3]!, seqs[8]!]) {
      const { image, database } = await rebuildAgent(ID, { ...agent.ports, atSeq });
      expect([image.seq, database.isEmpty]).toEqual([0, true]);
      database.close();
    }
  });

  test("the rest of its rows is refused, and a trim of it is overtaken", async () => {
    const end = await eraseUpTo(seqs[5]);
    const rows = collect(eventRows(ID, [seqs[2]!, seqs[8]!], agent.ports));
    await expect(rows).rejects.toThrow(`starts with event ${end} of`);
    expect(await collect(eventRows(ID, [end], agent.ports))).toEqual([]);
    expect(await agent.trim({ events: 3 })).toEqual({ _tag: "Overtaken" });
  });
});
