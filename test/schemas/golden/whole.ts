/**
 * What is made of many stored formats together: an agent's journal with page deltas, its base, a
 * backup and an archive of it. Their bytes depend on SQLite and zlib, so they are written once and
 * only read again.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { agentId, type Epoch, type Sequence } from "../../../schemas/Address.ts";
import type { BackupEntry } from "../../../schemas/BackupFile.ts";
import { encodeEvent, decodeEvent, type JournalHead } from "../../../schemas/JournalEvent.ts";
import { decodeSnapshot, type ArchivePlace } from "../../../schemas/Snapshot.ts";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { replayEvent } from "../../../core/journal/rebuildAgent.ts";
import { openArchive } from "../../../services/archive/openArchive.ts";
import {
  checkShare,
  readChain,
  shareEvents,
} from "../../../services/cli/agents/backup/backupChain.ts";
import {
  makeBackupFolder,
  writeFiles,
  writeManifest,
} from "../../../services/cli/agents/backup/backupFolder.ts";
import { machineTime } from "../../../services/node/MachineTime.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";

const ID = agentId("Ledger", "a");
const TIME = 1_700_000_000_000;
const NAMESPACE = "agents";
/** How many parts the backup is divided into: each agent is in one of them. */
const SHARES = 3;

/** The agent after its last event: what any reader of any of these files must make of it. */
export const EXPECTED = {
  state: { n: 3, text: "x".repeat(2_000) },
  rows: [["one"], ["two"], ["three"]],
  done: ["github:1", "github:2", "github:3"],
};

/** A set, as `whole.json` has it. Frames in base64. */
export interface Whole {
  readonly events: ReadonlyArray<{ readonly seq: number; readonly data: string }>;
  readonly base: string;
  readonly place: ArchivePlace;
}

const archiveOf = (folder: string) =>
  openArchive(pathToFileURL(join(folder, "archive")).href, {
    namespace: NAMESPACE,
    time: machineTime,
  });

/** Makes the files of a set. */
export async function writeWhole(folder: string): Promise<Whole> {
  const { databases, close } = await openSqliteDatabases({ folder: undefined });
  const { database } = databases.open(ID);
  const image = new AgentImage(ID);
  const events: Array<{ seq: Sequence; storedMs: number; data: Uint8Array }> = [];
  try {
    database.query("CREATE TABLE notes (text TEXT)", []);
    for (const [n, note] of ["one", "two", "three"].entries()) {
      database.query("INSERT INTO notes VALUES (?)", [note]);
      const frozen = database.freeze()!;
      const before = JSON.stringify({ n: n, text: EXPECTED.state.text });
      const head: JournalHead = {
        id: `event-${n}`, agent: [ID.class, ID.name], kind: "turns", host: "h", epoch: 1 as Epoch, time: TIME + n, after: n, pages: frozen.pages,
        turns: [{
          cause: { kind: "webhook", id: `github:${n + 1}`, method: "POST", url: "http://h/", body: "{}" },
          state: n === 0 ? { set: { n: 1, text: EXPECTED.state.text } } : { splice: [5, before.length - 6, String(n + 1)] },
          sql: ["INSERT INTO notes VALUES (?)"], done: [`github:${n + 1}`],
        }],
      }; // prettier-ignore
      const data = encodeEvent(head, frozen.delta);
      database.committed();
      const seq = (n + 1) as Sequence;
      // The database is what the deltas were taken from.
      replayEvent(image, { ...database, apply: () => undefined }, seq, decodeEvent(data));
      events.push({ seq, storedMs: TIME + n, data });
    }
    await mkdir(join(folder, "archive"), { recursive: true });
    const part = { events, previous: undefined, stateBefore: undefined };
    const place = await archiveOf(folder).put(ID, part);
    await writeBackup(join(folder, "backup"), events.slice(0, 2), undefined);
    await writeBackup(join(folder, "increment"), events.slice(2), "../backup");
    const base = Buffer.from(image.encode(database.image(), place)).toString("base64");
    const told = events.map(({ seq, data }) => ({
      seq,
      data: Buffer.from(data).toString("base64"),
    }));
    return { events: told, base, place };
  } finally {
    database.close();
    close();
  }
}

async function writeBackup(
  path: string,
  events: ReadonlyArray<Omit<BackupEntry, "id">>,
  since: string | undefined,
): Promise<void> {
  makeBackupFolder(path);
  const some = async function* (entries: ReadonlyArray<Omit<BackupEntry, "id">>) {
    for (const entry of entries) yield { ...entry, id: ID };
  };
  const into = { prefix: "events", kind: "events", shares: SHARES } as const;
  await writeManifest(path, {
    namespace: NAMESPACE,
    time: new Date(TIME).toISOString(),
    inputs: 0,
    events: events.length,
    letters: 0,
    id: since === undefined ? "golden" : "golden-2",
    streams: [{ created: new Date(0).toISOString(), end: events.at(-1)!.seq }],
    shares: SHARES,
    files: await writeFiles(path, into, some(events)),
    ...(since === undefined ? {} : { since: { folder: since, id: "golden" } }),
  });
}

/** What this release makes of each of a set's files. */
export async function readWhole(folder: string, whole: Whole) {
  const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));
  const journal = whole.events.map(({ seq, data }) => ({ seq, data: bytes(data) }));
  const { events: archived } = await archiveOf(folder).read(ID, whole.place);
  const saved: Array<{ seq: number; data: Uint8Array }> = [];
  const chain = await readChain(join(folder, "increment"));
  for (let share = 0; share < chain.shares; share++) {
    const { ends } = await checkShare(chain, share);
    for await (const entry of shareEvents(chain, share, ends)) saved.push(entry);
  }
  const { databases, close } = await openSqliteDatabases({ folder: undefined });
  try {
    const seen = (events: ReadonlyArray<{ readonly seq: number; readonly data: Uint8Array }>) => {
      const { database } = databases.open(ID);
      const image = new AgentImage(ID);
      for (const { seq, data } of events)
        replayEvent(image, database, seq as Sequence, decodeEvent(data));
      return look(image, database);
    };
    const { head, image } = decodeSnapshot(bytes(whole.base));
    const { database } = databases.open(ID);
    database.restore(image);
    return {
      journal: seen(journal),
      archive: seen(archived),
      backup: seen(saved),
      base: look(AgentImage.fromSnapshot(ID, head), database),
    };
  } finally {
    close();
  }
}

function look(
  image: AgentImage,
  database: ReturnType<
    Awaited<ReturnType<typeof openSqliteDatabases>>["databases"]["open"]
  >["database"],
): typeof EXPECTED {
  try {
    return {
      state: JSON.parse(image.state!) as typeof EXPECTED.state,
      rows: database.query("SELECT text FROM notes ORDER BY rowid", []).rows as string[][],
      done: image.done.toArray().map(([key]) => key),
    };
  } finally {
    database.close();
  }
}
