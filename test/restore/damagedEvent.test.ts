/** `agents restore` of a backup in which one agent's event is damaged: the others are whole. */
import { expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import {
  makeBackupFolder,
  writeFiles,
  writeManifest,
} from "../../services/cli/agents/backup/backupFolder.ts";
import { openBackup, restoreBackup } from "../../services/cli/agents/backup/restoreBackup.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const NAMES = ["a", "b", "c"];
const EVENTS = 3;

const event = (name: string, n: number): Uint8Array => {
  const head: JournalHead = {
    id: `${name}${n}`, agent: ["Book", name], kind: "turns", host: "h", epoch: 1, time: 1,
    turns: [{ cause: { kind: "webhook", id: `k${n}` }, done: [`k${n}`] }],
  }; // prettier-ignore
  return encodeEvent(head);
};

test.each([
  ["a byte of its body", 60, 1],
  ["its version", 5, 2],
])("an event with a bit flipped in %s is stored as it is, and counted", async (_what, at, bit) => {
  const folder = tempFolder("restore");
  try {
    const entries: BackupEntry[] = [];
    for (let n = 1; n <= EVENTS; n++)
      for (const name of NAMES) {
        const data = Uint8Array.from(event(name, n));
        if (name === "b" && n === 2) data[at]! ^= bit;
        entries.push({ id: agentId("Book", name), seq: entries.length + 1, storedMs: 1, data });
      }
    const stream = (async function* () {
      yield* entries;
    })();
    const shares = 1;
    makeBackupFolder(folder.path);
    const part = { prefix: "events-0-1", kind: "events", shares } as const;
    const files = await writeFiles(folder.path, part, stream);
    const { length: events } = entries;
    await writeManifest(folder.path, {
      id: "x", time: new Date(0).toISOString(), namespace: "agents", shares, files: [...files],
      streams: [{ created: "x", end: events }], events, inputs: 0, letters: 0,
    }); // prettier-ignore
    const broker = new MemoryBroker({ time: machineTime });
    const ports = {
      journal: makeMemoryJournal(broker.connect()),
      leases: { list: async () => [] },
    };
    const out: string[] = [];
    const terminal = { out: (line: string) => void out.push(line), err: () => undefined };
    const options = { chain: await openBackup(folder.path), json: true };
    await restoreBackup(ports as never, terminal as never, machineTime, options);
    expect(JSON.parse(out.join(""))).toMatchObject({ agents: NAMES.length, damaged: 1 });
    for (const name of NAMES)
      expect(broker.journal.eventsOf(agentId("Book", name))).toHaveLength(EVENTS);
    expect(broker.journal.last(agentId("Book", "b"))!.seq).toBeGreaterThan(0 as Sequence);
  } finally {
    folder.remove();
  }
});
