/**
 * `agents erase <class> <name> --yes`: removes every byte of an agent's inputs and data from
 * streams, snapshots, blobs and the hosts' files.
 *
 * 1. The inputs are removed first, so that none of them runs again. Then the agent's life is ended:
 *    by the host that owns it, or here if no host runs. Then all stored data is removed.
 * 2. One event without content stays: the end. It fences off hosts that were frozen meanwhile
 *    (`endLife`).
 * 3. A nats-server that is unreachable while messages are removed may keep their bytes for good,
 *    and no later command reaches them. The command therefore checks for such servers first.
 * 4. An agent that receives further inputs is created again at once. The removal is repeated a few
 *    times, and then reported as incomplete.
 * 5. The sub-agents of every level are erased after it, including deleted ones, whose history still
 *    exists.
 * 6. The receipt says what was removed, and which of the named backups still contain it.
 * 7. Trimmed history in an archive is erased too. If that is impossible (no archive is named, or it
 *    is unreachable, damaged or another one), nothing is removed, because nothing would refer to
 *    that history afterwards.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { newestBase } from "../../../core/journal/baseFor.ts";
import { HOST_KEYS } from "../../../core/lease/leaseKeys.ts";
import { endLife } from "../../../core/journal/endLife.ts";
import { ArchiveUnavailable } from "../../../core/retention/Archive.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { isBelow } from "../../../schemas/AgentPath.ts";
import { CorruptFrame } from "../../../schemas/Frame.ts";
import type { ErasedAgent, HoldingBackup } from "../../../schemas/ErasureReceipt.ts";
import type { Purged } from "../../../core/journal/Purged.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import {
  backupsIn,
  holding,
  readReceipt,
  checkReceipt,
  writeReceipt,
} from "../agents/erasure/erasureReceipt.ts";
import { address, existingClass } from "../agents/findAgent.ts";
import { notReached } from "../agents/notReached.ts";
import { tellErasure } from "../agents/erasure/verifyErasure.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed, notFound, usage } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** Longer than a host takes to die and another to take over. */
const END_TIMEOUT_MS = 30_000;
/** The first round also removes an input that was in flight. Later rounds see only new ones. */
const ROUNDS_MAX = 3;
const BEFORE_ALL = 0 as Sequence;

interface EraseOptions {
  readonly className: string;
  readonly name: string;
  readonly yes: boolean;
  /** Rules 3 and 7: erase even if a server is unreachable or the archive is incomplete. */
  readonly whileAway: boolean;
  /** A new file for the receipt. */
  readonly receipt?: string | undefined;
  readonly archiveUrl?: string | undefined;
  /** The folders of the backups to search. */
  readonly backups?: ReadonlyArray<string>;
  readonly json: boolean;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly yes?: boolean;
  readonly whileAway?: boolean;
  readonly receipt?: string;
  readonly backups?: ReadonlyArray<string>;
  readonly verify?: string;
}

export function addErase(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("erase"), "[class]", "[name]")
    .description(
      "Removes an agent for good: state, SQL, history, inputs, schedules, dead letters, blobs, snapshots, and the hosts' local files. Works while the installation runs: the agent's host first destroys the agent and closes its sockets.",
    )
    .option("--yes", "erase it; without it, nothing is removed")
    .option(
      "--while-away",
      "erase even if a nats-server with copies is unreachable, or the agent's parts of the archive are lost",
    )
    .option(
      "--receipt <file>",
      "new file that records what was removed where and when, with hashes",
    )
    .option(
      "--backups <folder...>",
      "backups, or folders of backups: report which contain the agent",
    )
    .option(
      "--verify <file>",
      "erase nothing, but check that everything in a receipt is still gone",
    )
    .addHelpText(
      "after",
      `
One event without content stays in the journal, as a record of the erasure. Stop senders first: a
later input creates a new agent of the same name. If there is an archive, specify it (--archive).
Backups and copies of the broker's disks are not changed. The view of agents query drops the agent
at the next query.

--verify exits with 1 if anything is left in the broker, in the archive, or in the backups that
the receipt lists.

--json prints {class, name, removed: {events, inputs, …}, end, lives, hosts, silent, away}; with
--verify {erased: boolean, found: […], notes: […]}

Examples:
  agents export RepoAgent octocat~hello-world > agent.jsonl
  agents erase RepoAgent octocat~hello-world --yes --receipt erased.json --backups /backups
  agents erase --verify erased.json`,
    )
    .action(async (className: string | undefined, name: string | undefined, given: Given) => {
      if (given.verify !== undefined) {
        if (className !== undefined)
          throw usage("--verify reads the agents from the receipt: leave out class and name.");
        return verifyErasure(context, { ...given, verify: given.verify });
      }
      if (className === undefined || name === undefined)
        throw usage("Specify the class and the name of the agent, or --verify <receipt>.");
      const file = (path: string): string => resolve(terminal.cwd, path);
      const receipt = given.receipt && file(given.receipt);
      if (receipt !== undefined) checkReceipt(receipt);
      const backups = await backupsIn((given.backups ?? []).map(file));
      await withPorts(context, given, (ports, { archive }) =>
        erase(ports, terminal, joins.time, {
          className,
          name,
          yes: given.yes === true,
          whileAway: given.whileAway === true,
          receipt,
          backups,
          archiveUrl: archive,
          json: given.json === true,
        }),
      );
    });
}

async function verifyErasure(
  context: CommandContext,
  given: Given & { readonly verify: string },
): Promise<void> {
  const { terminal } = context;
  const receipt = await readReceipt(resolve(terminal.cwd, given.verify));
  const { archive = receipt.archive } = given;
  const target = { ...given, ...(archive !== undefined && { archive }) };
  const json = given.json === true;
  await withPorts(context, target, (ports) => tellErasure(ports, terminal, { receipt, json }));
}

/**
 * Throws `CliError` without `yes`, if nothing is stored about the agent, if a server with copies is
 * unreachable (rule 3), and if the agent was created again (rule 4).
 */
export async function erase(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs">,
  options: EraseOptions,
): Promise<void> {
  const { className, name, yes, whileAway, json, receipt, backups = [], archiveUrl } = options;
  const id = address(await existingClass(ports.journal, className), name);
  const below = await subAgentsOf(ports, id);
  if (!yes)
    throw usage(
      `This removes ${addressKey(id)}${below.length === 0 ? "" : ` and its ${below.length} sub-agents`} for good: state, SQL, history, inputs, schedules, dead letters. Add --yes to erase it. "agents export" makes a copy.`,
    );
  const awayBefore = await ports.awayCopies();
  if (awayBefore.length > 0 && !whileAway)
    throw failed(
      `${awayBefore.join(", ")} has copies, but is unreachable or behind. What is erased now could stay in its files, so nothing was removed. Bring it back and run this again; or add --while-away, and empty its store folder before it returns.`,
    );
  const held = await heldBy(backups, [id, ...below]);
  for (const each of [id, ...below]) await checkArchive(ports, each, whileAway);
  const living: AgentId[] = [];
  const erased: ErasedAgent[] = [];
  const away = new Set<string>();
  for (const each of [id, ...below]) {
    const mayBeNone = below.length > 0;
    const one = await eraseOne(ports, terminal, time, { id: each, awayBefore, mayBeNone, json });
    if (one.lives) living.push(each);
    erased.push(one.erased);
    for (const server of one.away) away.add(server);
  }
  for (const { folder, time: at, lines } of held)
    terminal.err(`The backup ${folder} of ${at} contains ${lines} lines of it.`);
  if (receipt !== undefined) {
    await writeReceipt(receipt, {
      time: new Date(time.nowMs()).toISOString(),
      namespace: ports.namespace,
      ...(archiveUrl !== undefined && { archive: archiveUrl }),
      agents: erased,
      away: [...away],
      backups: held,
    });
    terminal.err(`The receipt is ${receipt}. To check again: agents erase --verify ${receipt}`);
  }
  if (living.length > 0)
    throw failed(
      `${living.map(addressKey).join(", ")} was created again, because it keeps receiving inputs. Stop the senders, and run this again.`,
    );
}

/** Rule 5. Sub-agents have no separate subject, so all agents are listed. */
async function subAgentsOf(ports: ReadPorts, id: AgentId): Promise<AgentId[]> {
  const found: AgentId[] = [];
  for await (const entry of ports.journal.list()) if (isBelow(entry.id, id)) found.push(entry.id);
  return found;
}

async function heldBy(
  folders: ReadonlyArray<string>,
  ids: ReadonlyArray<AgentId>,
): Promise<ReadonlyArray<HoldingBackup>> {
  const held = await Promise.all(folders.map((folder) => holding(folder, ids)));
  return held.filter((backup) => backup !== undefined);
}

interface ErasedOne {
  /** Rule 4. */
  readonly lives: boolean;
  readonly erased: ErasedAgent;
  readonly away: ReadonlyArray<string>;
}

async function eraseOne(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs">,
  options: {
    readonly id: AgentId;
    readonly awayBefore: ReadonlyArray<string>;
    readonly mayBeNone: boolean;
    readonly json: boolean;
  },
): Promise<ErasedOne> {
  const { id, awayBefore, mayBeNone, json } = options;
  const online = (await ports.leases.list(HOST_KEYS)).map(({ value }) => value);
  const { purged, end, lives } = await purgeAll(ports, time, id, online.length > 0);
  const archived = (await ports.archive?.erase(id.class, new Set([id.name]))) ?? [];
  const hosts = await ports.tellErased(id, online);
  const isNothing = describe(purged) === describe(NOTHING) && archived.length === 0;
  if (end === BEFORE_ALL && !lives && !mayBeNone && isNothing)
    throw notFound(
      `Nothing is stored about ${addressKey(id)}. "agents list" lists the agents that exist.`,
    );
  const away = [...new Set([...awayBefore, ...(await ports.awayCopies())])];
  const silent = online.filter((host) => !hosts.includes(host));
  const { doneInputsGone: _, ...removed } = purged;
  const erased = { class: id.class, name: id.name, end, removed, archived, hosts, silent };
  const one = { lives, erased, away };
  if (json) terminal.out(JSON.stringify(lineOf(one, purged)));
  else reportRemoved(terminal, one, purged);
  warnOfRest(terminal, one, purged);
  return one;
}

/** Rule 4. */
async function purgeAll(
  ports: ReadPorts,
  time: Pick<TimeShape, "id" | "nowMs">,
  id: AgentId,
  hasHosts: boolean,
) {
  let purged = NOTHING;
  let end = BEFORE_ALL;
  let lives = true;
  for (let round = 0; lives && round < ROUNDS_MAX; round++) {
    purged = sum(purged, { ...NOTHING, ...(await ports.purgeInputs(id)) });
    end = await endOf(ports, time, id, hasHosts);
    purged = sum(purged, await ports.purge(id, { keepEventsFrom: end }));
    lives = ((await ports.journal.last(id))?.seq ?? BEFORE_ALL) !== end;
  }
  return { purged, end, lives };
}

function lineOf({ erased, lives, away }: ErasedOne, purged: Purged) {
  const { class: className, name, end, archived, hosts, silent } = erased;
  const removed = { ...purged, archived: archived.length };
  return { class: className, name, removed, end, lives, hosts, silent, away };
}

function reportRemoved(terminal: Terminal, { erased }: ErasedOne, purged: Purged): void {
  const { end, archived, hosts } = erased;
  terminal.out(`${erased.class}/${erased.name} is erased: ${describe(purged)}.`);
  if (archived.length > 0)
    terminal.out(`Parts of it that were removed from the archive: ${archived.length}.`);
  if (end !== BEFORE_ALL)
    terminal.out(`One event without content stays: the record of the erasure (sequence ${end}).`);
  if (hosts.length > 0) terminal.out(`Local files were removed from ${hosts.join(", ")}.`);
}

/** What may be left, and where. */
function warnOfRest(terminal: Terminal, { erased, away }: ErasedOne, purged: Purged): void {
  if (!purged.doneInputsGone)
    terminal.err(
      "Older messages of other agents wait in the inbox. Bytes of inputs that are already removed may therefore remain in the broker's files until it rewrites them (docs/operations/history.md).",
    );
  if (away.length > 0)
    terminal.err(
      `${away.join(", ")} was unreachable. Its files may keep bytes of this agent, and running this again does not remove them. Stop it, empty its store folder and start it: it copies everything else from the other servers (docs/operations/history.md).`,
    );
  if (erased.silent.length > 0)
    terminal.err(
      `No answer from ${erased.silent.join(", ")}. Run this again; if a host is gone for good, remove its data folder, which is only a cache.`,
    );
}

/** Rule 7. Throws `CliError` if its history in the archive can't be erased. */
async function checkArchive(
  { snapshots, archive }: ReadPorts,
  id: AgentId,
  whileAway: boolean,
): Promise<void> {
  try {
    await archive?.checkErasable(id.class);
  } catch (error) {
    if (!(error instanceof ArchiveUnavailable) && !(error instanceof CorruptFrame)) throw error;
    throw failed(`Nothing was removed: ${error.message}`);
  }
  const bases = await snapshots.bases(id);
  const place = bases && newestBase(id, bases)?.head.archive;
  if (place !== undefined && archive === undefined)
    throw failed(
      `Older history of ${addressKey(id)} is in an archive (${place.segment}). Nothing was removed. Specify the archive too: --archive file:///… or s3://…`,
    );
  if (place !== undefined && !whileAway && (await archive?.sha256At(place)) === undefined)
    throw failed(
      `Older history of ${addressKey(id)} is in an archive (${place.segment}), which is not the specified one. Nothing was removed. Specify the right archive, or mount its disk; if it is lost, add --while-away.`,
    );
}

async function endOf(
  { calls, journal }: ReadPorts,
  time: Pick<TimeShape, "id" | "nowMs">,
  id: AgentId,
  hosted: boolean,
): Promise<Sequence> {
  if (!hosted) {
    const signal = AbortSignal.timeout(END_TIMEOUT_MS);
    return endLife(id, { journal, time, host: "agents erase", epoch: undefined, signal });
  }
  try {
    const bounds = { deadlineMs: END_TIMEOUT_MS, repeatable: true };
    const { reply } = await calls.call(id, { kind: "erase" }, bounds);
    if (reply.kind === "result") return Number(reply.value) as Sequence;
    throw failed(
      `${addressKey(id)} could not be destroyed: ${reply.kind === "error" ? reply.message : reply.kind}. Its host's log has details.`,
    );
  } catch (error) {
    throw notReached(error, "Its inputs were removed. Run this again.");
  }
}

const NOTHING: Purged = {
  events: 0,
  inputs: 0,
  timers: 0,
  snapshots: 0,
  deadLetters: 0,
  blobs: 0,
  doneInputsGone: true,
};

const sum = (a: Purged, b: Purged): Purged => ({
  events: a.events + b.events,
  inputs: a.inputs + b.inputs,
  timers: a.timers + b.timers,
  snapshots: a.snapshots + b.snapshots,
  deadLetters: a.deadLetters + b.deadLetters,
  blobs: a.blobs + b.blobs,
  doneInputsGone: b.doneInputsGone,
});

const describe = ({ events, inputs, timers, snapshots, deadLetters, blobs }: Purged): string =>
  [
    counted(events, "event"),
    counted(inputs, "input"),
    counted(timers, "timer"),
    counted(snapshots, "snapshot"),
    counted(deadLetters, "dead letter"),
    counted(blobs, "blob"),
  ].join(", ");
