/**
 * Replay equality of whole agents: however turns interleave, commits fall, hosts change and appends
 * are refused, the live agent, its snapshots with the tail, its local cache with the tail and the
 * journal alone are the same state and the same bytes of database, at every sequence.
 *
 * REPLAY_RUNS raises the number of runs.
 */
import fc from "../kit/property.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { program, type Event } from "./Program.ts";
import { ID, momentOf, ReplayRig, type Moment } from "./ReplayRig.ts";

const RUNS = Number(process.env["REPLAY_RUNS"] ?? 120);

/** What it found once. */
const FOUND: [Event[], number][] = [
  // An older owner's first event came after the new owner had read that there was none.
  [
    [
      { on: "call", actions: [{ act: "setState", state: { to: "value", value: null } }] },
      { on: "move" },
      { on: "call", actions: [{ act: "wait", ms: 70 }] },
    ],
    0,
  ],
  // A turn goes on for longer than an operator's restore waits: it runs again on what was put back.
  [
    [
      { on: "call", actions: [{ act: "setState", state: { to: "value", value: 1 } }] },
      { on: "time", ms: 20 },
      {
        on: "input",
        actions: [
          { act: "setState", state: { to: "value", value: 2 } },
          { act: "wait", ms: 30_000 },
          { act: "setState", state: { to: "value", value: 3 } },
        ],
        fails: false,
      },
      { on: "time", ms: 100 },
      { on: "restore", nth: 0 },
      { on: "time", ms: 12_000 },
      { on: "call", actions: [{ act: "wait", ms: 1 }] },
    ],
    0,
  ],
  // A restore made the triggers of users' tables anew, though it changed none of their rows.
  [
    [
      {
        on: "input",
        actions: [
          {
            act: "transaction",
            statements: [
              { do: "table", n: 1 },
              { do: "trigger", n: 1 },
            ],
            throws: false,
          },
        ],
        fails: false,
      },
      { on: "time", ms: 100 },
      {
        on: "input",
        actions: [{ act: "setState", state: { to: "value", value: 1 } }],
        fails: false,
      },
      { on: "time", ms: 100 },
      { on: "restore", nth: 0 },
    ],
    0,
  ],
];

let memory: Awaited<ReturnType<typeof openSqliteDatabases>>;
const total = {
  runs: 0,
  atRest: 0,
  events: 0,
  compared: 0,
  snapshots: 0,
  cached: 0,
  refused: 0,
  moves: 0,
  restored: 0,
};

beforeAll(async () => {
  memory = await openSqliteDatabases({ folder: undefined });
});
afterAll(() => {
  memory.close();
  console.info("replay equality:", total);
});

/** What the journal, with or without snapshots, says the agent was at a sequence. */
async function rebuilt(rig: ReplayRig, atSeq: number, withSnapshots: boolean): Promise<Moment> {
  const connection = rig.broker.connect("reader");
  const snapshots = withSnapshots ? { snapshots: makeMemorySnapshots(connection) } : {};
  const { databases } = memory;
  const journal = makeMemoryJournal(connection);
  const { image, database } = await rebuildAgent(ID, { journal, databases, atSeq, ...snapshots });
  try {
    return momentOf(image.seq, image.state, database);
  } finally {
    database.close();
    connection.close();
  }
}

/** What the agent's own code sees when nothing is on its way is what the journal says. */
async function atRest({ live: agent, broker }: ReplayRig): Promise<void> {
  if (agent === undefined || agent.discarded) return;
  const { databases } = memory;
  const journal = makeMemoryJournal(broker.connect("reader"));
  const { image, database } = await rebuildAgent(ID, { journal, databases });
  try {
    const state = agent.hasState ? JSON.stringify(agent.state) : undefined;
    expect(state, "the state that the agent sees").toBe(image.state);
    const seen = (sql: string) => agent.database.query(sql, []).rows;
    expect(seen("PRAGMA integrity_check")).toEqual([["ok"]]);
    const schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY name";
    expect(seen(schema), "the schema that the agent sees").toEqual(database.query(schema, []).rows);
    for (const [name] of seen("SELECT name FROM sqlite_schema WHERE name GLOB 't[0-9]'")) {
      const rows = `SELECT id, k, r, length(x) FROM ${String(name)} ORDER BY id`;
      expect(seen(rows), `rows of ${String(name)}`).toEqual(database.query(rows, []).rows);
    }
    total.atRest++;
  } finally {
    database.close();
  }
}

async function live(events: ReadonlyArray<Event>, seed: number): Promise<void> {
  const folder = tempFolder("replay");
  try {
    await ReplayRig.with({ folder: folder.path, seed }, async (rig) => {
      for (const event of events) await rig.happen(event);
      await rig.rest();
      rig.broker.intercept = undefined;
      expect(rig.left, "inputs that were never done").toBe(0);
      for (const { seq } of rig.broker.journal.eventsOf(ID)) {
        const full = await rebuilt(rig, seq, false);
        expect(await rebuilt(rig, seq, true), "snapshot and tail").toEqual(full);
        const lived = rig.moments.get(seq);
        // Not all were lived: claims, and what was stored when its host had gone.
        if (lived !== undefined) {
          expect(lived, "the live agent").toEqual(full);
          total.compared++;
        }
        total.events++;
      }
      await atRest(rig);
      total.runs++;
      for (const name of ["snapshots", "cached", "refused", "moves", "restored"] as const)
        total[name] += rig.counts[name];
    });
  } finally {
    folder.remove();
  }
}

test("live database == snapshot and tail == full replay, and state too, at every sequence", async () => {
  await fc.assert(
    fc.asyncProperty(program, fc.integer(), (events, seed) => live(events, seed)),
    { numRuns: RUNS, examples: FOUND },
  );
  // The property bites only where these happened.
  for (const count of Object.values(total)) expect(count).toBeGreaterThan(0);
}, 600_000);
