/** The archive, in a folder and in a bucket: trimmed history is there, is read and is erased. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StoredEvent } from "../../core/journal/Journal.ts";
import { endLife } from "../../core/journal/endLife.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { decodeEvent, encodeEvent } from "../../schemas/JournalEvent.ts";
import { emptyMember } from "../../services/archive/emptyMember.ts";
import { eraseAlone } from "../../services/archive/eraseAlone.ts";
import { archiveFault } from "../../core/retention/archiveUrl.ts";
import { FolderStore } from "../../services/archive/FolderStore.ts";
import { openArchive } from "../../services/archive/openArchive.ts";
import { SegmentArchive } from "../../services/archive/SegmentArchive.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { BACKENDS, type ArchiveBackend } from "./archiveBackends.ts";
import { ID, Journaled, STEP_MS } from "./Journaled.ts";
import { collect } from "../kit/collect.ts";

let backend: ArchiveBackend;
let store: ArchiveBackend["store"];
let archive: SegmentArchive;
const open = async (make: () => Promise<ArchiveBackend>): Promise<void> => {
  backend = await make();
  store = backend.store;
  archive = new SegmentArchive({ store, namespace: "agents", time: machineTime });
};

const objectsOf = async (suffix: string): Promise<string[]> =>
  (await collect(store.list("agents/"))).filter((key) => key.endsWith(suffix));
const bytesOf = async (key: string): Promise<Buffer> => Buffer.from((await store.get(key))!);
const read = async (agent: Journaled, range: { fromSeq?: number; toSeq?: number } = {}) => {
  const whole = archivedJournal({ ...agent.ports, archive });
  const { fromSeq = 1, toSeq } = range;
  const asked = { fromSeq: fromSeq as Sequence, ...(toSeq && { toSeq: toSeq as Sequence }) };
  return collect(whole.read(ID, asked));
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

describe.each(BACKENDS)("the archive in %s", (_name, make) => {
  beforeEach(() => open(make));
  afterEach(() => backend.close());

  test("keeps objects by name: whole, in parts, replaced, listed", async () => {
    const bytes = (text: string) => new TextEncoder().encode(text);
    expect(await store.get("agents/a/none")).toBeUndefined();
    expect(await store.get("agents/a/none", { offset: 0, bytes: 1 })).toBeUndefined();
    const keys = ["agents/a/1/x", "agents/a/2/y", "agents/ab/z", "other/z"];
    for (const key of keys) await store.put(key, bytes(key));
    await store.put("agents/a/1/x", bytes("0123456789"));
    const part = async (offset: number, count: number) =>
      Buffer.from((await store.get("agents/a/1/x", { offset, bytes: count }))!).toString();
    expect(await part(0, 10)).toBe("0123456789");
    expect(await part(3, 2)).toBe("34");
    expect(await part(8, 5)).toBe("89");
    expect(await part(20, 5)).toBe("");
    expect(await collect(store.list("agents/a/"))).toEqual(keys.slice(0, 2));
    expect(await collect(store.list("agents/none/"))).toEqual([]);
  });

  test("returns, with the journal, every event unchanged, and any range", async () => {
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
    const segments = await Promise.all((await objectsOf(".jsonl.gz")).map(bytesOf));
    const rows = segments
      .flatMap((input) => execFileSync("zcat", { input, encoding: "utf8" }).trim().split("\n"))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows.map(({ seq }) => seq)).toEqual(all.slice(0, -3).map(({ seq }) => seq));
    expect(rows[4]).toMatchObject({ class: "Book", name: "one", state: { n: 5 }, done: ["key-5"] });
    expect(rows[4]).toHaveProperty("cause.kind", "webhook");
  });

  test("omits states of more than 4 KiB in its rows", async () => {
    const { agent } = await trimmed(1);
    const [stored] = agent.broker.journal.eventsOf(ID);
    const { head } = decodeEvent(stored!.data);
    const events = [10, 5000].map((length) => {
      const turns = [{ ...head.turns[0]!, state: { set: { text: "x".repeat(length) } } }];
      return { ...stored!, data: encodeEvent({ ...head, turns }) };
    });
    const place = await archive.put(ID, { events, previous: undefined, stateBefore: undefined });
    const rows = gunzipSync(Buffer.from((await store.get(place.segment, place))!)).toString();
    expect(rows.trim().split("\n").map((row) => (JSON.parse(row) as { state: unknown }).state)).toEqual([{ text: "x".repeat(10) }, true]); // prettier-ignore
    expect((await archive.read(ID, place)).events).toEqual(events);
  });

  test("shares a segment among agents trimmed at once, and each is read by its own range", async () => {
    const part = (name: string) => {
      const id = agentId("Book", name);
      return { id, put: archive.put(id, { events: events(name), previous: undefined, stateBefore: undefined }) }; // prettier-ignore
    };
    const { agent } = await trimmed(1);
    const events = (name: string) => [
      { ...agent.broker.journal.eventsOf(ID)[0]!, storedMs: name.length },
    ];
    const puts = ["a", "bb", "ccc"].map(part);
    const before = (await objectsOf(".jsonl.gz")).length;
    const places = await Promise.all(puts.map(({ put }) => put));
    expect(await objectsOf(".jsonl.gz")).toHaveLength(before + 1);
    for (const [n, { id }] of puts.entries())
      expect((await archive.read(id, places[n]!)).events).toEqual(events(id.name));
  });

  test("reports a damaged, truncated or missing part, and the journal stays readable", async () => {
    const { agent } = await trimmed();
    const [segment] = await objectsOf(".jsonl.gz");
    const bytes = await bytesOf(segment!);
    const wrong = Buffer.from(bytes);
    wrong[bytes.length >> 1]! ^= 1;
    for (const content of [wrong, bytes.subarray(0, bytes.length - 9)]) {
      await store.put(segment!, content);
      await expect(read(agent)).rejects.toBeInstanceOf(CorruptFrame);
      expect(await agent.rebuilt()).toBeDefined();
    }
    const get = store.get.bind(store);
    Object.assign(store, { get: async () => undefined });
    await expect(read(agent)).rejects.toThrow("is gone: put the segment back");
    Object.assign(store, { get });
    await store.put(segment!, bytes);
    expect(await read(agent)).toHaveLength(16);
  });

  test("stops trimming if it does not keep what it is given", async () => {
    const agent = await Journaled.open();
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    const put = store.put.bind(store);
    Object.assign(store, {
      put: (key: string, bytes: Uint8Array) => put(key, bytes.subarray(0, bytes.length - 1)),
    });
    await expect(agent.trim({ events: 3 }, { archive })).rejects.toThrow(
      "differs from what was stored",
    );
    expect(agent.seqs).toHaveLength(8);
  });

  test("removes only an erased agent's parts, and the file stays readable", async () => {
    const { agent } = await trimmed(1);
    const events = [agent.broker.journal.eventsOf(ID)[0]!];
    const [one, other] = [agentId("Book", "erased"), agentId("Book", "other")];
    const part = { events, previous: undefined, stateBefore: undefined };
    const [, kept] = await Promise.all([archive.put(one, part), archive.put(other, part)]);
    const mentions = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const key of await objectsOf("")) {
        const bytes = await bytesOf(key);
        if ((key.endsWith(".gz") ? gunzipSync(bytes) : bytes).includes("erased")) found.push(key);
      }
      return found;
    };
    expect(await mentions()).toHaveLength(2);
    const [erased, ...others] = await archive.erase(one.class, new Set([one.name]));
    expect(others).toEqual([]);
    expect(await archive.sha256At(erased!)).toBe(erased!.now);
    expect(erased!.now).not.toBe(erased!.sha256);
    expect(await archive.sha256At(kept)).toBe(kept.sha256);
    expect(await archive.lastSeqsOf(one)).toEqual([]);
    expect(await archive.lastSeqsOf(other)).toEqual([events[0]!.seq]);
    expect(await mentions()).toEqual([]);
    expect((await archive.read(other, kept)).events).toEqual(events);
    expect(await archive.erase(one.class, new Set([one.name]))).toEqual([]);
    expect(await store.get(kept.segment)).toBeDefined();
  });

  test("removes the name of a part whose segment was never stored, once its writer is long gone", async () => {
    const { agent } = await trimmed(1);
    const events = [agent.broker.journal.eventsOf(ID)[0]!];
    const id = agentId("Book", "orphan");
    const full: ArchiveBackend["store"] = {
      name: store.name,
      get: (...given) => store.get(...given),
      list: (prefix) => store.list(prefix),
      put: async (key, bytes) => {
        if (key.endsWith(".gz")) throw new Error("no space");
        await store.put(key, bytes);
      },
    };
    const at = (ms: number, over = store) =>
      new SegmentArchive({
        store: over,
        namespace: "agents",
        time: { ...machineTime, nowMs: () => machineTime.nowMs() + ms },
      });
    const put = at(0, full).put(id, { events, previous: undefined, stateBefore: undefined });
    await expect(put).rejects.toThrow("no space");
    const erase = (ms: number) => at(ms).erase(id.class, new Set([id.name]));
    expect(await erase(0)).toEqual([]);
    expect(await archive.lastSeqsOf(id)).toHaveLength(1);
    expect(await erase(3_700_000)).toEqual([]);
    expect(await archive.lastSeqsOf(id)).toEqual([]);
    for (const key of await objectsOf(".json"))
      expect((await bytesOf(key)).toString()).not.toContain("orphan");
  });

  test("survives two processes that erase from one segment at once: nothing comes back", async () => {
    const { agent } = await trimmed(1);
    const events = [agent.broker.journal.eventsOf(ID)[0]!];
    const ids = [agentId("Book", "erased"), agentId("Book", "gone")] as const;
    const part = { events, previous: undefined, stateBefore: undefined };
    await Promise.all(ids.map((id) => archive.put(id, part)));
    const broker = new MemoryBroker({ time: machineTime });
    // What each has read of the segment is old by the time that it writes.
    const slowly: ArchiveBackend["store"] = {
      name: store.name,
      get: (...given) => store.get(...given),
      list: (prefix) => store.list(prefix),
      put: async (...given) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return store.put(...given);
      },
    };
    const erasers = ids.map(() => {
      const alone = eraseAlone(makeMemoryLeases(broker.connect()), machineTime);
      return new SegmentArchive({ store: slowly, namespace: "agents", time: machineTime, alone });
    });
    await Promise.all(ids.map((id, n) => erasers[n]!.erase(id.class, new Set([id.name]))));
    for (const key of await objectsOf("")) {
      const bytes = await bytesOf(key);
      const text = (key.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
      expect(ids.filter(({ name }) => text.includes(`"${name}"`))).toEqual([]);
    }
  });

  test("a process that erases slowly keeps its lease, however long the archive takes", async () => {
    const { broker, time } = await Journaled.open();
    const leases = makeMemoryLeases(broker.connect());
    await eraseAlone(
      leases,
      time,
    )(async (still) => {
      for (let ms = 0; ms < leases.ttlMs * 3; ms += leases.ttlMs / 5)
        await time.advance(leases.ttlMs / 5);
      expect(await leases.claim("archive", "another")).toEqual({ _tag: "Held" });
      await still();
    });
    expect(await leases.claim("archive", "another")).toMatchObject({ _tag: "Claimed" });
  });

  test("keeps nothing of a life that ends while its part is stored, and all of the next one", async () => {
    const { agent } = await trimmed(1);
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    const { journal, snapshots } = agent.ports;
    let last = 0;
    const erasedMeanwhile: Pick<SegmentArchive, "put" | "erase"> = {
      erase: archive.erase,
      put: async (id, part) => {
        const time = { id: () => "end", nowMs: agent.time.nowMs };
        const signal = AbortSignal.timeout(1_000);
        const end = await endLife(ID, { journal, time, host: "h", epoch: undefined, signal });
        await journal.trim(ID, end);
        await snapshots.removeBases(ID, (await snapshots.bases(ID))!.revision);
        await archive.erase(ID.class, new Set([ID.name]));
        const place = await archive.put(id, part);
        await agent.write(2);
        const events = agent.broker.journal.eventsOf(ID).slice(1);
        await archive.put(id, { events, previous: undefined, stateBefore: undefined });
        last = events.at(-1)!.seq;
        return place;
      },
    };
    const outcome = await agent.trim({ events: 3 }, { archive: erasedMeanwhile });
    expect(outcome).toEqual({ _tag: "Overtaken" });
    expect(await archive.lastSeqsOf(ID)).toEqual([last]);
  });

  test("belongs to one installation: another one is refused with the reason", async () => {
    const of = (installation: string) =>
      new SegmentArchive({ store, namespace: "agents", time: machineTime, installation: async () => installation }); // prettier-ignore
    const [first, other] = [of("since Monday"), of("since Tuesday")];
    const agent = await Journaled.open();
    const [seq] = await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    expect(await agent.trim({ events: 3 }, { archive: first })).toMatchObject({ _tag: "Trimmed" });
    const theirs = await Journaled.open();
    await theirs.write(8);
    await theirs.time.advance(STEP_MS * 2);
    const fault = /belongs to another installation \(since Monday; this one is since Tuesday\).*remove agents\/installation\.json/; // prettier-ignore
    await expect(theirs.trim({ events: 3 }, { archive: other })).rejects.toThrow(fault);
    expect(theirs.seqs).toHaveLength(8);
    await expect(other.checkErasable(ID.class)).rejects.toThrow(fault);
    await expect(other.erase(ID.class, new Set([ID.name]))).rejects.toBeInstanceOf(ArchiveUnavailable); // prettier-ignore
    expect((await read(agent))[0]!.seq).toBe(seq);
    await first.checkErasable(ID.class);
  });

  test("belongs to nobody after somebody looked for parts to erase in it", async () => {
    const archives = ["Monday", "Tuesday"].map(
      (installation) => new SegmentArchive({ store, namespace: "agents", time: machineTime, installation: async () => installation }), // prettier-ignore
    );
    for (const each of archives) {
      await each.checkErasable(ID.class);
      expect(await each.erase(ID.class, new Set([ID.name]))).toEqual([]);
    }
    expect(await objectsOf("installation.json")).toEqual([]);
  });

  test("can't continue another archive's history when it is empty", async () => {
    const { agent, all } = await trimmed(1);
    const seqs = all.slice(-3).map(({ seq }) => seq);
    seqs.push(...(await agent.write(8)));
    await agent.time.advance(STEP_MS * 2);
    const other = await BACKENDS[0]![1]();
    try {
      const empty = new SegmentArchive({
        store: other.store,
        namespace: "agents",
        time: machineTime,
        installation: async () => "ours",
      });
      const trim = () => agent.trim({ events: 3 }, { archive: empty });
      await expect(trim()).rejects.toBeInstanceOf(ArchiveUnavailable);
      await expect(trim()).rejects.toThrow(/is empty, and older history of one is in another one .*create agents\/installation\.json here: \{"installation":"ours"\}/); // prettier-ignore
      expect(agent.seqs).toEqual(seqs);
      for await (const key of store.list("agents/"))
        await other.store.put(key, (await store.get(key))!);
      expect(await trim()).toMatchObject({ _tag: "Trimmed" });
      archive = empty;
      expect((await read(agent)).map(({ seq }) => seq)).toEqual([...all.slice(0, -3).map(({ seq }) => seq), ...seqs]); // prettier-ignore
    } finally {
      await other.close();
    }
  });

  test("reports a truncated index, and nothing of its class is erased meanwhile", async () => {
    const { agent } = await trimmed(1);
    const [index] = await objectsOf(".index.json");
    const bytes = await bytesOf(index!);
    await store.put(index!, bytes.subarray(0, bytes.length >> 1));
    for (const ask of [
      () => archive.erase(ID.class, new Set([ID.name])),
      () => archive.checkErasable(ID.class),
    ]) {
      await expect(ask()).rejects.toBeInstanceOf(CorruptFrame);
      await expect(ask()).rejects.toThrow(`the index ${index} in ${store.name} is damaged`);
    }
    expect(await read(agent)).toHaveLength(8);
    await store.put(index!, bytes);
    expect(await archive.erase(ID.class, new Set([ID.name]))).toHaveLength(1);
  });
});

describe("the archive in a folder", () => {
  const folder = tempFolder("archive");
  afterAll(() => folder.remove());

  test("stops trimming when it is unreachable or full, with the reason", async () => {
    const agent = await Journaled.open();
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    const file = join(folder.path, "file");
    writeFileSync(file, "");
    const at = (path: string) =>
      openArchive(pathToFileURL(path).href, { namespace: "agents", time: machineTime });
    const refused = agent.trim({ events: 3 }, { archive: at(join(file, "below")) });
    await expect(refused).rejects.toBeInstanceOf(ArchiveUnavailable);
    await expect(refused).rejects.toThrow(
      /^the archive .*ENOTDIR.*Correct --archive: \S+ is no folder$/,
    );
    const away = agent.trim({ events: 3 }, { archive: at(join(folder.path, "away")) });
    await expect(away).rejects.toThrow(
      /ENOENT.*Mount the disk of \S+\/away, or create the folder$/,
    );
    expect(agent.seqs).toHaveLength(8);
    expect(agent.broker.bases.get(ID)).toBeUndefined();
    if (process.getuid?.() === 0) return;
    chmodSync(folder.path, 0o500);
    await expect(agent.trim({ events: 3 }, { archive: at(folder.path) })).rejects.toThrow(
      /EACCES.*Let the user of this process write to/,
    );
    chmodSync(folder.path, 0o700);
  });

  test("is unreachable for readers, too, while its folder is missing", async () => {
    const path = join(folder.path, "mounted");
    mkdirSync(path);
    const mounted = openArchive(pathToFileURL(path).href, {
      namespace: "agents",
      time: machineTime,
    });
    const agent = await Journaled.open();
    await agent.write(8);
    await agent.time.advance(STEP_MS * 2);
    await agent.trim({ events: 3 }, { archive: mounted });
    const whole = archivedJournal({ ...agent.ports, archive: mounted });
    const readAll = async (): Promise<number> => {
      let events = 0;
      for await (const _ of whole.read(ID, { fromSeq: 1 as Sequence })) events++;
      return events;
    };
    expect(await readAll()).toBe(8);
    renameSync(path, `${path}.away`);
    const place = { segment: "agents/none", offset: 0, bytes: 1, sha256: "" };
    for (const ask of [
      readAll,
      () => mounted.lastSeqsOf(ID),
      () => mounted.checkErasable(ID.class),
      () => mounted.sha256At(place),
    ]) {
      const refused = ask();
      await expect(refused).rejects.toBeInstanceOf(ArchiveUnavailable);
      await expect(refused).rejects.toThrow(
        /Mount the disk of \S+\/mounted, or create the folder$/,
      );
    }
  });

  test("ignores a temporary file of a dead process", async () => {
    const folderStore = new FolderStore(folder.path, machineTime.id);
    await folderStore.put("agents/a/1", new Uint8Array(1));
    writeFileSync(join(folder.path, "agents/a/.tmp-of-a-dead-process"), "half");
    const keys = await collect(folderStore.list("agents/"));
    expect(keys).toEqual(["agents/a/1"]);
  });

  test("lists what a linked folder has, as it is read", async () => {
    const folderStore = new FolderStore(folder.path, machineTime.id);
    await folderStore.put("agents/a/1", new Uint8Array(1));
    symlinkSync(join(folder.path, "agents/a"), join(folder.path, "agents/linked"));
    symlinkSync(join(folder.path, "agents/a/1"), join(folder.path, "agents/one"));
    const keys = await collect(folderStore.list("agents/"));
    expect(keys).toEqual(["agents/a/1", "agents/linked/1", "agents/one"]);
    for (const key of keys) expect(await folderStore.get(key)).toHaveLength(1);
  });
});

test("a folder's URL may end with a slash", async () => {
  const temporary = tempFolder("archive");
  try {
    const slashed = new FolderStore(`${temporary.path}/`, machineTime.id);
    await slashed.put("agents/a", new Uint8Array([1]));
    expect(await slashed.get("agents/a")).toEqual(Buffer.from([1]));
  } finally {
    temporary.remove();
  }
});

test.each([21, 22, 1_000, 100_000])(
  "an empty gzip member of %i bytes is read as nothing by zcat",
  (bytes) => {
    const member = emptyMember(bytes);
    expect(member).toHaveLength(bytes);
    expect(gunzipSync(member)).toHaveLength(0);
  },
);

test("only a URL of a folder or a bucket is an archive, and one with credentials is refused", () => {
  const good = ["file:///var/lib/archive", "s3://my-bucket", "s3://my.bucket/a/b_c/"];
  for (const url of good) expect(archiveFault(url)).toBeUndefined();
  for (const url of ["/var/lib", "s3x://bucket", "file://var/lib", "", "file:///a%2Fb"])
    expect(archiveFault(url)).toMatch(/file:\/\/\//);
  for (const [url, fault] of [
    ["s3://key:secret@bucket/a", /^the URL contains credentials/],
    ["s3://bucket:9000/a", /AWS_ENDPOINT_URL/],
    ["s3://bucket/a?region=eu", /AWS_ENDPOINT_URL/],
    ["s3:///a", /not the name of a bucket/],
    ["s3://My_Bucket/a", /not the name of a bucket/],
    ["s3://bucket/a//b", /empty parts/],
    ["s3://bucket/a%20b", /letters, digits/],
  ] as const)
    expect(archiveFault(url)).toMatch(fault);
});
