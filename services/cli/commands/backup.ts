/**
 * `agents backup <folder>`: saves every agent, the inputs that wait for them, and the dead letters,
 * while the installation runs.
 *
 * 1. Inputs are saved first, then journals. An input that was stored before the backup began is
 *    then waiting in the backup, done in it, or both; in the last case its key identifies it. Dead
 *    letters are saved last: a letter exists before the journal says that its input is dead.
 * 2. Each agent is saved as of some commit after the beginning. Two agents may be saved as of
 *    different moments.
 * 3. What can be rebuilt is not saved: snapshots, local images, timers, leases.
 * 4. Where a journal was trimmed, before the backup or meanwhile, its base is saved as an event.
 * 5. `--since`: events are those that came after an earlier backup. Inputs and dead letters are all
 *    that there are, since they go away again.
 */
import { relative, resolve } from "node:path";
import type { Command } from "commander";
import { Beginnings } from "../../../core/journal/Beginnings.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { AgentId, Sequence } from "../../../schemas/Address.ts";
import type { BackupEntry, JournalStream } from "../../../schemas/BackupFile.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { baseAsEvent } from "../agents/baseAsEvent.ts";
import { readChain } from "../agents/backupChain.ts";
import { makeFolder, writeManifest, writePart } from "../agents/backupFolder.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface BackupOptions {
  readonly folder: string;
  /** An earlier backup: only what is new since then is saved. Undefined: everything is. */
  readonly since: string | undefined;
  readonly json: boolean;
}

/** The values that commander parses. */
interface Given extends GivenTarget {
  readonly since?: string;
}

export function addBackup(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("backup"))
    .description(
      "Writes every agent's journal, the inputs that wait and the dead letters into a new folder, for agents restore. Whatever was stored when it began is in it; an agent's later commits may be.",
    )
    .argument("<folder>", "new or empty")
    .option("--since <backup>", "folder of an earlier one: save only events that came since then")
    .addHelpText(
      "after",
      `
Don't run dead letters again (agents dead redrive) meanwhile. A folder without manifest.json is
a backup that was not finished.

A backup with --since needs the earlier one, and all that that builds on, at the same place beside
it. agents verify checks them together.

Examples:
  agents backup /backups/$(date +%F)
  agents backup /backups/monday --since /backups/sunday`,
    )
    .action((folder: string, given: Given) =>
      withPorts(context, given, (ports) =>
        backup(ports, terminal, joins.time, {
          folder,
          since: given.since,
          json: given.json === true,
        }),
      ),
    );
}

/**
 * Throws `CliError` where the folder is not empty, or the earlier backup is not of this
 * installation. `--json` prints `{folder, time, inputs, events, letters, since?}`, with numbers of
 * lines.
 */
export async function backup(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs" | "monotonicMs">,
  { folder, since, json }: BackupOptions,
): Promise<void> {
  const path = resolve(terminal.cwd, folder);
  const earlier =
    since === undefined ? undefined : await earlierOf(ports, resolve(terminal.cwd, since));
  await makeFolder(path);
  const began = new Date(time.nowMs()).toISOString();
  const progress = json ? undefined : new Progress(terminal, time);
  const inputs = await writePart(path, "inputs", ports.stored("inputs"));
  // After the inputs: rule 1.
  const streams = await ports.changes.streams();
  const from = streams.map((_, group) => earlier?.streams[group]?.end ?? 0);
  const stored = eventsOf(ports, { from, streams, progress });
  const known = (id: AgentId): number => from[ports.changes.groupOf(id)] ?? 0;
  const events = await writePart(path, "events", fromBases(stored, ports, known));
  const letters = await writePart(path, "letters", ports.stored("letters"));
  const counts = { inputs: inputs.count, events: events.count, letters: letters.count };
  await writeManifest(path, {
    namespace: ports.namespace,
    time: began,
    ...counts,
    id: time.id(),
    streams,
    sums: { inputs: inputs.sum, events: events.sum, letters: letters.sum },
    ...(earlier === undefined
      ? {}
      : { since: { folder: relative(path, earlier.path), id: earlier.id } }),
  });
  const told = { folder: path, time: began, ...counts, since: earlier?.path };
  if (json) terminal.out(JSON.stringify(told));
  else
    terminal.out(
      `${path}: ${counts.events} events${earlier === undefined ? "" : ` since ${earlier.path}`}, ${counts.inputs} inputs that wait, ${counts.letters} dead letters, all that was stored at ${began}`,
    );
}

interface Earlier {
  readonly path: string;
  readonly id: string;
  readonly streams: ReadonlyArray<JournalStream>;
}

/** Throws `CliError` for a backup that this installation's can't build on. */
async function earlierOf({ changes, namespace }: ReadPorts, path: string): Promise<Earlier> {
  const { manifest } = (await readChain(path)).at(-1)!;
  const { id, streams } = manifest;
  const full = "Make a full one: without --since.";
  if (id === undefined || streams === undefined)
    throw failed(`${path} was made by an older release, and can't be built on. ${full}`);
  const now = await changes.streams();
  const isOurs =
    manifest.namespace === namespace &&
    streams.length === now.length &&
    streams.every(
      ({ created, end }, group) => created === now[group]!.created && end <= now[group]!.end,
    );
  if (isOurs) return { path, id, streams };
  throw failed(
    `${path} is of another installation, or of this one before it was made anew. ${full}`,
  );
}

/** Events after `from`, up to where the streams end. */
async function* eventsOf(
  { changes }: Pick<ReadPorts, "changes">,
  {
    from,
    streams,
    progress,
  }: {
    readonly from: ReadonlyArray<number>;
    readonly streams: ReadonlyArray<JournalStream>;
    readonly progress: Progress | undefined;
  },
): AsyncGenerator<BackupEntry, void, void> {
  const total = streams.reduce((sum, { end }, group) => sum + end - (from[group] ?? 0), 0);
  let before = 0;
  for (const [group, { end }] of streams.entries()) {
    const begin = from[group] ?? 0;
    const range = { fromSeq: begin + 1, toSeq: end };
    for await (const entry of changes.between(group, range)) {
      progress?.tell("events", before + entry.seq - begin, total);
      yield entry;
    }
    before += end - begin;
  }
}

/**
 * Rule 4. What comes after a base that can't be read is saved as an event that can't be read
 * either: its agent does not start where it is restored, as it would not here.
 */
async function* fromBases(
  stored: AsyncIterable<BackupEntry>,
  { snapshots }: Pick<ReadPorts, "snapshots">,
  known: (id: AgentId) => number,
): AsyncGenerator<BackupEntry, void, void> {
  const beginnings = new Beginnings(snapshots, known);
  for await (const entry of stored) {
    const event = { ...entry, seq: entry.seq as Sequence };
    for (const read of await beginnings.take(entry.id, event))
      if (read._tag === "Event") yield read.event;
      else if (read._tag === "Base") yield { ...baseAsEvent(read), id: entry.id };
      else yield { ...entry, data: new Uint8Array(0) };
  }
}
