/** An agent that is erased while its journal is read: the gap is no damage to its readers. */
import { beforeEach, expect, test } from "vitest";
import { eventRows } from "../../core/history/eventRows.ts";
import { readFromBase } from "../../core/journal/Beginnings.ts";
import { endLife } from "../../core/journal/endLife.ts";
import { HistoryTrimmed } from "../../core/journal/HistoryTrimmed.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
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
  const { journal, time } = agent.ports;
  const signal = AbortSignal.timeout(1_000);
  const own = { id: () => "end", nowMs: time.nowMs };
  const end = await endLife(ID, { journal, time: own, host: "erase", epoch: undefined, signal });
  agent.broker.journal.purge(ID, end);
  agent.broker.bases.remove(ID);
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
