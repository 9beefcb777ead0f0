/**
 * Searches again for the data that a receipt reports as erased: in the journals, snapshots, dead
 * letters and inputs of the installation, in the archive, and in the backups that the receipt
 * names.
 *
 * An agent of the same name may exist again. Data stored after the end belongs to that one.
 */
import { decodeDeadLetter } from "../../../../schemas/DeadLetter.ts";
import { counted } from "../../../../schemas/counted.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../../../schemas/Address.ts";
import type { ErasedAgent, ErasureReceipt } from "../../../../schemas/ErasureReceipt.ts";
import { ifReadable } from "../../../../schemas/Frame.ts";
import { decodeSnapshot } from "../../../../schemas/Snapshot.ts";
import type { ReadPorts } from "../../../wiring/ReadPorts.ts";
import { failed, usage } from "../../terminal/CliError.ts";
import type { Terminal } from "../../terminal/Terminal.ts";
import { backupsIn, holding } from "./erasureReceipt.ts";

interface Erasure {
  /** The remaining or returned data, in words. */
  readonly found: ReadonlyArray<string>;
  /** The places that can't be searched, in words. */
  readonly notes: ReadonlyArray<string>;
}

/**
 * Prints the findings. Throws `CliError` if data remains or the receipt belongs to another
 * namespace, and as the ports do.
 */
export async function tellErasure(
  ports: ReadPorts,
  terminal: Terminal,
  { receipt, json }: { readonly receipt: ErasureReceipt; readonly json: boolean },
): Promise<void> {
  if (receipt.namespace !== ports.namespace)
    throw usage(`The receipt belongs to another namespace: add --namespace ${receipt.namespace}.`);
  const { found, notes } = await verifyErasure(ports, receipt);
  const names = receipt.agents.map((agent) => addressKey(agentId(agent.class, agent.name)));
  if (json) terminal.out(JSON.stringify({ erased: found.length === 0, found, notes }));
  else for (const line of found) terminal.out(line);
  for (const note of notes) terminal.err(note);
  if (found.length > 0)
    throw failed(
      `${names.join(", ")} is not completely erased. Run "agents erase" again, and remove backups when they are no longer needed.`,
    );
  if (!json) terminal.out(`Nothing is left of ${names.join(", ")}, erased at ${receipt.time}.`);
}

async function verifyErasure(ports: ReadPorts, receipt: ErasureReceipt): Promise<Erasure> {
  const found: string[] = [];
  const notes: string[] = [];
  for (const agent of receipt.agents) {
    const id = agentId(agent.class, agent.name);
    const say = (what: string): void => void found.push(`${addressKey(id)}: ${what}`);
    await lookInJournal(ports, id, agent, say);
    await lookInArchive(ports, id, agent, { say, note: (what) => void notes.push(what) });
    if (agent.silent.length > 0)
      notes.push(
        `${addressKey(id)}: ${agent.silent.join(", ")} did not answer; local files there can't be checked from here`,
      );
  }
  await lookForMessages(ports, receipt, (what) => void found.push(what));
  for (const { folder, id } of receipt.backups) {
    const ids = receipt.agents.map((agent) => agentId(agent.class, agent.name));
    const there = await backupsIn([folder]).catch(() => []);
    const isThere = there.some((path) => path === folder);
    const held = isThere ? await holding(folder, ids) : undefined;
    if (!isThere)
      notes.push(`the backup ${folder} is not there, or can't be read: it was not searched`);
    if (held !== undefined && held.id === id)
      found.push(`the backup ${folder} of ${held.time} has ${held.lines} lines`);
  }
  for (const server of receipt.away)
    notes.push(`${server} was unreachable: its files can't be checked from here`);
  return { found, notes };
}

type Say = (what: string) => void;

async function lookInJournal(
  { journal, snapshots }: ReadPorts,
  id: AgentId,
  { end }: ErasedAgent,
  say: Say,
): Promise<void> {
  let events = 0;
  for await (const _event of journal.read(id, { fromSeq: 1 as Sequence, toSeq: end as Sequence }))
    events++;
  // The last one is the end itself, unless a later life was trimmed.
  if (end > 0 && events > 1)
    say(
      `${counted(events - 1, "event from before the erasure is", "events from before the erasure are")} in the journal`,
    );
  const isOld = (bytes: Uint8Array | undefined): boolean =>
    bytes !== undefined && seqOf(bytes) <= end;
  for await (const snapshot of snapshots.newestFirst(id))
    if (isOld(snapshot)) say(`a snapshot from before the erasure is at the broker`);
  const { copies = [] } = (await snapshots.bases(id)) ?? {};
  if (copies.some(isOld)) say(`a base from before the erasure is at the broker`);
}

/** -1 if it can't be read, since it then does not belong to a later life. */
const seqOf = (snapshot: Uint8Array): number =>
  ifReadable(() => decodeSnapshot(snapshot))?.head.seq ?? -1;

async function lookInArchive(
  { archive }: ReadPorts,
  id: AgentId,
  { archived, end }: ErasedAgent,
  { say, note }: { readonly say: Say; readonly note: Say },
): Promise<void> {
  if (archive === undefined) return;
  const away = new Set<string>();
  for (const part of archived) {
    const found = await archive.sha256At(part);
    if (found === undefined) away.add(part.segment);
    if (found === part.sha256)
      say(`its part at ${part.offset} of ${part.segment} is in the archive again`);
  }
  if (away.size > 0)
    note(
      `${addressKey(id)}: the archive lacks ${[...away].join(", ")}, which could not be searched. Is it the right one, and is its disk mounted?`,
    );
  const old = (await archive.lastSeqsOf(id)).filter((seq) => seq <= end).length;
  if (old > 0) say(`${old} parts of it are in the archive`);
}

/** Searches dead letters and waiting inputs. Both are listed once for all agents. */
async function lookForMessages(
  ports: ReadPorts,
  { agents, time }: ErasureReceipt,
  say: Say,
): Promise<void> {
  const erased = new Set(agents.map((agent) => addressKey(agentId(agent.class, agent.name))));
  const erasedMs = new Date(time).getTime();
  for await (const { id, data } of ports.deadLetters.list())
    if (erased.has(addressKey(id)) && timeOf(data) <= erasedMs)
      say(`${addressKey(id)}: a dead letter from before the erasure`);
  for await (const { id, storedMs } of ports.stored("inputs"))
    if (erased.has(addressKey(id)) && storedMs <= erasedMs)
      say(`${addressKey(id)}: an input from before the erasure waits`);
}

/** 0 if it can't be read. */
const timeOf = (letter: Uint8Array): number =>
  ifReadable(() => decodeDeadLetter(letter))?.head.time ?? 0;
