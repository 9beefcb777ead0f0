/** Where the last turns of an agent begin, and how little of its journal is read to find them. */
import { beforeEach, expect, test } from "vitest";
import { startOfLast } from "../../core/history/lastTurns.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const ID = agentId("NoteAgent", "long");
const OTHER = agentId("NoteAgent", "other");

let broker: MemoryBroker;
/** The sequence of each of the agent's turns. */
let seqs: number[];
/** The number of events that were read. */
let read = 0;

beforeEach(() => {
  broker = new MemoryBroker({ time: new VirtualTime({ seed: 1 }) });
  seqs = [];
  read = 0;
});

function append(id: AgentId, n: number, turns: ReadonlyArray<TurnRecord>): number {
  const head = { id: String(n), agent: [id.class, id.name], kind: "turns", host: "h", epoch: 1, time: n, turns }; // prettier-ignore
  return broker.journal.append(
    id,
    encodeEvent(head as never),
    broker.journal.last(id)?.seq ?? (0 as Sequence),
  )!;
}

/** `others`: events of another agent before each. Every third event has two turns. */
function write(events: number, others: number, more: (n: number) => object = () => ({})): void {
  for (let n = 0; n < events; n++) {
    for (let k = 0; k < others; k++) append(OTHER, n, []);
    const turns = Array.from({ length: n % 3 === 0 ? 2 : 1 }, (_, turn) => ({
      cause: { kind: "rpc" as const, id: `${n}.${turn}` },
      ...more(n),
    }));
    const seq = append(ID, n, turns);
    seqs.push(...turns.map(() => seq));
  }
}

function start(wanted: Partial<Parameters<typeof startOfLast>[2]>): Promise<number> {
  const journal = makeMemoryJournal(broker.connect());
  const counted: Pick<JournalShape, "read"> = {
    read: async function* (id, range) {
      for await (const event of journal.read(id, range)) {
        read++;
        yield event;
      }
    },
  };
  const toSeq = broker.journal.last(ID)!.seq;
  return startOfLast(ID, counted, { limit: 10, fromSeq: 1, toSeq, filter: {}, ...wanted });
}

test.each([0, 1, 40])(
  "the last turns begin at the same event as by reading all, with %i events of others between two",
  async (others) => {
    write(200, others);
    for (const limit of [1, 2, 3, 10, 50, 250])
      for (const toSeq of [seqs.at(-1)!, seqs[100]!, seqs[100]! - 1, seqs[3]!]) {
        const before = seqs.filter((seq) => seq <= toSeq);
        // 1: the search has reached the beginning.
        expect([1, before.at(-limit)]).toContain(await start({ limit, toSeq }));
      }
  },
);

test("the end of a long journal is found without reading the rest", async () => {
  write(10_000, 0);
  expect(await start({ limit: 100 })).toBe(seqs.at(-100));
  expect(read).toBeLessThanOrEqual(1_000);
  expect(await start({ limit: 100, toSeq: seqs[6_000]! })).toBe(
    seqs.filter((seq) => seq <= seqs[6_000]!).at(-100),
  );
  expect(read).toBeLessThanOrEqual(2_000);
});

test("a filter's turns are counted, and where too few match the search reaches the beginning", async () => {
  write(3_000, 0, (n) => (n % 100 === 0 ? { error: "boom" } : {}));
  const failed = seqs.filter((seq) => (seq - 1) % 100 === 0);
  expect(await start({ limit: 5, filter: { failed: true } })).toBe(failed.at(-5));
  expect(await start({ limit: 5, filter: { kind: "webhook" } })).toBe(1);
  expect(await start({ limit: 5, fromSeq: 7, filter: { kind: "webhook" } })).toBe(7);
});
