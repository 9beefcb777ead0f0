/** The changes of all agents, from any position: each event once, each agent's in order. */
import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { changes, type ChangeSources } from "../../core/changes/changes.ts";
import {
  decodePosition,
  encodePosition,
  type ChangePosition,
} from "../../core/changes/ChangePosition.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const GROUPS = 2;
const NAMES = ["a", "b", "c", "d"] as const;
/** The least that retention keeps. */
const KEPT_MS = 60_000;

type Act =
  | { readonly act: "store"; readonly name: (typeof NAMES)[number] }
  | { readonly act: "wait"; readonly ms: number }
  /** Retention trims all that it may. */
  | { readonly act: "trim" }
  /** The reader takes some changes, each after a pause, and ends; each time another is stored. */
  | {
      readonly act: "read";
      readonly count: number;
      readonly eachMs: number;
      readonly meanwhile: ReadonlyArray<(typeof NAMES)[number]>;
    };

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ act: fc.constant("store" as const), name: fc.constantFrom(...NAMES) }) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant("wait" as const), ms: fc.constantFrom(10, 5_000, 20_000, 70_000) }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("trim" as const) }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant("read" as const), count: fc.integer({ min: 1, max: 12 }), eachMs: fc.constantFrom(0, 1, 9_000, 25_000), meanwhile: fc.array(fc.constantFrom(...NAMES), { maxLength: 8 }) }) },
); // prettier-ignore

interface Stored {
  readonly id: AgentId;
  readonly group: number;
  readonly seq: number;
  readonly storedMs: number;
  trimmed: boolean;
}

class Model {
  readonly time = new VirtualTime({ seed: 1 });
  readonly stored: Stored[] = [];
  readonly read: string[] = [];
  /** Changes that catch-ups read, and changes read as they were stored. */
  readonly ways = { catchUp: 0, recent: 0 };
  position: ChangePosition = { seqs: [0, 0] };
  private readonly seqs = [0, 0];

  private readonly sources: ChangeSources = {
    time: this.time,
    groupOf: ({ name }) => NAMES.indexOf(name as "a") % GROUPS,
    streams: async () => this.seqs.map((end) => ({ created: "", end })),
    between: (group, { fromSeq, toSeq }) =>
      this.events((e) => e.group === group && !e.trimmed && e.seq >= fromSeq && e.seq <= toSeq),
    journal: {
      list: async function* (this: void, _class, wanted) {
        for (const name of NAMES)
          if (name === (wanted ?? name)) yield { id: agentId("C", name), events: 1 };
      },
      read: (id, { fromSeq, toSeq = Infinity }) =>
        this.events((e) => e.id.name === id.name && e.seq >= fromSeq && e.seq <= toSeq),
    },
  };

  private async *events(isWanted: (event: Stored) => boolean) {
    for (const event of this.stored)
      if (isWanted(event)) yield { ...event, seq: event.seq as Sequence, data: new Uint8Array(0) };
  }

  async happen(next: Act): Promise<void> {
    const nowMs = this.time.nowMs();
    switch (next.act) {
      case "store": {
        const group = NAMES.indexOf(next.name) % GROUPS;
        const seq = ++this.seqs[group]!;
        const id = agentId("C", next.name);
        this.stored.push({ id, group, seq, storedMs: nowMs, trimmed: false });
        return;
      }
      case "wait":
        return this.time.advance(next.ms);
      case "trim":
        for (const event of this.stored) event.trimmed ||= nowMs - event.storedMs >= KEPT_MS;
        return;
      case "read":
        return this.take(next);
    }
  }

  /** A reader that begins where the last one said that it was. */
  async take({
    count,
    eachMs,
    meanwhile,
  }: Omit<Act & { readonly act: "read" }, "act">): Promise<void> {
    const ended = new AbortController();
    const { signal } = ended;
    const from = decodePosition(encodePosition(this.position))!;
    const reading = changes(this.sources, from, { signal });
    for (let n = 0; n < count && this.read.length < this.stored.length; n++) {
      const next = await reading.next();
      if (next.done === true) break;
      const { id, event, after } = next.value;
      this.read.push(`${id.name}${event.seq}`);
      this.ways[after.catchUp === undefined ? "recent" : "catchUp"]++;
      this.position = after;
      // While it is busy with one, others are stored and trimmed.
      const name = meanwhile[n];
      if (name !== undefined) await this.happen({ act: "store", name });
      if (eachMs > 0) await this.time.advance(eachMs);
      if (eachMs > 1) await this.happen({ act: "trim" });
    }
    ended.abort();
    await reading.return();
  }
}

describe("the changes of all agents", () => {
  it("arrive once each, in order for each agent, across trims and new readers", async () => {
    const ways = { catchUp: 0, recent: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(act, { minLength: 10, maxLength: 60, size: "max" }),
        async (acts) => {
          const model = new Model();
          for (const next of acts) await model.happen(next);
          await model.take({ count: Infinity, eachMs: 0, meanwhile: [] });
          const all = model.stored.map(({ id, seq }) => `${id.name}${seq}`);
          expect(model.read.toSorted()).toEqual(all.toSorted());
          for (const name of NAMES)
            expect(model.read.filter((key) => key.startsWith(name))).toEqual(
              all.filter((key) => key.startsWith(name)),
            );
          ways.catchUp += model.ways.catchUp;
          ways.recent += model.ways.recent;
        },
      ),
      { numRuns: 120 },
    );
    expect(ways.catchUp).toBeGreaterThan(100);
    expect(ways.recent).toBeGreaterThan(100);
  });

  it("reject an invalid position", () => {
    for (const text of ["", "x", encodePosition({ seqs: [-1] }), "WzIsWzFdXQ"])
      expect([text, decodePosition(text)]).toEqual([text, undefined]);
  });
});
