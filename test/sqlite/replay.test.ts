/**
 * Replay equality: whatever the SQL was and however commits, snapshots and activations fell, the
 * live committed image, the newest snapshot with the deltas after it, and the replay of all deltas
 * from nothing are the same bytes, after every commit; and they hold what SQL saw at the freeze.
 *
 * REPLAY_RUNS raises the number of runs.
 */
import fc from "../kit/property.ts";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { applyPageDelta, hashImage } from "../kit/pages.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { openLayer, REPO, restAll, seq } from "./kit.ts";
import { run, step, type Step } from "./Workload.ts";

type Databases = Awaited<ReturnType<typeof openLayer>>["databases"];

const RUNS = Number(process.env["REPLAY_RUNS"] ?? 80);
/** Small enough that most databases outgrow it and live in their file. */
const RESIDENT_BYTES = 32 * 1024;

let folder: TempFolder;
let memory: Databases;
const closers: (() => void)[] = [];

beforeAll(async () => {
  folder = tempFolder("replay");
  const opened = await openLayer();
  memory = opened.databases;
  closers.push(opened.close);
});
afterAll(() => {
  for (const close of closers) close();
  folder.remove();
});

/** Every row that SQL sees, for comparison; reading changes nothing. */
function dump(database: AgentDatabase): string {
  const tables = database.query(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'f_%' ORDER BY name",
    [],
  );
  return JSON.stringify(
    tables.rows.map(([name]) => {
      const { columns } = database.query(`SELECT * FROM "${name}" LIMIT 0`, []);
      const list = columns.map(
        (c) => `quote(CASE WHEN length("${c}") > 500 THEN length("${c}") ELSE "${c}" END)`,
      );
      return [
        name,
        database.query(`SELECT rowid, ${list.join(",")} FROM "${name}" ORDER BY rowid`, []).rows,
      ];
    }),
  );
}

/** An agent's database, and everything that its journal would hold. */
class Journaled {
  private live: AgentDatabase;
  private readonly deltas: Uint8Array[] = [];
  /** All deltas applied to nothing, one by one, in the plainest way. */
  private replayed: Uint8Array = new Uint8Array(0);
  /** The same by the adapter. */
  private readonly replica: AgentDatabase;
  private snapshot: { readonly at: number; readonly image: Uint8Array } = {
    at: 0,
    image: new Uint8Array(0),
  };
  private inFlight: { readonly delta: Uint8Array; readonly dump: string | undefined } | undefined;

  constructor(private readonly databases: Databases) {
    databases.discard(REPO);
    this.live = databases.open(REPO).database;
    this.replica = memory.open(REPO).database;
  }

  take(what: Step): void {
    switch (what.step) {
      case "run":
        return run(this.live, what.statement);
      case "transaction":
        return this.transaction(what);
      case "freeze":
        return this.freeze(true);
      case "committed":
        this.freeze(true);
        return this.committed();
      case "snapshot":
        this.snapshot = { at: this.deltas.length, image: this.live.image() };
        return;
      case "rest":
        return restAll(this.databases);
      case "reopen":
        return this.reopen(what.keep);
    }
  }

  /** Commits what is left and compares for the last time. */
  end(): void {
    this.committed();
    this.freeze(true);
    this.committed();
    expect(this.live.query("PRAGMA integrity_check", []).rows).toEqual([["ok"]]);
    this.reopen(true);
    expect(hashImage(this.live.image())).toBe(hashImage(this.replayed));
    this.live.close();
    this.replica.close();
  }

  private transaction(what: Step & { step: "transaction" }): void {
    const undo = new Error("undo");
    try {
      this.live.transaction(() => {
        what.statements.forEach((statement, i) => {
          run(this.live, statement);
          if (i !== what.freezeAfter) return;
          this.committed();
          this.freeze(false);
          this.committed();
        });
        this.nested(what, undo);
        if (what.throws) throw undo;
      });
    } catch (error) {
      if (error !== undo && !(error instanceof Error && error.name === "SqliteError")) throw error;
    }
  }

  private nested(what: Step & { step: "transaction" }, undo: Error): void {
    try {
      this.live.transaction(() => {
        for (const statement of what.inner) run(this.live, statement);
        if (what.innerThrows) throw undo;
      });
    } catch (error) {
      if (error !== undo && !(error instanceof Error && error.name === "SqliteError")) throw error;
    }
  }

  /** `sees`: what SQL sees now is what is frozen, which is not so inside a transaction. */
  private freeze(sees: boolean): void {
    if (this.inFlight !== undefined) return;
    const seen = sees ? dump(this.live) : undefined;
    const frozen = this.live.freeze();
    if (frozen !== undefined) this.inFlight = { delta: frozen.delta, dump: seen };
  }

  private committed(): void {
    if (this.inFlight === undefined) return;
    const { delta, dump: seen } = this.inFlight;
    this.inFlight = undefined;
    this.live.committed();
    this.deltas.push(delta);
    this.replayed = applyPageDelta(this.replayed, delta);
    this.replica.apply(delta);
    const hash = hashImage(this.live.image());
    expect(hashImage(this.replayed)).toBe(hash);
    expect(hashImage(this.replica.image())).toBe(hash);
    const tail = memory.open(REPO).database;
    tail.restore(this.snapshot.image);
    for (const later of this.deltas.slice(this.snapshot.at)) tail.apply(later);
    expect(hashImage(tail.image())).toBe(hash);
    expect(tail.query("PRAGMA integrity_check", []).rows).toEqual([["ok"]]);
    if (seen !== undefined) expect(dump(tail)).toBe(seen);
    tail.close();
  }

  /** Closes and activates again, as hibernation (`keep`) and a move to another host do. */
  private reopen(keep: boolean): void {
    const at = seq(this.deltas.length + 1);
    this.inFlight = undefined;
    this.live.close(keep ? { seq: at, core: Uint8Array.of(1) } : undefined);
    const { database, cached } = this.databases.open(REPO);
    this.live = database;
    expect(cached?.seq).toBe(keep ? at : undefined);
    if (!keep) {
      database.restore(this.snapshot.image);
      for (const delta of this.deltas.slice(this.snapshot.at)) database.apply(delta);
    }
    expect(hashImage(database.image())).toBe(hashImage(this.replayed));
  }
}

it(
  "a database is the same live, from a snapshot and later deltas, and from all deltas",
  { timeout: 600_000 },
  async () => {
    const { databases, close } = await openLayer(folder.path, RESIDENT_BYTES, 0);
    closers.push(close);
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 80, size: "max" }), (steps) => {
        const journaled = new Journaled(databases);
        try {
          for (const table of [0, 1, 2]) run(journaled["live"], { do: "table", n: table });
          for (const one of steps) journaled.take(one);
          journaled.end();
        } finally {
          // A failed run leaves its database open; the next must find the agent closed.
          journaled["live"].close();
        }
      }),
      { numRuns: RUNS },
    );
  },
);
