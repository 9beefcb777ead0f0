/** Trimming one agent's journal: what goes, what stays, and that nothing in between loses any. */
import { beforeEach, expect, test } from "vitest";
import { HistoryTrimmed } from "../../core/journal/HistoryTrimmed.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { baseAsEvent } from "../../services/cli/agents/baseAsEvent.ts";
import { readFromBase } from "../../core/journal/Beginnings.ts";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import { BaseDiffers, forgetErased, trimAgent } from "../../core/retention/trimAgent.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { collect } from "../kit/collect.ts";
import { ID, Journaled, STEP_MS } from "./Journaled.ts";

const LIMITS = { events: 3 };

let agent: Journaled;
beforeEach(async () => {
  agent = await Journaled.open();
});

test("the remaining events and the base rebuild the agent to the byte, processed inputs and rows included", async () => {
  const seqs = await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const before = await agent.rebuilt();
  expect(await agent.trim(LIMITS)).toMatchObject({ _tag: "Trimmed", events: 7, more: false });
  expect(agent.seqs).toEqual(seqs.slice(7));
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
  await agent.write(4);
  const later = await agent.rebuilt();
  await agent.time.advance(STEP_MS * 2);
  expect(await agent.trim(LIMITS)).toMatchObject({ events: 4 });
  expect(Buffer.compare(await agent.rebuilt(), later)).toBe(0);
});

test("a kept point is rebuilt as before; for an earlier one the error says where history begins", async () => {
  const seqs = await agent.write(10);
  const at = async (n: number) => agent.rebuilt({ atSeq: seqs[n]! });
  const points = await Promise.all([6, 7, 8].map(at));
  await agent.time.advance(STEP_MS * 2);
  await agent.trim(LIMITS);
  for (const [n, bytes] of points.entries()) expect(Buffer.compare(await at(n + 6), bytes)).toBe(0);
  const refused = await at(5).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(HistoryTrimmed);
  expect(refused).toMatchObject({ seq: seqs[7], after: seqs[6] });
  expect(String((refused as Error).message)).toContain(`starts with event ${seqs[7]} of`);
  const longAgo = agent.time.nowMs() - STEP_MS * 11;
  await expect(agent.rebuilt({ atTimeMs: longAgo })).rejects.toBeInstanceOf(HistoryTrimmed);
});

test("limits of days, bytes and events all apply, whichever is reached first, and the last event always stays", async () => {
  const seqs = await agent.write(10);
  await agent.time.advance(STEP_MS);
  const days = (6.5 * STEP_MS) / 86_400_000;
  expect(await agent.trim({ days, events: 9 })).toMatchObject({ events: 4 });
  expect(agent.seqs).toEqual(seqs.slice(4));
  await agent.time.advance(STEP_MS * 1000);
  await agent.trim({ days });
  expect(agent.seqs).toEqual(seqs.slice(9));
  expect(await agent.trim({ days })).toEqual({ _tag: "Kept" });
});

test("events younger than a minute stay, whatever the limits are", async () => {
  await agent.write(5);
  const ahead = (ms: number) => ({ time: { nowMs: () => agent.time.nowMs() + ms } });
  await agent.trim({ events: 1 }, ahead(-STEP_MS * 2 - 1));
  expect(agent.seqs).toHaveLength(4);
  await agent.trim({ events: 1 }, ahead(-1));
  expect(agent.seqs).toHaveLength(2);
});

test("events that do not name their predecessor are trimmed with one that does, or not at all", async () => {
  await agent.write(6, { after: undefined } as never);
  await agent.time.advance(STEP_MS * 2);
  expect(await agent.trim(LIMITS)).toEqual({ _tag: "Kept" });
  const [first] = await agent.write(3);
  await agent.time.advance(STEP_MS * 2);
  const before = await agent.rebuilt();
  await agent.trim({ events: 5 });
  expect(agent.seqs).toHaveLength(9);
  await agent.trim({ events: 3 });
  expect(agent.seqs[0]).toBe(first);
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
});

test("the events of a turn that has stored parts stay until it has ended", async () => {
  const seqs = await agent.write(5);
  const half = (n: number) => ({
    part: true,
    turns: [
      {
        cause: { kind: "webhook", id: "long", seq: 77, attempt: 1 },
        begun: true,
        state: { set: { half: n } },
        steps: [{ key: `${n} pay`, result: n }],
      },
    ],
  });
  for (let n = 1; n <= 8; n++) seqs.push(...(await agent.write(1, half(n) as never)));
  await agent.time.advance(STEP_MS * 2);
  expect(await agent.trim(LIMITS)).toMatchObject({ _tag: "Trimmed", events: 5 });
  expect(await agent.trim(LIMITS)).toEqual({ _tag: "Kept" });
  expect(agent.seqs).toEqual(seqs.slice(5));
  await agent.write(4);
  await agent.time.advance(STEP_MS * 2);
  const before = await agent.rebuilt();
  expect(await agent.trim(LIMITS)).toMatchObject({ events: 9 });
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
});

test("a copy of a trimmed agent has the results of its steps, its entity and its attempts", async () => {
  const cause = { kind: "webhook", id: "k", seq: 7, attempt: 2 };
  const steps = [{ key: "1 pay", result: { paid: 1 } }, { key: "2 log" }];
  await agent.write(1, {
    turns: [{ cause: { kind: "webhook", id: "a", entity: "one" } }],
  } as never);
  await agent.write(1, { turns: [{ cause, begun: true, steps, error: "no" }] } as never);
  await agent.write(4);
  await agent.time.advance(STEP_MS * 2);
  await agent.trim(LIMITS);
  const { image: original } = await rebuildAgent(ID, agent.ports);
  for (const restarts of [false, true]) {
    const copy = new AgentImage(ID);
    for await (const read of readFromBase(ID, agent.ports)) {
      const isBase = read._tag === "Base";
      const event = isBase ? baseAsEvent({ ...read, restarts }) : read.event;
      applyEvent(copy, event.seq, decodeEvent(event.data).head);
    }
    expect([...copy.begun]).toEqual([["k", { attempts: 2, inboxSeq: 7 }]]);
    expect([...copy.begun]).toEqual([...original.begun]);
    expect([...copy.steps!.get("k")!]).toEqual([...original.steps!.get("k")!]);
    expect(copy.entity).toBe("one");
  }
});

/** As `snapshots`; the process dies after it has stored copy `at` of a new base. */
const endsAt = (snapshots: SnapshotsShape, at: number): SnapshotsShape => {
  let calls = 0;
  return {
    ...snapshots,
    putBase: async (...args) => {
      const known = (await snapshots.bases(ID))?.copies.some(
        (copy) => copy !== undefined && Buffer.compare(copy, args[1]) === 0,
      );
      const revision = await snapshots.putBase(...args);
      if (known === true && calls === 0) return revision; // an older one, stored again
      if (++calls === at) throw new Error("the process died");
      return revision;
    },
  };
};

test.each([1, 2])(
  "a run that ends after copy %i of the base is finished by the next",
  async (at) => {
    const { snapshots } = agent.ports;
    // The second time there is a base of the first.
    for (const count of [10, 5]) {
      await agent.write(count);
      await agent.time.advance(STEP_MS * 2);
      const before = await agent.rebuilt();
      const dying = agent.trim(LIMITS, { snapshots: endsAt(snapshots, at) });
      await expect(dying).rejects.toThrow("died");
      expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
      await agent.trim(LIMITS);
      expect(agent.seqs).toHaveLength(3);
      expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
    }
  },
);

test("repeated runs that end early do not displace the base that the journal needs", async () => {
  const { snapshots } = agent.ports;
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  await agent.trim(LIMITS);
  for (let run = 0; run < 3; run++) {
    await agent.write(4);
    await agent.time.advance(STEP_MS * 2);
    const before = await agent.rebuilt();
    await expect(agent.trim(LIMITS, { snapshots: endsAt(snapshots, 1) })).rejects.toThrow("died");
    expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
  }
  await agent.trim(LIMITS);
  expect(agent.seqs).toHaveLength(3);
});

test("a base that reads back differently than it was stored trims nothing", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const { snapshots } = agent.ports;
  const flips: SnapshotsShape = {
    ...snapshots,
    putBase: (id, data, revision) => {
      const damaged = data.slice();
      damaged[damaged.length - 1]! ^= 1;
      return snapshots.putBase(id, damaged, revision);
    },
  };
  const before = await agent.rebuilt();
  await expect(agent.trim(LIMITS, { snapshots: flips })).rejects.toBeInstanceOf(BaseDiffers);
  expect(agent.seqs).toHaveLength(10);
  expect(await agent.trim(LIMITS)).toMatchObject({ events: 7 });
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
});

test("one damaged copy of the base has no effect; two quarantine the agent", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const before = await agent.rebuilt();
  await agent.trim(LIMITS);
  const { copies } = agent.broker.bases.get(ID)!;
  const flip = (copy: Uint8Array): void => void (copy[copy.length - 1]! ^= 1);
  flip(copies[0]!);
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
  await agent.write(3);
  await agent.time.advance(STEP_MS * 2);
  const later = await agent.rebuilt();
  await agent.trim(LIMITS);
  expect(Buffer.compare(await agent.rebuilt(), later)).toBe(0);
  for (const copy of agent.broker.bases.get(ID)!.copies) flip(copy);
  await expect(agent.rebuilt()).rejects.toBeInstanceOf(CorruptFrame);
  await agent.write(3);
  await expect(agent.trim(LIMITS)).rejects.toBeInstanceOf(CorruptFrame);
});

test("a missing event just before the cut stops the trim", async () => {
  const seqs = await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const { journal } = agent.ports;
  const lossy = {
    ...journal,
    read: async function* (...args: Parameters<typeof journal.read>) {
      for await (const event of journal.read(...args)) if (event.seq !== seqs[6]) yield event;
    },
  };
  await expect(agent.trim(LIMITS, { journal: lossy })).rejects.toBeInstanceOf(CorruptFrame);
  expect(agent.seqs).toHaveLength(10);
});

test("of two concurrent trims of one agent one is overtaken, and nothing is lost", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const before = await agent.rebuilt();
  const both = await Promise.all([agent.trim(LIMITS), agent.trim({ events: 5 })]);
  expect(both.map(({ _tag }) => _tag).toSorted()).toEqual(["Overtaken", "Trimmed"]);
  expect(Buffer.compare(await agent.rebuilt(), before)).toBe(0);
});

test("numbers that were counted before another trim remove nothing", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const size = { first: agent.seqs[0] as Sequence, events: 10 };
  expect(await agent.trim({ events: 5 })).toMatchObject({ events: 5 });
  const limits = { events: 5 };
  expect(await trimAgent(ID, agent.ports, { limits, ...size })).toEqual({ _tag: "Overtaken" });
  expect(agent.seqs).toHaveLength(5);
});

test("an agent that is rebuilt during another trim gets its journal from the later base", async () => {
  await agent.write(20);
  const whole = await agent.rebuilt();
  let keep = 12;
  const journal: typeof agent.ports.journal = {
    ...agent.ports.journal,
    read: async function* (id, range) {
      // Between the base and what is read after it.
      if (keep >= 3) await agent.trim({ events: (keep -= 4) });
      yield* agent.ports.journal.read(id, range);
    },
  };
  expect(await agent.rebuilt({ journal })).toEqual(whole);
  expect(agent.seqs.length).toBeLessThan(9);
});

/** As the agent's; before it is first asked for bases, `meanwhile` happens. */
function overtaken(meanwhile: () => Promise<unknown>): SnapshotsShape {
  const { snapshots } = agent.ports;
  let isFirst = true;
  return {
    ...snapshots,
    bases: async (id) => {
      if (isFirst) {
        isFirst = false;
        await meanwhile();
      }
      return snapshots.bases(id);
    },
  };
}

test("a read that one and a half trims overtake continues from the base of that time", async () => {
  await agent.write(20);
  await agent.time.advance(STEP_MS * 2);
  const whole = await agent.rebuilt();
  const { journal, snapshots } = agent.ports;
  const trims = async (left: number): Promise<void> => {
    await agent.trim({ events: left });
    // The base of neither gap: the one after it is stored once.
    const dying = agent.trim({ events: left - 3 }, { snapshots: endsAt(snapshots, 1) });
    await expect(dying).rejects.toThrow("died");
  };
  await agent.trim({ events: 16 });
  const reads = await collect(readFromBase(ID, { journal, snapshots: overtaken(() => trims(12)) }));
  const [base, ...events] = reads;
  expect(base).toMatchObject({ _tag: "Base", base: { head: { seq: 8 } }, restarts: false });
  expect(events.map((read) => read._tag === "Event" && read.event.seq)).toEqual(agent.seqs);
  expect(await agent.rebuilt({ snapshots: overtaken(() => trims(7)) })).toEqual(whole);
});

test("a read up to a point that is trimmed meanwhile is refused, and never returns a later one", async () => {
  const seqs = await agent.write(20);
  await agent.time.advance(STEP_MS * 2);
  const { journal } = agent.ports;
  await agent.trim({ events: 16 });
  const sources = { journal, snapshots: overtaken(() => agent.trim({ events: 4 })) };
  const reading = collect(readFromBase(ID, sources, { toSeq: seqs[9] }));
  await expect(reading).rejects.toBeInstanceOf(HistoryTrimmed);
});

test("an agent that is erased while it is trimmed keeps no base", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const { snapshots } = agent.ports;
  const erasedBefore: SnapshotsShape = {
    ...snapshots,
    putBase: async (...args) => {
      await agent.erase();
      return snapshots.putBase(...args);
    },
  };
  expect(await agent.trim(LIMITS, { snapshots: erasedBefore })).toEqual({ _tag: "Overtaken" });
  expect(agent.broker.bases.get(ID)).toBeUndefined();
  await snapshots.putBase(ID, new Uint8Array(8), 0);
  await forgetErased(agent.ports, ID);
  expect(agent.broker.bases.get(ID)).toBeUndefined();
});

test("an agent with archived history is trimmed without an archive only on request", async () => {
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const place = { segment: "a-segment", offset: 0, bytes: 1, sha256: "" };
  const archive = { put: async () => place, erase: async () => [] };
  expect(await agent.trim(LIMITS, { archive })).toMatchObject({ _tag: "Trimmed" });
  await agent.write(10);
  await agent.time.advance(STEP_MS * 2);
  const forgotten = agent.trim(LIMITS);
  await expect(forgotten).rejects.toBeInstanceOf(ArchiveUnavailable);
  await expect(forgotten).rejects.toThrow(/Book\S* is in an archive \(a-segment\).*--archive none/);
  expect(agent.seqs).toHaveLength(13);
  expect(await agent.trim(LIMITS, { leavesArchive: true })).toMatchObject({ events: 10 });
});
