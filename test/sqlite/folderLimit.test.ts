/** The folder of local images: what is removed when it grows past its limit, and what stays. */
import { readdirSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { commit, seq } from "./kit.ts";

const CORE = Uint8Array.of(1, 2, 3);
const KIB = 1024;
/** Room for some of the agents' images, which have 48 KiB each. */
const BYTES_MAX = 20 * 48 * KIB;

let folder: TempFolder;
let layer: Awaited<ReturnType<typeof openSqliteDatabases>>;

beforeEach(async () => {
  folder = tempFolder("folder-limit");
  layer = await openSqliteDatabases({ folder: folder.path, folderBytesMax: BYTES_MAX });
});
afterEach(() => {
  layer.close();
  folder.remove();
});

const named = (name: string): AgentId => agentId("RepoAgent", name);
const open = (name: string) => layer.databases.open(named(name)).database;
const isKept = (name: string): boolean => {
  const { database, cached } = layer.databases.open(named(name));
  database.close(cached === undefined ? undefined : { seq: cached.seq, core: cached.core });
  return cached !== undefined;
};

/** Opens the agent, writes 40 rows of 1,000 bytes and closes it. */
function use(name: string): void {
  const database = open(name);
  database.query("CREATE TABLE IF NOT EXISTS t (x)", []);
  for (let i = 0; i < 40; i++) database.query("INSERT INTO t (x) VALUES (randomblob(1000))", []);
  commit(database);
  database.close({ seq: seq(1), core: CORE });
}

const paths = (): string[] =>
  readdirSync(folder.path, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder.path, name))
    .filter((path) => path.endsWith(".image"));
const bytes = (): number => paths().reduce((sum, path) => sum + statSync(path).size, 0);

const pathOf = (name: string) => paths().find((path) => path.endsWith(`/${name}.image`));

/** As if the agent had been used so many minutes ago. */
function age(name: string, minutes: number): void {
  const path = pathOf(name)!;
  const seconds = Date.now() / 1_000 - minutes * 60;
  utimesSync(path, seconds, seconds);
}

const whenSmaller = (): Promise<true> =>
  pollUntil("the folder is below its limit", () => bytes() <= BYTES_MAX);
/** It may be the last one that goes, when the folder is below its limit already. */
const whenRemoved = (name: string): Promise<true> =>
  pollUntil(`the image of ${name} is removed`, () => pathOf(name) === undefined);

it("past the limit, the images that were used longest ago are removed, and not all of them", async () => {
  for (let n = 0; n < 20; n++) {
    use(`a${n}`);
    age(`a${n}`, 100 - n);
  }
  expect(paths()).toHaveLength(20);
  for (let n = 0; n < 5; n++) use(`b${n}`);
  await whenSmaller();
  await whenRemoved("a0");
  expect(isKept("a19")).toBe(true);
  for (let n = 0; n < 5; n++) expect(isKept(`b${n}`)).toBe(true);
});

it("it stays below the limit for as long as agents are added", async () => {
  for (let n = 0; n < 100; n++) {
    use(`a${n}`);
    age(`a${n}`, 1_000 - n);
    if (n % 10 === 9) await whenSmaller();
  }
  await whenRemoved("a0");
  expect(isKept("a99")).toBe(true);
});

it("the image of an agent in memory stays, however long ago it was written", async () => {
  use("old");
  age("old", 1_000);
  const { database, cached } = layer.databases.open(named("old"));
  expect(cached).toBeDefined();
  for (let n = 0; n < 30; n++) {
    use(`a${n}`);
    age(`a${n}`, 100 - n);
  }
  await whenSmaller();
  expect(database.query("SELECT count(*) FROM t", []).rows).toEqual([[40]]);
  database.close({ seq: seq(2), core: CORE });
  expect(isKept("old")).toBe(true);
});

it("an agent that only read counts as used", async () => {
  const DAY_MINUTES = 24 * 60;
  for (const name of ["reader", "other"]) {
    use(name);
    age(name, 2 * DAY_MINUTES);
  }
  expect(isKept("reader")).toBe(true);
  for (let n = 0; n < 25; n++) {
    use(`a${n}`);
    age(`a${n}`, DAY_MINUTES - n);
  }
  await whenSmaller();
  await whenRemoved("other");
  expect(isKept("reader")).toBe(true);
});
