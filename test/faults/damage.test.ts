/** Readers detect damaged stored data (I12): a short `npm run faults -- --damage`. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { WaitingWrites } from "../../services/nats/client/WaitingWrites.ts";
import { objectStore } from "../../services/nats/layout/blobStores.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { makeNatsSnapshots } from "../../services/nats/NatsSnapshots.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { collect } from "../kit/collect.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { Recorded, type Material, type StoredAt } from "./damage/Material.ts";
import { HARMLESS, sweepDamage } from "./damage/sweepDamage.ts";

/** Small, so that small things become claims. */
const PAYLOAD_BYTES_MAX = 12_000;
const EVENTS = 12;
/** Every kind some 25 times, in a second. */
const TIMES = 250;
const PLAIN = agentId("Keeper", "plain");
const CLAIMED = agentId("Keeper", "claimed");
/** Bytes an event: those of the second don't fit into a message. */
const BYTES = new Map<AgentId, number>([
  [PLAIN, 100],
  [CLAIMED, 13_000],
]);

let folder: TempFolder;
let material: Material;
beforeAll(async () => {
  folder = tempFolder("damage");
  material = await handMade();
});
afterAll(() => folder.remove());

test("damaged events, snapshots, blobs and caches are never used", async () => {
  const { counts, violations } = await sweepDamage(material, { seed: 1, times: TIMES });
  expect(violations).toEqual([]);
  const kinds = [...counts.keys()];
  expect(kinds.toSorted()).toEqual([
    "blob of event", "blob of snapshot", "blob's entry of event", "blob's entry of snapshot", "cache's meta", "cache's pages",
    "claim of event", "claim of snapshot", "event", "snapshot",
  ]); // prettier-ignore
  for (const kind of kinds) {
    const found = counts.get(kind)!;
    // An entry has fields that nobody reads.
    if (!kind.startsWith("blob's entry")) expect([kind, found.get(HARMLESS)]).toEqual([kind, undefined]); // prettier-ignore
    expect(found.size).toBeGreaterThan(0);
  }
});

test("an agent whose snapshot appears to be of a later version is rebuilt from its journal", async () => {
  const { recorded, message } = snapshotOf(PLAIN);
  const data = Uint8Array.from(message.data);
  data[`{"v":`.length]! ^= 2;
  recorded.damaged = { message, data };
  const memory = await openSqliteDatabases({ folder: undefined });
  const { snapshots, journal } = recorded;
  const rebuilt = await rebuildAgent(PLAIN, { journal, snapshots, databases: memory.databases });
  expect(rebuilt.replayed.events).toBe(EVENTS);
  expect(rebuilt.state).toEqual({ count: EVENTS });
  rebuilt.database.close();
  memory.close();
});

test("a blob with a damaged entry is reported as corrupt, not as an unavailable broker", async () => {
  const recorded = new Recorded(material);
  const { entryOf } = objectStore(material.subjects);
  const isEntry = ({ subject }: StoredAt): boolean => subject.startsWith(entryOf("*").slice(0, -1));
  const ofEvent = material.messages.find(isEntry)!;
  recorded.damaged = { message: ofEvent, data: ofEvent.data.slice(1) };
  const events = recorded.journal.read(CLAIMED, { fromSeq: 1 as Sequence });
  await expect(collect(events)).rejects.toBeInstanceOf(CorruptFrame);
  const ofSnapshot = material.messages.findLast(isEntry)!;
  // A size that no memory has.
  const text = Buffer.from(ofSnapshot.data).toString().replace(/"size":/, '"size":999999999999'); // prettier-ignore
  for (const data of [ofSnapshot.data.slice(1), Buffer.from(text)]) {
    recorded.damaged = { message: ofSnapshot, data };
    expect(await collect(recorded.snapshots.newestFirst(CLAIMED))).toEqual([]);
  }
});

function snapshotOf(id: AgentId) {
  const recorded = new Recorded(material);
  const subject = material.subjects.snapshot(id);
  return { recorded, message: material.messages.find((each) => each.subject === subject)! };
}

/** Two agents with a dozen events, a snapshot and a cache each, by the product's writers. */
async function handMade(): Promise<Material> {
  const subjects = new Subjects();
  const messages: StoredAt[] = [];
  const store = (subject: string, data: Uint8Array) => {
    const ours: ReadonlyArray<readonly [prefix: string, stream: string]> = [
      ["$O.", objectStore(subjects).stream],
      [subjects.journals().replace(/[*>].*/, ""), subjects.stream.journal],
    ];
    const stream = ours.find(([prefix]) => subject.startsWith(prefix))?.[1] ?? subjects.stream.snapshots; // prettier-ignore
    const seq = (messages.filter((each) => each.stream === stream).length + 1) as Sequence;
    const header = () => undefined;
    messages.push({ stream, subject, seq, storedMs: 0, data: Uint8Array.from(data), header });
    return Promise.resolve({ _tag: "Stored", seq } as const);
  };
  const images = join(folder.path, "images");
  const { databases, close } = await openSqliteDatabases({ folder: images });
  const empty = new Recorded({ ids: [], messages: [], subjects, images, remove: () => undefined });
  // Writers use no more of it; what they look up before they write is not there.
  const nats = {
    subjects,
    reader: empty.reader,
    publisher: { publish: store },
    waitingWrites: new WaitingWrites({ connected: () => true, onDenied: () => undefined }, subjects),
    journalPublishers: [{ publishAfter: (_: Sequence, subject: string, data: Uint8Array) => store(subject, data) }],
    messageBytesMax: PAYLOAD_BYTES_MAX,
  } as unknown as NatsShape; // prettier-ignore
  const blobs = makeNatsBlobs(nats);
  const journal = makeNatsJournal(nats, blobs);
  const snapshots = makeNatsSnapshots(nats, blobs);
  const { signal } = new AbortController();
  for (const [id, bytes] of BYTES) {
    const { database } = databases.open(id);
    const image = new AgentImage(id);
    database.query("CREATE TABLE kept (n INTEGER PRIMARY KEY, noise BLOB)", []);
    for (let n = 1; n <= EVENTS; n++) {
      database.query("INSERT INTO kept (noise) VALUES (randomblob(?))", [bytes]);
      const { delta, pages } = database.freeze()!;
      const head: JournalHead = {
        id: `event-${n}`, agent: [id.class, id.name], kind: "turns", host: "host", epoch: 1, time: n,
        ...(image.seq === 0 ? {} : { after: image.seq }),
        turns: [{ cause: { kind: "webhook", id: `input-${n}` }, state: { set: { count: n } }, done: [`input-${n}`] }],
        pages,
      }; // prettier-ignore
      const result = await journal.append(id, encodeEvent(head, delta), { expectedSeq: image.seq, signal }); // prettier-ignore
      if (result._tag !== "Stored") throw new Error(`not stored: ${result._tag}`);
      applyEvent(image, result.seq, head);
      database.committed();
    }
    await snapshots.put(id, image.encode(database.image()));
    database.close({ seq: image.seq, core: image.encode() });
  }
  close();
  return { ids: [...BYTES.keys()], messages, subjects, images, remove: () => undefined };
}
