/**
 * The archive: what is trimmed is there first, is read as the journal is, and is found and erased
 * by its indexes.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StoredEvent } from "../../core/journal/Journal.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { emptyMember } from "../../services/archive/emptyMember.ts";
import { archiveFault } from "../../core/retention/archiveUrl.ts";
import { openArchive } from "../../services/archive/openArchive.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { ID, Journaled, STEP_MS } from "./Journaled.ts";

let folder: ReturnType<typeof tempFolder>;
let archive: ReturnType<typeof openArchive>;
beforeEach(() => {
  folder = tempFolder("archive");
  archive = openArchive(pathToFileURL(folder.path).href, {
    namespace: "agents",
    time: machineTime,
  });
});
afterEach(() => folder.remove());

const filesOf = (suffix: string): string[] =>
  readdirSync(folder.path, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(suffix))
    .map((name) => join(folder.path, name))
    .toSorted();
const read = async (agent: Journaled, range: { fromSeq?: number; toSeq?: number } = {}) => {
  const whole = archivedJournal({ ...agent.ports, archive });
  const found = [];
  const { fromSeq = 1, toSeq } = range;
  const asked = { fromSeq: fromSeq as Sequence, ...(toSeq && { toSeq: toSeq as Sequence }) };
  for await (const event of whole.read(ID, asked)) found.push(event);
  return found;
};
/** Trims to three events, twice or more, with more events between. */
async function trimmed(rounds = 2) {
  const agent = await Journaled.open();
  const all: StoredEvent[] = [];
  for (let round = 0; round < rounds; round++) {
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    all.splice(Math.max(0, all.length - 3), 3, ...agent.broker.journal.eventsOf(ID));
    expect(await agent.trim({ events: 3 }, { archive })).toMatchObject({ _tag: "Trimmed" });
  }
  return { agent, all };
}

describe("the archive", () => {
  test("with the journal gives every event as it was, and any range of them", async () => {
    const { agent, all } = await trimmed(3);
    expect(agent.seqs).toHaveLength(3);
    expect(await read(agent)).toEqual(all);
    for (const [from, to] of [
      [0, 4],
      [3, 9],
      [9, 15],
      [12, 23],
      [22, 23],
      [7, 7],
    ] as const) {
      const range = { fromSeq: all[from]!.seq, toSeq: all[to]!.seq };
      expect(await read(agent, range)).toEqual(all.slice(from, to + 1));
    }
    const whole = archivedJournal({ ...agent.ports, archive });
    expect(await whole.first(ID)).toEqual(all[0]);
  });

  test("rebuilds the agent at any point of its history", async () => {
    const { agent, all } = await trimmed();
    const journal = archivedJournal({ ...agent.ports, archive });
    for (const n of [0, 4, 10, all.length - 1]) {
      const { image, database } = await rebuildAgent(ID, { ...agent.ports, journal, atSeq: all[n]!.seq }); // prettier-ignore
      expect(JSON.parse(image.state!)).toEqual({ n: n + 1 });
      expect(database.query("SELECT count(*) FROM rows", []).rows).toEqual([[n + 1]]);
      database.close();
    }
  });

  test("is gzipped JSON lines, one row a turn with the state after it", async () => {
    const { all } = await trimmed();
    const rows = filesOf(".jsonl.gz")
      .flatMap((file) => execFileSync("zcat", [file], { encoding: "utf8" }).trim().split("\n"))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows.map(({ seq }) => seq)).toEqual(all.slice(0, -3).map(({ seq }) => seq));
    expect(rows[4]).toMatchObject({ class: "Book", name: "one", state: { n: 5 }, done: ["key-5"] });
    expect(rows[4]).toHaveProperty("cause.kind", "webhook");
  });

  test("agents that are trimmed at once share a segment, and each is read by its own range", async () => {
    const part = (name: string) => {
      const id = agentId("Book", name);
      return { id, put: archive.put(id, { events: events(name), previous: undefined, stateBefore: undefined }) }; // prettier-ignore
    };
    const { agent } = await trimmed(1);
    const events = (name: string) => [
      { ...agent.broker.journal.eventsOf(ID)[0]!, storedMs: name.length },
    ];
    const puts = ["a", "bb", "ccc"].map(part);
    const before = filesOf(".jsonl.gz").length;
    const places = await Promise.all(puts.map(({ put }) => put));
    expect(filesOf(".jsonl.gz")).toHaveLength(before + 1);
    for (const [n, { id }] of puts.entries())
      expect((await archive.read(id, places[n]!)).events).toEqual(events(id.name));
  });

  test("a part that is damaged, cut off or gone is found, and the journal stays readable", async () => {
    const { agent } = await trimmed();
    const [segment] = filesOf(".jsonl.gz");
    const bytes = readFileSync(segment!);
    const wrong = Buffer.from(bytes);
    wrong[bytes.length >> 1]! ^= 1;
    for (const content of [wrong, bytes.subarray(0, bytes.length - 9)]) {
      writeFileSync(segment!, content);
      await expect(read(agent)).rejects.toBeInstanceOf(CorruptFrame);
      expect(await agent.rebuilt()).toBeDefined();
    }
    writeFileSync(segment!, bytes);
    expect(await read(agent)).toHaveLength(16);
  });

  test("one that is away or full trims nothing, and says so", async () => {
    const agent = await Journaled.open();
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    const file = join(folder.path, "file");
    writeFileSync(file, "");
    const away = openArchive(pathToFileURL(join(file, "below")).href, {
      namespace: "agents",
      time: machineTime,
    });
    const refused = agent.trim({ events: 3 }, { archive: away });
    await expect(refused).rejects.toBeInstanceOf(ArchiveUnavailable);
    await expect(refused).rejects.toThrow(/^the archive .*ENOTDIR/);
    expect(agent.seqs).toHaveLength(8);
    expect(agent.broker.bases.get(ID)).toBeUndefined();
    if (process.getuid?.() === 0) return;
    chmodSync(folder.path, 0o500);
    await expect(agent.trim({ events: 3 }, { archive })).rejects.toThrow("EACCES");
    chmodSync(folder.path, 0o700);
  });

  test("one that does not keep what it is given trims nothing", async () => {
    const agent = await Journaled.open();
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    const store = (archive as unknown as { options: { store: { put: unknown } } }).options.store;
    const put = store.put as (key: string, bytes: Uint8Array) => Promise<void>;
    store.put = (key: string, bytes: Uint8Array) =>
      put.call(store, key, bytes.subarray(0, bytes.length - 1));
    await expect(agent.trim({ events: 3 }, { archive })).rejects.toThrow("reads back otherwise");
    expect(agent.seqs).toHaveLength(8);
  });

  test("a temporary file of a process that died is no part of it", async () => {
    const { agent } = await trimmed();
    writeFileSync(`${filesOf(".jsonl.gz")[0]!}/../.tmp-of-a-dead-process`.replace(/[^/]+\/\.\.\//, ""), "half"); // prettier-ignore
    expect(await read(agent)).toHaveLength(16);
    expect(await archive.erase(ID.class, new Set([ID.name]))).toBe(2);
  });

  test("erasing removes an agent's parts and nobody else's, and the file stays readable", async () => {
    const { agent } = await trimmed(1);
    const events = [agent.broker.journal.eventsOf(ID)[0]!];
    const [one, other] = [agentId("Book", "erased"), agentId("Book", "other")];
    const part = { events, previous: undefined, stateBefore: undefined };
    const [, kept] = await Promise.all([archive.put(one, part), archive.put(other, part)]);
    const mentions = (): string[] =>
      [...filesOf(".gz"), ...filesOf(".json")].filter((file) => {
        const bytes = readFileSync(file);
        return (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).includes("erased");
      });
    expect(mentions()).toHaveLength(2);
    expect(await archive.erase(one.class, new Set([one.name]))).toBe(1);
    expect(mentions()).toEqual([]);
    expect((await archive.read(other, kept)).events).toEqual(events);
    expect(await archive.erase(one.class, new Set([one.name]))).toBe(0);
    expect(existsSync(join(folder.path, kept.segment))).toBe(true);
  });

  test.each([21, 22, 1_000, 100_000])(
    "an empty member of %i bytes is what zcat takes for nothing",
    (bytes) => {
      const member = emptyMember(bytes);
      expect(member).toHaveLength(bytes);
      expect(gunzipSync(member)).toHaveLength(0);
    },
  );

  test("only a folder's URL is an archive", () => {
    expect(archiveFault("file:///var/lib/archive")).toBeUndefined();
    for (const url of ["/var/lib", "s3x://bucket", "file://var/lib", ""])
      expect(archiveFault(url)).toMatch(/file:\/\/\//);
  });
});
