/**
 * `agents restore <folder>`: creates a backup's agents in an installation that is provisioned,
 * empty and without hosts. Its shards, stream groups and namespace may differ from those of the
 * backup.
 *
 * 1. The whole backup is read before anything is written, so that a damaged or truncated one
 *    changes nothing.
 * 2. Journals are written first, each agent's in order, then dead letters, then waiting inputs, so
 *    that no input can run before its agent is complete. Running hosts are refused for the same
 *    reason.
 * 3. The timers of the agents' schedules are armed, and agents with schedules or queue items are
 *    activated. Agents whose lives have ended are not.
 */
import { endsLife } from "../../../../core/journal/endLife.ts";
import { HOST_KEYS } from "../../../../core/lease/leaseKeys.ts";
import { transplant } from "../../../../core/journal/transplant.ts";
import type { TimeShape } from "../../../../core/time/Time.ts";
import { counted } from "../../../../schemas/counted.ts";
import {
  addressKey,
  type AgentId,
  type Epoch,
  type Sequence,
} from "../../../../schemas/Address.ts";
import type { BackupEntry } from "../../../../schemas/BackupFile.ts";
import { ifReadable, isUnreadable } from "../../../../schemas/Frame.ts";
import { decodeEvent, type JournalHead } from "../../../../schemas/JournalEvent.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../../wiring/ReadPorts.ts";
import {
  checkOthers,
  checkShare,
  othersOf,
  readChain,
  shareEvents,
  type BackupChain,
  type CheckedShare,
} from "./backupChain.ts";
import { inParallel } from "../inParallel.ts";
import { armTimers, wakeAgent } from "../wakeAgent.ts";
import { CliError, failed } from "../../terminal/CliError.ts";
import { Progress } from "../../terminal/Progress.ts";
import type { Terminal } from "../../terminal/Terminal.ts";

/** Lines that are read ahead: so many events, written concurrently, hide the round trip. */
const BATCH_LINES = 256;
/** One task reads while the others write. */
const SHARES_AT_ONCE = 4;
const FIRST_EPOCH = 0 as Epoch;

interface RestoreBackupOptions {
  /** As `openBackup` returns it. */
  readonly chain: BackupChain;
  readonly json: boolean;
}

/** Throws `CliError` for a damaged backup, present agents or hosts, and a failed write. */
export async function restoreBackup(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs" | "monotonicMs">,
  { chain: opened, json }: RestoreBackupOptions,
): Promise<void> {
  const chain = await check(opened, new Progress(terminal, time, "shares checked"));
  await refuseUnlessEmpty(ports);
  // Before the first write, because a process that is killed can't say anything afterwards.
  if (!json)
    terminal.err(
      "Writing the agents. If this is interrupted, they are incomplete: start no hosts, and restore into another namespace or another broker.",
    );
  const progress = new Progress(terminal, time, "events stored");
  const { agents, busy, damaged, events } = await storeEvents(ports, chain, progress);
  for await (const { id, data } of othersOf(chain, "letters"))
    await ports.deadLetters.put(id, data);
  for await (const { id, data } of othersOf(chain, "inputs")) await storeInput(ports, id, data);
  let timers = 0;
  for (const id of busy.values()) {
    timers += await armTimers(ports, id);
    await wakeAgent(ports, time, id);
  }
  const { manifest } = chain.links.at(-1)!;
  const { inputs, letters } = manifest;
  const done = { agents, events, inputs, letters, timers, damaged };
  if (json) terminal.out(JSON.stringify(done));
  else
    terminal.out(
      `${counted(agents, "agent")} with ${counted(events, "event")}, ${counted(inputs, "waiting input")}, ${counted(letters, "dead letter")} and ${counted(timers, "timer")}, as of ${manifest.time}. Start the hosts.`,
    );
  if (damaged > 0)
    terminal.err(
      `Events that were already damaged when they were saved: ${damaged}. Their agents will not start.`,
    );
}

interface CheckedChain extends BackupChain {
  /** By share (`CheckedShare`). */
  readonly ends: ReadonlyArray<CheckedShare["ends"]>;
}

/** Reads what the backup consists of, but not the agents. Throws `CliError`. */
export const openBackup = (path: string): Promise<BackupChain> =>
  restorable(path, () => readChain(path));

/** Rule 1. Throws `CliError`. */
function check(chain: BackupChain, progress: Progress): Promise<CheckedChain> {
  return restorable(chain.links.at(-1)!.path, async () => {
    await checkOthers(chain);
    const ends: Array<CheckedShare["ends"]> = [];
    let done = 0;
    await inParallel(Array(chain.shares).keys(), SHARES_AT_ONCE, async (share) => {
      ends[share] = (await checkShare(chain, share)).ends;
      progress.tell(++done, chain.shares);
    });
    progress.end();
    return { ...chain, ends };
  });
}

/** Maps what can be wrong with the backup's files to `CliError`. */
async function restorable<A>(path: string, read: () => Promise<A>): Promise<A> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (!isUnreadable(error) && (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw failed(`${path} can't be restored, and nothing was written: ${(error as Error).message}`);
  }
}

async function refuseUnlessEmpty({ journal, leases }: ReadPorts): Promise<void> {
  for await (const { id } of journal.list())
    throw failed(
      `This installation has agents (${addressKey(id)}). If an interrupted restore wrote them, they are incomplete: start no hosts here. Restore into an empty installation: another namespace or another broker.`,
    );
  const [host] = await leases.list(HOST_KEYS);
  if (host !== undefined)
    throw failed(
      `A host is running (${host.value}). Stop the hosts, restore, and start them again.`,
    );
}

interface Stored {
  readonly agents: number;
  /** Agents that live, and have or had schedules or queue items. */
  readonly busy: ReadonlyMap<string, AgentId>;
  readonly damaged: number;
  readonly events: number;
}

async function storeEvents(
  ports: ReadPorts,
  chain: CheckedChain,
  progress: Progress,
): Promise<Stored> {
  const total = chain.links.reduce((sum, { manifest }) => sum + manifest.events, 0);
  let agents = 0;
  const busy = new Map<string, AgentId>();
  let damaged = 0;
  let events = 0;
  const store = async (
    entries: ReadonlyArray<BackupEntry>,
    seqs: Map<string, Sequence>,
  ): Promise<void> => {
    for (const { id, data } of entries) {
      const key = addressKey(id);
      const event = readEvent(id, data);
      if (event === undefined) damaged++;
      // A host would start a destroyed agent as a new one.
      else if (endsLife(event.head)) busy.delete(key);
      else if (isBusy(event.head)) busy.set(key, id);
      const expectedSeq = seqs.get(key) ?? (0 as Sequence);
      const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
      const result = await ports.journal.append(id, event?.data ?? data, { expectedSeq, signal });
      if (result._tag !== "Stored")
        throw failed(
          `${key} could not be stored (${result._tag}): the restore is incomplete. Remove what was restored, and start over in an empty installation.`,
        );
      seqs.set(key, result.seq);
      progress.tell(++events, total);
    }
  };
  await inParallel(Array(chain.shares).keys(), SHARES_AT_ONCE, async (share) => {
    const seqs = new Map<string, Sequence>();
    for await (const batch of batches(shareEvents(chain, share, chain.ends[share]!)))
      await Promise.all([...byAgent(batch).values()].map((entries) => store(entries, seqs)));
    agents += seqs.size;
  });
  progress.end();
  return { agents, busy, damaged, events };
}

/** Undefined for a damaged event. It is stored as it is, and quarantines its agent as before. */
function readEvent(
  id: AgentId,
  data: Uint8Array,
): { data: Uint8Array; head: JournalHead } | undefined {
  return ifReadable(() => {
    const { head } = decodeEvent(data);
    return { data: transplant(data, { id, epoch: FIRST_EPOCH }), head };
  });
}

const isBusy = ({ schedules, queue }: JournalHead): boolean =>
  schedules !== undefined || queue !== undefined;

async function* batches(
  entries: AsyncIterable<BackupEntry>,
): AsyncGenerator<ReadonlyArray<BackupEntry>, void, void> {
  let batch: BackupEntry[] = [];
  for await (const entry of entries) {
    batch.push(entry);
    if (batch.length < BATCH_LINES) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

function byAgent(entries: ReadonlyArray<BackupEntry>): ReadonlyMap<string, BackupEntry[]> {
  const found = new Map<string, BackupEntry[]>();
  for (const entry of entries) {
    const key = addressKey(entry.id);
    const before = found.get(key);
    if (before === undefined) found.set(key, [entry]);
    else before.push(entry);
  }
  return found;
}

async function storeInput({ inbox }: ReadPorts, id: AgentId, data: Uint8Array): Promise<void> {
  const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
  const stored = await inbox.publish(id, data, { signal });
  if (stored._tag !== "Stored")
    throw failed(
      `An input of ${addressKey(id)} could not be stored: ${stored.message}. The restore is incomplete.`,
    );
}
