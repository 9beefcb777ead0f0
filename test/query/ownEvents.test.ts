/** A host's own events, passed to its view (`OwnEvents`, `KnownChanges`): the rows are right. */
import fc from "../kit/property.ts";
import { beforeEach, describe, expect, it } from "vitest";
import { KnownChanges } from "../../core/query/KnownChanges.ts";
import { OwnEvents, type OwnChange } from "../../core/query/OwnEvents.ts";
import { View, VIEW_LIMITS, type ViewSources } from "../../core/query/View.ts";
import { agentId } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { Fleet, Killed, type Change } from "./Fleet.ts";

const AGENTS = [agentId("Shop", "one"), agentId("Shop", "a/b"), agentId("Customer", "ann")];
const READ = { rowsMax: 100, timeMsMax: 10_000 };

let fleet: Fleet;
let asked: Array<readonly [fromSeq: number, toSeq: number]>;
let own: OwnEvents;
let known: KnownChanges;
/** With what the host passes, and with the events of the broker alone. */
let view: View;
let plain: View;
beforeEach(() => open());

async function open(bytesMax?: number, limits = VIEW_LIMITS, eventsPerGap?: number): Promise<void> {
  fleet = await Fleet.open();
  asked = [];
  own = new OwnEvents(bytesMax);
  const stored = fleet.sources().changes.between as KnownChanges["between"];
  const changes: ConstructorParameters<typeof KnownChanges>[0] = {
    streams: fleet.sources().changes.streams,
    between: async function* (group, range) {
      asked.push([range.fromSeq, range.toSeq]);
      for await (const entry of stored(group, range)) if ("data" in entry) yield entry;
    },
    groupOf: () => 0,
  };
  known = new KnownChanges(changes, eventsPerGap);
  const { databases } = fleet.ports;
  [view, plain] = [0, 1].map(() => new View(databases, "agents", { kept: false, limits })) as [View, View]; // prettier-ignore
  await known.streams();
}

/** Adds the agent's last event as its host does: with the state that it leads to. */
function pass(id: (typeof AGENTS)[number]): void {
  const event = fleet.broker.journal.last(id)!;
  const { head } = decodeEvent(event.data);
  const isChanged = head.turns.some(({ state }) => state !== undefined);
  const state = isChanged ? { state: { text: fleet.stateOf(id), isExact: true } } : {};
  own.add(id, event.seq, { head, ...state });
}

/** Writes an event, which the host has stored or another one has. */
async function write(n: number, isOwn: boolean, change: Change = { state: { n } }): Promise<void> {
  const id = AGENTS[n % AGENTS.length]!;
  await fleet.turn(id, change);
  if (isOwn) pass(id);
}

/** As it is posted to the view's thread. */
const taken = (): ReadonlyArray<OwnChange> => structuredClone(own.take());

const rowsOf = (of: View): unknown =>
  of.read("SELECT * FROM agents ORDER BY class, name", READ).rows;

/** Both views are brought up to date, and have the same rows. */
async function compare(): Promise<void> {
  known.add(taken());
  await view.catchUp({ ...fleet.sources(), changes: known });
  await plain.catchUp(fleet.sources());
  expect(rowsOf(view)).toEqual(rowsOf(plain));
}

const acts = fc.array(
  fc.tuple(
    fc.constantFrom(
      "state",
      "grow",
      "fail",
      "schedule",
      "schedule",
      "nothing",
      "destroy",
      "pass",
      "compare",
    ),
    fc.nat(2),
    fc.constantFrom(true, true, true, false),
  ),
  { maxLength: 80 },
);

describe("events that the host has stored itself", () => {
  it("lead to the rows that the stored events lead to, whichever of them others have written", async () => {
    const limits = { ...VIEW_LIMITS, batchEvents: 3 };
    await fc.assert(
      fc.asyncProperty(acts, async (given) => {
        // However many gaps there are, only they are requested.
        await open(undefined, limits, 0);
        for (const [act, n, isOwn] of given) {
          const { end } = fleet;
          if (act === "state") await write(n, isOwn, { state: { end } });
          // Past what is written whole: splices.
          else if (act === "grow")
            await write(n, isOwn, { state: { text: "x".repeat(2_000), end } });
          else if (act === "fail") await write(n, isOwn, { error: `failed at ${end}` });
          else if (act === "schedule") await write(n, isOwn, { schedule: `s${end % 2}` });
          else if (act === "nothing") await write(n, isOwn, {});
          else if (act === "pass") known.add(taken());
          else if (act === "compare") await compare();
          else {
            await fleet.destroy(AGENTS[n]!);
            if (isOwn) pass(AGENTS[n]!);
          }
        }
        await compare();
      }),
      { numRuns: 60 },
    );
  });

  it("are not asked of the broker, but only what is missing", async () => {
    for (let n = 0; n < 120; n++) await write(n, n !== 50 && n !== 119);
    await compare();
    expect(asked).toEqual([
      [51, 51],
      [120, 120],
    ]);
  });

  it("that follow on an event which was read from the broker meanwhile are not asked of it", async () => {
    for (let n = 0; n < 60; n++) await write(n, true);
    known.add(taken());
    // Stored before the stream's end is read, and passed with the next question.
    for (let n = 60; n < 66; n++) await write(n, true, { error: `failed ${n}` });
    await view.catchUp({ ...fleet.sources(), changes: known });
    expect(asked).toEqual([[61, 66]]);
    for (let n = 66; n < 90; n++) await write(n, true, { error: `failed ${n}` });
    await compare();
    expect(asked).toHaveLength(1);
  });

  it("that were stored after the end of a range are not asked of the broker in the next one", async () => {
    for (let n = 0; n < 60; n++) await write(n, true);
    const early = fleet.sources();
    const { end } = fleet;
    for (let n = 60; n < 90; n++) await write(n, true, { error: `failed ${n}` });
    known.add(taken());
    const changes = {
      streams: async () => [{ ...(await early.changes.streams())[0]!, end }],
      between: known.between.bind(known),
    };
    await view.catchUp({ ...early, changes });
    await compare();
    expect(asked).toEqual([]);
  });

  it("are asked of the broker with the others, in one piece, where those are many", async () => {
    for (let n = 0; n < 20; n++) await write(n, n % 2 === 0);
    await compare();
    expect(asked).toEqual([[1, 20]]);
  });

  it("of one agent take no more memory than its last state", async () => {
    await open(10_000);
    const text = "x".repeat(2_000);
    for (let n = 0; n < 90; n++) await write(0, true, { state: { text, n } });
    await compare();
    expect(asked).toEqual([]);
  });

  it("past the bound are left to the broker until the next question", async () => {
    await open(3_000);
    const state = { text: "x".repeat(500) };
    for (let n = 0; n < 3; n++) await write(n, true, { state });
    for (let n = 3; n < 60; n++) await write(n, true, { state: { text: "x".repeat(900), n } });
    await compare();
    expect(asked).toEqual([[1, 60]]);
    asked = [];
    await compare();
    for (let n = 60; n < 130; n++) await write(n, true);
    await compare();
    expect(asked).toEqual([]);
  });

  it("are neither missed nor applied twice by a view that is killed among them", async () => {
    const folder = tempFolder("own-events");
    const limits = { ...VIEW_LIMITS, batchEvents: 3, unsavedBytesMax: 1 };
    for (let n = 0; n < 90; n++) await write(n, n !== 1 && n !== 60, { error: `failed ${n}` });
    known.add(taken());
    const opened = await openSqliteDatabases({ folder: folder.path, residentBytesMax: 2 ** 26 });
    const first = new View(opened.databases, "agents", { limits });
    let ranges = 0;
    const between: ViewSources["changes"]["between"] = async function* (group, range) {
      for await (const entry of known.between(group, range)) {
        if ("data" in entry && ++ranges === 2) throw new Killed();
        yield entry;
      }
    };
    const changes = { streams: () => known.streams(), between };
    await expect(first.catchUp({ ...fleet.sources(), changes })).rejects.toThrow(Killed);
    // What was saved is in the file, and all else is lost.
    const next = await openSqliteDatabases({ folder: folder.path, residentBytesMax: 2 ** 26 });
    view = new View(next.databases, "agents", { limits });
    expect(view.seqs).toEqual([expect.toSatisfy((seq: number) => seq > 0 && seq < 61)]);
    await compare();
    next.close();
    folder.remove();
  });

  it("of streams that were replaced since are forgotten", async () => {
    for (let n = 0; n < 40; n++) await write(n, true);
    known.add(taken());
    fleet.created = "2026-02-02T00:00:00Z";
    await compare();
    expect(asked).toEqual([[1, 40]]);
  });

  it("of an agent that was erased since leave no row", async () => {
    for (let n = 0; n < 40; n++) await write(n, true);
    known.add(taken());
    await fleet.erase(AGENTS[1]!);
    await compare();
    expect(view.read("SELECT class, name, seq FROM agents ORDER BY 1, 2", READ).rows).toEqual([
      ["Customer", "ann", 39],
      ["Shop", "one", 40],
    ]);
  });
});
