import {
  readdirSync,
  readFileSync,
  writeSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LocalImageCorrupt, type AgentDatabase } from "../../core/database/Databases.ts";
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { cachedAgents } from "../../services/sqlite/cachedAgents.ts";
import { hashImage } from "../kit/pages.ts";
import { OpenFiles } from "../../services/sqlite/OpenFiles.ts";
import { collect } from "../kit/collect.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { column, commit, openLayer, REPO, seq } from "./kit.ts";

const CORE = Uint8Array.of(1, 2, 3);

let folder: TempFolder;
let layer: Awaited<ReturnType<typeof openLayer>>;

beforeEach(async () => {
  folder = tempFolder("sqlite");
  layer = await openLayer(folder.path);
});
afterEach(() => {
  layer.close();
  folder.remove();
});

const open = (id = REPO) => layer.databases.open(id);

/** The process ends and starts again; `crash` leaves open databases as they are. */
async function restart(residentBytesMax?: number): Promise<void> {
  layer.close();
  layer = await openLayer(folder.path, residentBytesMax);
}

/** All files below the cache folder, with their paths. */
const files = (): string[] =>
  readdirSync(folder.path, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder.path, name))
    .filter((path) => statSync(path).isFile());
const file = (ending = ".image"): string => {
  const found = files().filter((path) => path.endsWith(ending));
  expect(found, `files that end in ${ending}: ${files().join(", ")}`).toHaveLength(1);
  return found[0]!;
};
/** Where the meta begins in a file that has one: it ends with the meta's length. */
const metaAt = (bytes: Buffer): number => bytes.length - 4 - bytes.readUInt32LE(bytes.length - 4);

/** A committed database of about `kib` KiB; returns the hash of its image. */
function fill(database: AgentDatabase, kib = 40): string {
  database.query("CREATE TABLE t (id INTEGER PRIMARY KEY, x)", []);
  for (let i = 0; i < kib; i++) database.query("INSERT INTO t (x) VALUES (randomblob(1000))", []);
  commit(database);
  return hashImage(database.image());
}

/** A clean cache of `kib` KiB at sequence 7; the hash of its image. */
function cached(kib?: number): string {
  const { database } = open();
  const hash = fill(database, kib);
  database.close({ seq: seq(7), core: CORE });
  return hash;
}

describe("a local cache", () => {
  it("returns the image, sequence and core that it was closed with", async () => {
    const hash = cached();
    await restart();
    const { database, cached: found } = open();
    expect(found).toEqual({ seq: 7, core: CORE });
    expect(hashImage(database.image())).toBe(hash);
    expect(column(database, "SELECT count(*) FROM t")).toEqual([40]);
    database.close();
  });

  it("keeps the core of an agent that never used its database, in one file", () => {
    open().database.close({ seq: seq(3), core: CORE });
    expect(files()).toHaveLength(1);
    const { database, cached: found } = open();
    expect(found).toEqual({ seq: 3, core: CORE });
    expect(database.imageBytes).toBe(0);
    database.close();
  });

  it("contains committed pages only, without later or in-flight writes", () => {
    const { database } = open();
    const hash = fill(database);
    database.query("DELETE FROM t WHERE id < 10", []);
    database.freeze();
    database.query("DELETE FROM t", []);
    database.close({ seq: seq(7), core: CORE });
    const again = open().database;
    expect(hashImage(again.image())).toBe(hash);
    again.close();
  });

  it("is replaced by the next close, and untouched by one at the same sequence", () => {
    cached();
    const before = statSync(file()).mtimeMs;
    open().database.close({ seq: seq(7), core: CORE });
    expect(statSync(file()).mtimeMs).toBe(before);
    const { database } = open();
    database.query("UPDATE t SET x = 1", []);
    commit(database);
    const hash = hashImage(database.image());
    database.close({ seq: seq(9), core: Uint8Array.of(9) });
    const again = open();
    expect(again.cached).toEqual({ seq: 9, core: Uint8Array.of(9) });
    expect(hashImage(again.database.image())).toBe(hash);
    again.database.close();
  });

  it("of a database that shrank is as short as one that was always small", () => {
    const hash = cached(20);
    const { size } = statSync(file());
    layer.databases.discard(REPO);
    cached(400);
    const { database } = open();
    database.query("DELETE FROM t; VACUUM", []);
    database.query("INSERT INTO t (x) VALUES (1)", []);
    commit(database);
    const small = hashImage(database.image());
    database.close({ seq: seq(9), core: CORE });
    expect(statSync(file()).size).toBeLessThan(size);
    const again = open();
    expect(again.cached?.seq).toBe(9);
    expect(hashImage(again.database.image())).toBe(small);
    expect(small).not.toBe(hash);
    again.database.close();
  });

  it("with metadata longer than one read is read whole", () => {
    const hash = cached(6_000);
    const core = new Uint8Array(9_000).fill(7);
    const { database } = open();
    database.query("UPDATE t SET x = 1 WHERE id = 1", []);
    commit(database);
    const changed = hashImage(database.image());
    database.close({ seq: seq(8), core });
    const again = open();
    expect(again.cached).toEqual({ seq: 8, core });
    expect(hashImage(again.database.image())).toBe(changed);
    expect(changed).not.toBe(hash);
    again.database.close();
  });

  it("of an emptied database has no pages left", () => {
    cached();
    const { database } = open();
    database.restore(new Uint8Array(0));
    database.close({ seq: seq(8), core: CORE });
    expect(files()).toHaveLength(1);
    const again = open();
    expect(again.cached?.seq).toBe(8);
    expect(again.database.imageBytes).toBe(0);
    again.database.close();
  });

  it("is removed by a close without keep, and by a discard", () => {
    cached();
    open().database.close();
    expect(files()).toEqual([]);
    cached();
    layer.databases.discard(REPO);
    expect(files()).toEqual([]);
    expect(open().cached).toBeUndefined();
  });

  it("has no metadata while its pages change, so that a killed process leaves no wrong one", async () => {
    cached(1000);
    const { database } = open();
    expect(metaAt(readFileSync(file()))).toBeGreaterThan(0);
    // More than stays in memory: pages move to the file.
    database.query("UPDATE t SET x = randomblob(1000)", []);
    commit(database);
    await restart();
    expect(open().cached).toBeUndefined();
  });

  it("stays valid after a kill if the commits since it was opened stayed in memory", async () => {
    const hash = cached();
    const { database } = open();
    database.query("UPDATE t SET x = 1 WHERE id = 1", []);
    commit(database);
    await restart();
    const { database: again, cached: found } = open();
    expect(found?.seq).toBe(7);
    expect(hashImage(again.image())).toBe(hash);
    again.close();
  });

  it("is not shared by an agent opened twice: the second stays in memory", () => {
    const first = open().database;
    fill(first);
    const second = open();
    expect(second.cached).toBeUndefined();
    second.database.close({ seq: seq(1), core: CORE });
    expect(files()).toEqual([]);
    // As when a failed agent is discarded after its successor has opened the file.
    layer.databases.discard(REPO);
    first.close({ seq: seq(7), core: CORE });
    expect(open().cached?.seq).toBe(7);
  });
});

describe("a scan of the folder", () => {
  const seen = async (startMs: number): Promise<string[]> => {
    const found: string[] = [];
    for await (const id of cachedAgents(folder.path, startMs)) found.push(id.name);
    return found.toSorted();
  };

  it("lists the agents whose files exist, whatever their names", async () => {
    const names = ["a", "../up", "x".repeat(1024)];
    for (const name of names)
      open(agentId("RepoAgent", name)).database.close({ seq: seq(1), core: CORE });
    expect(await seen(Date.now())).toEqual(names.toSorted());
    expect(files()).toHaveLength(names.length);
  });

  it("lists all of many agents", async () => {
    const names = Array.from({ length: 400 }, (_, n) => `n${n}`);
    for (const name of names)
      open(agentId("RepoAgent", name)).database.close({ seq: seq(1), core: CORE });
    expect(await seen(Date.now())).toEqual(names.toSorted());
  });

  it("removes a dead process's unidentifiable files, and nothing that is in use", async () => {
    cached(1000);
    const { database } = open();
    database.query("UPDATE t SET x = randomblob(1000)", []);
    commit(database);
    writeFileSync(join(folder.path, "older.meta"), "of a release before this one");
    // Its pages are changing: it says of no agent now.
    expect(await seen(Date.now() - 60_000)).toEqual([]);
    expect(files()).toHaveLength(2);
    expect(await seen(Date.now() + 60_000)).toEqual([]);
    expect(files()).toEqual([]);
    database.close();
  });

  it("goes on where files go meanwhile, as those of a running host do", async () => {
    const ids = Array.from({ length: 40 }, (_, n) => agentId("RepoAgent", `n${n}`));
    for (const id of ids) open(id).database.close({ seq: seq(1), core: CORE });
    const [kept] = ids;
    const found: string[] = [];
    for await (const { name } of cachedAgents(folder.path, 0)) {
      found.push(name);
      // The directory's entries were read before.
      for (const id of ids) if (id !== kept) layer.databases.discard(id);
    }
    expect(found).toContain(kept!.name);
    expect(found.length).toBeLessThanOrEqual(2);
  });

  it("finds nothing in a missing folder", async () => {
    expect(await collect(cachedAgents(join(folder.path, "none"), 0))).toEqual([]);
  });
});

describe("names of agents", () => {
  const names = [
    "a",
    "A",
    "../../etc/passwd",
    ".",
    "ü/ñ 😀",
    "x".repeat(1024),
    "ä".repeat(500),
    "con\0",
  ];

  it("of any kind have files of their own, inside the folder", () => {
    const ids: AgentId[] = names.map((name) => agentId("RepoAgent", name));
    ids.push(agentId("repoAgent", "a"), agentId("C".repeat(300), "a"));
    ids.forEach((id, i) => open(id).database.close({ seq: seq(i), core: CORE }));
    ids.forEach((id, i) => expect(open(id).cached?.seq).toBe(i));
    const lower = files().map((path) => path.toLowerCase());
    expect(new Set(lower).size).toBe(ids.length);
    for (const path of files())
      expect(path.split("/").every((part) => part.length < 255)).toBe(true);
  });

  it("are checked: a file under another agent's name is not used", () => {
    open(agentId("RepoAgent", "one")).database.close({ seq: seq(1), core: CORE });
    open(agentId("RepoAgent", "two")).database.close({ seq: seq(2), core: CORE });
    const [one, two] = ["one.image", "two.image"].map(file) as [string, string];
    writeFileSync(two, readFileSync(one));
    expect(open(agentId("RepoAgent", "two")).cached).toBeUndefined();
  });
});

describe("damage", () => {
  it("of any byte of the metadata, or a truncation, empties the cache", () => {
    cached();
    const path = file();
    const good = readFileSync(path);
    const meta = metaAt(good);
    const check = (bytes: Uint8Array): void => {
      writeFileSync(path, bytes);
      // Each opened one stays open, in memory for the second: nothing is written.
      const { database, cached: found } = open();
      expect(found).toBeUndefined();
      expect(database.imageBytes).toBe(0);
      database.close();
    };
    for (let at = meta; at < good.length; at++) {
      const bad = Uint8Array.from(good);
      bad[at]! ^= 1 << (at % 8);
      check(bad);
    }
    for (let length = meta; length < good.length; length += 7) check(good.subarray(0, length));
    for (let length = 0; length <= meta; length += 512) check(good.subarray(0, length));
  });

  it("of a page is detected when it is read, by a query, an update or a snapshot", () => {
    const uses: Record<string, (database: AgentDatabase) => unknown> = {
      sql: (database) => database.query("SELECT sum(length(x)) FROM t", []),
      image: (database) => database.image(),
      update: (database) => database.query("UPDATE t SET x = 0", []),
    };
    for (const [name, use] of Object.entries(uses)) {
      cached();
      const path = file();
      const bytes = readFileSync(path);
      bytes[4096 * 5 + 3000]! ^= 4;
      writeFileSync(path, bytes);
      const { database, cached: found } = open();
      expect(found, name).toBeDefined();
      expect(() => use(database), name).toThrow(LocalImageCorrupt);
      // It is poisoned: nothing goes on from half a database.
      expect(() => database.query("SELECT 1", []), name).toThrow(LocalImageCorrupt);
      expect(() => database.freeze(), name).toThrow(LocalImageCorrupt);
      database.close({ seq: seq(8), core: CORE });
      expect(files(), name).toEqual([]);
    }
  });

  it("of a page while the database is in use is detected by freeze", async () => {
    cached(1000);
    await restart();
    const { database } = open();
    database.query("UPDATE t SET x = 0 WHERE id = 500", []);
    const path = file();
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xee, 4096, metaAt(bytes)));
    expect(() => database.freeze()).toThrow(LocalImageCorrupt);
    database.close();
  });

  it("of a page that replay needs is detected by apply", () => {
    const { database: source } = open();
    fill(source);
    const before = source.image();
    source.query("UPDATE t SET x = 0", []);
    const delta = commit(source)!;
    source.close();
    const { database } = open();
    database.restore(before);
    database.close({ seq: seq(7), core: CORE });
    const again = open().database;
    truncateSync(file(), 4096 * 3);
    expect(() => again.apply(delta)).toThrow(LocalImageCorrupt);
    again.close();
  });

  it("by missing pages is detected", () => {
    cached();
    const { database } = open();
    writeFileSync(file(), "");
    expect(() => database.query("SELECT * FROM t", [])).toThrow(LocalImageCorrupt);
    expect(() => database.image()).toThrow(/octocat\/hello-world, page 1/);
    database.close();
  });
});

describe("a database larger than its share of memory", () => {
  it("keeps the rest in its file, and behaves the same", async () => {
    const memory = (await openLayer()).databases.open(REPO).database;
    const { database } = open();
    for (const one of [memory, database]) {
      one.query("CREATE TABLE t (id INTEGER PRIMARY KEY, x)", []);
      commit(one);
      for (let i = 0; i < 40; i++) {
        one.query(`INSERT INTO t (x) VALUES (zeroblob(200000 + ${i}))`, []);
        one.query(`UPDATE t SET x = hex(zeroblob(30000)) WHERE id = ${i} / 2`, []);
        commit(one);
      }
    }
    expect(hashImage(database.image())).toBe(hashImage(memory.image()));
    expect(database.imageBytes).toBeGreaterThan(4_000_000);
    expect(database.memoryBytes).toBeLessThan(1_000_000);
    expect(column(database, "PRAGMA integrity_check")).toEqual(["ok"]);
    database.close();
    memory.close();
  });

  it("shares a bounded number of open files with all the others", () => {
    const shared = new OpenFiles();
    const paths = Array.from({ length: 300 }, (_, i) => join(folder.path, "deep", `${i}.pages`));
    for (const [i, path] of [...paths, ...paths].entries()) {
      const fd = shared.use(path);
      writeSync(fd, String(i), 0);
      expect(shared.size).toBeLessThanOrEqual(128);
    }
    shared.closeAll();
    expect(shared.size).toBe(0);
    expect(paths.map((path) => readFileSync(path, "utf8"))).toEqual(
      paths.map((_, i) => `${300 + i}`),
    );
  });

  it("can be one of any number open at once", () => {
    const ids = Array.from({ length: 300 }, (_, i) => agentId("RepoAgent", `r${i}`));
    const all = ids.map((id) => {
      const { database } = open(id);
      database.restore(new Uint8Array(4096 * 80).fill(1));
      return database;
    });
    for (const database of all) expect(database.image().length).toBe(4096 * 80);
    for (const database of all) database.close();
  });

  it("uses memory when the disk rejects writes, and does not lose the agent", () => {
    layer.close();
    folder.remove();
    writeFileSync(folder.path, "a file where the folder should be");
    const { database } = open();
    fill(database, 1000);
    expect(column(database, "SELECT count(*) FROM t")).toEqual([1000]);
    expect(() => database.close({ seq: seq(1), core: CORE })).not.toThrow();
    expect(open().cached).toBeUndefined();
  });
});
