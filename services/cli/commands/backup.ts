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
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { Beginnings } from "../../../core/journal/Beginnings.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import { BACKUP_PARTS, type BackupEntry, type BackupPart } from "../../../schemas/BackupFile.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import { baseAsEvent } from "../agents/baseAsEvent.ts";
import { makeFolder, writeManifest, writePart } from "../agents/backupFolder.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface BackupOptions {
  readonly folder: string;
  readonly json: boolean;
}

export function addBackup(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("backup"))
    .description(
      "Writes every agent's journal, the inputs that wait and the dead letters into a new folder, for agents restore. Whatever was stored when it began is in it; an agent's later commits may be.",
    )
    .argument("<folder>", "new or empty")
    .addHelpText(
      "after",
      `
Don't run dead letters again (agents dead redrive) meanwhile. A folder without manifest.json is
a backup that was not finished.

Example:
  agents backup /backups/$(date +%F)`,
    )
    .action((folder: string, given: GivenTarget) =>
      withPorts(context, given, (ports) =>
        backup(ports, terminal, joins.time, { folder, json: given.json === true }),
      ),
    );
}

/**
 * Throws `CliError` where the folder is not empty. `--json` prints `{folder, time, inputs, events,
 * letters}`, the last three as counts.
 */
export async function backup(
  ports: ReadPorts,
  terminal: Terminal,
  time: Pick<TimeShape, "nowMs">,
  { folder, json }: BackupOptions,
): Promise<void> {
  const path = resolve(terminal.cwd, folder);
  await makeFolder(path);
  const began = new Date(time.nowMs()).toISOString();
  const counts: Record<BackupPart, number> = { inputs: 0, events: 0, letters: 0 };
  for (const part of BACKUP_PARTS) {
    const stored = ports.stored(part);
    const entries = part === "events" ? fromBases(stored, ports) : stored;
    counts[part] = await writePart(path, part, entries);
  }
  await writeManifest(path, { namespace: ports.namespace, time: began, ...counts });
  const { inputs, events, letters } = counts;
  if (json) terminal.out(JSON.stringify({ folder: path, time: began, ...counts }));
  else
    terminal.out(
      `${path}: ${events} events, ${inputs} inputs that wait, ${letters} dead letters, all that was stored at ${began}`,
    );
}

/**
 * Rule 4. What comes after a base that can't be read is saved as an event that can't be read
 * either: its agent does not start where it is restored, as it would not here.
 */
async function* fromBases(
  stored: AsyncIterable<BackupEntry>,
  { snapshots }: Pick<ReadPorts, "snapshots">,
): AsyncGenerator<BackupEntry, void, void> {
  const beginnings = new Beginnings(snapshots);
  for await (const entry of stored) {
    const event = { ...entry, seq: entry.seq as Sequence };
    for (const read of await beginnings.take(entry.id, event))
      if (read._tag === "Event") yield read.event;
      else if (read._tag === "Base") yield { ...baseAsEvent(read), id: entry.id };
      else yield { ...entry, data: new Uint8Array(0) };
  }
}
