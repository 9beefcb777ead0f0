/** The view of all agents (`core/query/View`): its rows are those of the stored agents. */
import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "../kit/property.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { View, VIEW_LIMITS } from "../../core/query/View.ts";
import { HistoryTrimmed } from "../../core/journal/HistoryTrimmed.ts";
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { Fleet, Killed } from "./Fleet.ts";

const IDS = [
  agentId("Repo", "a"),
  agentId("Repo", "b"),
  agentId("Customer", "a"),
  agentId("REPO", "x'; DROP TABLE Repo; --"),
] as const;
/** A save after each batch: a kill then leaves a part. */
const OFTEN = { ...VIEW_LIMITS, batchEvents: 3, unsavedBytesMax: 1 };
const READ = { rowsMax: 1_000, timeMsMax: 10_000 };

let folder: TempFolder;
let fleet: Fleet;
beforeEach(async () => {
  folder = tempFolder("view");
  fleet = await Fleet.open();
});
afterEach(() => folder.remove());

/** One process that brings the view up to date. Resolves to what `use` finds. */
async function inProcess<A>(
  use: (view: View) => A,
  { stopAfter = Infinity, limits = OFTEN, rebuild = false, meanwhile = async () => {} } = {},
): Promise<A> {
  const opened = await openSqliteDatabases({ folder: folder.path, residentBytesMax: 2 ** 26 });
  try {
    const view = new View(opened.databases, "agents", { limits });
    if (rebuild) view.forget();
    await view.catchUp(fleet.sources(stopAfter, meanwhile));
    const found = use(view);
    view.close();
    return found;
  } finally {
    opened.close();
  }
}

const select = (view: View, sql: string): ReadonlyArray<Record<string, unknown>> => {
  const { columns, rows } = view.read(sql, READ);
  return rows.map((row) => Object.fromEntries(columns.map((column, n) => [column, row[n]])));
};

const rowsOf = (view: View): ReadonlyArray<Record<string, unknown>> =>
  select(
    view,
    `SELECT class, name, seq, time, size, state, (SELECT json_group_array(id) FROM
       (SELECT value->>'id' AS id FROM json_each(schedules) ORDER BY 1)) AS schedules
     FROM agents ORDER BY class || '/' || name`,
  ).map((row) => ({ ...row, schedules: JSON.parse(row["schedules"] as string) as unknown }));

/** What a view as of a time has, and where that is trimmed from when on there is one. */
async function asOf(atTimeMs: number) {
  const { databases } = fleet.ports;
  const view = new View(databases, "agents", { limits: OFTEN, kept: false, atTimeMs });
  await view.catchUp(fleet.sources());
  const found = view.trimmed === undefined ? { rows: rowsOf(view) } : { fromMs: view.trimmed.fromMs }; // prettier-ignore
  view.close();
  return found;
}

const killed = (error: unknown): void => {
  if (!(error instanceof Killed)) throw error;
};

type Act = readonly [what: "turn" | "grow" | "fail" | "schedule" | "claim" | "destroy" | "erase" | "trim" | "read" | "kill", n: number]; // prettier-ignore

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 10, arbitrary: fc.tuple(fc.constantFrom("turn" as const, "grow" as const, "fail" as const, "schedule" as const), fc.nat(3)) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom("claim" as const, "destroy" as const, "erase" as const), fc.nat(3)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant("trim" as const), fc.nat(3)) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom("read" as const, "kill" as const), fc.nat(7)) },
); // prettier-ignore

async function happen([what, n]: Act): Promise<void> {
  const id = IDS[n % IDS.length]!;
  switch (what) {
    case "turn":
      return void (await fleet.turn(id, { state: { n: fleet.end } }));
    case "grow": // past what is written whole: splices
      return void (await fleet.turn(id, { state: { text: "x".repeat(2_000), n: fleet.end } }));
    case "fail":
      return void (await fleet.turn(id, { error: `failed at ${fleet.end}` }));
    case "schedule":
      return void (await fleet.turn(id, { schedule: `s${fleet.end % 3}` }));
    case "claim":
      return void (await fleet.claim(id));
    case "destroy":
      return fleet.destroy(id);
    case "erase":
      return fleet.erase(id);
    case "trim":
      return fleet.trim(id, 1);
    case "read":
      return inProcess(() => undefined);
    case "kill":
      return inProcess(() => undefined, { stopAfter: n }).catch(killed);
  }
}

describe("the view", () => {
  it("has the rows of the agents as stored, whatever happened and wherever it was killed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 10, maxLength: 60 }), async (acts) => {
        fleet = await Fleet.open();
        folder = tempFolder("view");
        try {
          for (const each of acts) await happen(each);
          const rows = await fleet.rows();
          expect(await inProcess(rowsOf)).toEqual(rows);
          expect(await inProcess(rowsOf, { rebuild: true })).toEqual(rows);
        } finally {
          folder.remove();
        }
      }),
      { numRuns: 60 },
    );
  });

  it("as of any time has the agents of that time, or says since when it has them", async () => {
    const times = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 }); // prettier-ignore
    await fc.assert(
      fc.asyncProperty(
        fc.array(act, { minLength: 10, maxLength: 40 }),
        times,
        async (acts, shares) => {
          fleet = await Fleet.open();
          folder = tempFolder("view");
          try {
            const startMs = fleet.time.nowMs();
            for (const each of acts) await happen(each);
            const endMs = fleet.time.nowMs();
            for (const share of shares) {
              const atTimeMs = startMs + Math.round(share * (endMs - startMs));
              const rows = await fleet.rows(atTimeMs).catch((error: unknown) => {
                if (error instanceof HistoryTrimmed) return undefined;
                throw error;
              });
              const found = await asOf(atTimeMs);
              if (rows !== undefined) expect(found).toEqual({ rows });
              else {
                expect(found.fromMs).toBeGreaterThan(atTimeMs);
                expect(await asOf(found.fromMs!)).toEqual({ rows: await fleet.rows(found.fromMs) });
                expect(await asOf(found.fromMs! - 1)).toHaveProperty("fromMs");
              }
            }
          } finally {
            folder.remove();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("continues where the last process ended, without reading again", async () => {
    await fleet.turn(IDS[0], { state: { n: 1 } });
    await fleet.turn(IDS[1], { state: { n: 2 } });
    await inProcess(() => undefined);
    await fleet.turn(IDS[0], { state: { n: 3 } });
    // A second event would kill it.
    const rows = await inProcess(rowsOf, { stopAfter: 1 });
    expect(rows).toEqual(await fleet.rows());
  });

  it("keeps what it had saved before a kill, and counts no error twice", async () => {
    for (let n = 0; n < 10; n++) await fleet.turn(IDS[0], { error: `failed ${n}` });
    await expect(inProcess(() => undefined, { stopAfter: 8 })).rejects.toBeInstanceOf(Killed);
    // Six were saved in two batches.
    const rows = await inProcess((view) => select(view, "SELECT errors, error FROM Repo"), { stopAfter: 4 }); // prettier-ignore
    expect(rows).toEqual([{ errors: 10, error: "failed 9" }]);
  });

  it("counts the errors of untrimmed history, even if more is trimmed while it reads", async () => {
    const errors = (view: View) => select(view, "SELECT errors, error FROM Repo");
    await fleet.turn(IDS[0], { error: "the first" });
    await inProcess(() => undefined);
    await fleet.turn(IDS[0]);
    await fleet.turn(IDS[0]);
    for (let n = 0; n < 3; n++) await fleet.turn(IDS[0], { error: `failed ${n}` });
    await fleet.trim(IDS[0], 3);
    expect(fleet.broker.journal.eventsOf(IDS[0])).toHaveLength(3);
    expect(await inProcess(errors)).toEqual([{ errors: 4, error: "failed 2" }]);
    await fleet.turn(IDS[0]);
    for (let n = 3; n < 8; n++) await fleet.turn(IDS[0], { error: `failed ${n}` });
    await fleet.trim(IDS[0], 4);
    const meanwhile = (): Promise<void> => fleet.trim(IDS[0], 1);
    // The first that is read is trimmed by now: the agent is read as it is, and what follows is
    // passed over.
    const [row] = await inProcess(errors, { meanwhile });
    expect(row).toEqual({ errors: 5, error: null });
    expect(await inProcess(rowsOf)).toEqual(await fleet.rows());
  });

  it("is rebuilt when its file is truncated anywhere, and detects damage in any page", async () => {
    for (let n = 0; n < 50; n++)
      await fleet.turn(agentId("Repo", `agent-${n}`), { state: { text: "x".repeat(500) } });
    const rows = await fleet.rows();
    await inProcess(() => undefined);
    const [name] = readdirSync(folder.path, { recursive: true, encoding: "utf8" }).filter((path) =>
      path.endsWith(".image"),
    );
    const path = join(folder.path, name!);
    const whole = readFileSync(path);
    for (const bytes of [0, 5_000, whole.length - 1]) {
      truncateSync(path, bytes);
      expect(await inProcess(rowsOf)).toEqual(rows);
    }
    const damaged = Buffer.from(readFileSync(path));
    damaged[3 * 4096 + 100]! ^= 1;
    writeFileSync(path, damaged);
    await expect(inProcess(rowsOf)).rejects.toMatchObject({ _tag: "LocalImageCorrupt" });
  });

  it("of another installation, or ahead of the streams, is rebuilt", async () => {
    await fleet.turn(IDS[0], { state: { of: "the first" } });
    await fleet.turn(IDS[1], { state: { of: "the first" } });
    await inProcess(() => undefined);
    fleet = await Fleet.open();
    await fleet.turn(IDS[2], { state: { of: "the one with a disk put back" } });
    expect(await inProcess(rowsOf)).toEqual(await fleet.rows());
    fleet = await Fleet.open();
    fleet.created = "2026-02-02T00:00:00Z";
    await fleet.turn(IDS[0], { state: { of: "the one made anew" } });
    expect(await inProcess(rowsOf)).toEqual(await fleet.rows());
  });

  it("keeps no byte of an agent that was erased", async () => {
    await fleet.turn(IDS[0], { state: { secret: "correct horse battery" } });
    await fleet.turn(IDS[1], { state: { text: "y".repeat(20_000) } });
    await inProcess(() => undefined);
    const bytes = (): string =>
      readdirSync(folder.path, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
        .join("");
    expect(bytes()).toContain("correct horse");
    expect(bytes()).toContain("y".repeat(1_000));
    await fleet.erase(IDS[0]);
    await fleet.erase(IDS[1]);
    expect(await inProcess(rowsOf)).toEqual([]);
    expect(bytes()).not.toContain("correct horse");
    expect(bytes()).not.toContain("y".repeat(1_000));
  });

  it("keeps a damaged agent's row with the reason, and continues with the others", async () => {
    await fleet.turn(IDS[0], { state: { n: 1 } });
    await fleet.append(IDS[0], { after: 77 });
    await fleet.turn(IDS[2], { state: { n: 2 } });
    const rows = await inProcess((view) =>
      select(view, "SELECT name, state, fault FROM agents ORDER BY class"),
    );
    expect(rows).toEqual([
      { name: "a", state: '{"n":2}', fault: null },
      { name: "a", state: '{"n":1}', fault: expect.stringContaining("follows event 77") as string },
    ]);
  });

  it("has a table for each class, under another name if SQLite reserves the name", async () => {
    const ids: AgentId[] = ["Repo", "REPO", "agents", "classes", "sqlite_x", "select", "$x"].map(
      (name) => agentId(name, `of ${name}`),
    );
    for (const id of ids) await fleet.turn(id, { state: { class: id.class } });
    const tables = await inProcess((view) => select(view, "SELECT * FROM classes"));
    const named = Object.fromEntries(tables.map((row) => [row["class"], row["table_name"]]));
    expect(named).toEqual({
      Repo: "Repo", REPO: "REPO_2", agents: "agents_2", classes: "classes_2",
      sqlite_x: "_sqlite_x", select: "select", $x: "$x",
    }); // prettier-ignore
    for (const { class: of } of ids) {
      const rows = await inProcess((view) => select(view, `SELECT name FROM "${named[of] as string}"`)); // prettier-ignore
      expect(rows).toEqual([{ name: `of ${of}` }]);
    }
    expect(await inProcess(rowsOf)).toEqual(await fleet.rows());
  });
});
