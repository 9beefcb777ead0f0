/**
 * `agents backup <folder>`: saves every agent, the inputs that wait for them, and the dead letters,
 * while the installation runs.
 *
 * 1. Inputs are saved first, then journals. An input that was stored before the backup began is
 *    then waiting in the backup, done in it, or both; in the last case its key identifies it. Dead
 *    letters are saved last, because a letter exists before the journal says that its input is
 *    dead.
 * 2. Each agent is saved as of some commit after the beginning. Two agents may be saved as of
 *    different moments.
 * 3. Data that can be rebuilt is not saved: snapshots, local images, timers, leases.
 * 4. Journals are read in ranges (`agents/backupEvents`), several at once. If one was trimmed,
 *    before the backup or meanwhile, its base is saved as an event (`agents/backupBases`).
 * 5. An interrupted backup continues when the command is run again (`agents/BackupLog`). It ends
 *    where the journals ended when it began.
 * 6. With `--since`, events are those after an earlier backup. All inputs and dead letters are
 *    saved, since they come and go.
 */
import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
import type { TimeShape } from "../../../core/time/Time.ts";
import { counted } from "../../../schemas/counted.ts";
import { sharesOf, type BackupFile, type JournalStream } from "../../../schemas/BackupFile.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { basesOf, findMissing } from "../agents/backup/backupBases.ts";
import { readChain } from "../agents/backup/backupChain.ts";
import { pieceOf, rangesOf, saveRange } from "../agents/backup/backupEvents.ts";
import { makeBackupFolder, writeFiles, writeManifest } from "../agents/backup/backupFolder.ts";
import { BackupLog, LOCK, type BackupPlan, type Piece } from "../agents/backup/BackupLog.ts";
import { withFileLock } from "../agents/withFileLock.ts";
import { inParallel } from "../agents/inParallel.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import { addTargetOptions, withPorts, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import { endedBySignal } from "../terminal/stopSignals.ts";
import { Progress } from "../terminal/Progress.ts";
import type { Terminal } from "../terminal/Terminal.ts";

/** How a backup is divided. Tests use smaller sizes. */
const SIZES = {
  /** Sequences of a range: a few seconds of work, which an interrupted backup repeats. */
  rangeEventsMin: 50_000,
  /** Average number of events in a file of a range. Fewer would only mean more files. */
  fileEventsMin: 4_000,
  /** `verify` and `restore` have the agents of a share in memory together. */
  shareEvents: 50_000,
  /** Each range writes as many files at once as there are shares. */
  sharesMax: 64,
};
/** One waits for the broker, one compresses, one encodes, and a fourth fills the gaps. */
const RANGES_AT_ONCE = 4;

const BASES = "bases";

export interface BackupOptions {
  readonly folder: string;
  /** An earlier backup, after which data is saved. Undefined: everything is saved. */
  readonly since?: string | undefined;
  readonly json?: boolean | undefined;
  /** Sizes of a new backup. Default `SIZES`. */
  readonly sizes?: typeof SIZES;
}

type Given = GivenTarget & Partial<BackupOptions>;

export function addBackup(program: Command, context: CommandContext): void {
  const { joins, terminal } = context;
  addTargetOptions(program.command("backup"))
    .description(
      "Writes every agent's journal, waiting inputs and dead letters into a new folder, for agents restore. The backup contains everything that was stored when it began, and may contain later commits. Run it again to continue an interrupted backup.",
    )
    .argument("<folder>", "a new or empty folder, or that of an interrupted backup")
    .option("--since <backup>", "folder of an earlier backup: save only later events")
    .addHelpText(
      "after",
      `
Don't redrive dead letters (agents dead redrive) meanwhile. A folder without manifest.json is an
unfinished backup: the same command continues it.

A backup with --since needs the earlier backup, and those that it builds on, at the same relative
path. agents verify checks them together.

Examples:
  agents backup /backups/$(date +%F)
  agents backup /backups/monday --since /backups/sunday`,
    )
    .action((folder: string, given: Given) =>
      backup((use) => withPorts(context, given, use), terminal, joins.time, { ...given, folder }),
    );
}

/**
 * Throws `CliError` if the folder contains anything else, another process works on it, or the
 * earlier backup is not of this installation. `--json` prints `{folder, time, inputs, events,
 * letters, since?}`, with numbers of lines.
 */
export async function backup(
  open: <A>(use: (ports: ReadPorts) => Promise<A>) => Promise<A>,
  terminal: Terminal,
  time: Pick<TimeShape, "id" | "nowMs" | "monotonicMs" | "after">,
  options: BackupOptions,
): Promise<void> {
  const path = resolve(terminal.cwd, options.folder);
  const since = options.since === undefined ? undefined : resolve(terminal.cwd, options.since);
  const lock = {
    path: join(path, LOCK),
    waitMs: 0,
    busy: (holder: string) =>
      `${holder} is writing to ${path}. If it is not an "agents backup", remove ${join(path, LOCK)}.`,
  };
  const write = async (ports: ReadPorts, earlier: Earlier | undefined) => {
    const log = await BackupLog.open(path);
    const begun = await begin(ports, path, log, { time, earlier, options });
    if (log.pieces.size > 1)
      terminal.err(`${path}: continuing the backup that began at ${begun.time}.`);
    const saved = await save(ports, path, log, {
      plan: begun,
      from: begun.streams.map((_, group) => earlier?.streams[group]?.end ?? 0),
      time,
      progress: new Progress(terminal, time, "events saved"),
    });
    await writeManifest(path, { ...manifestOf(begun), ...countsOf(saved), files: saved });
    await log.finish(saved);
    return { plan: begun, files: saved };
  };
  const interrupted = "The backup was interrupted. To continue it, run the same command again.";
  const { plan, files } = await endedBySignal(time, interrupted, async () => {
    const earlier = since === undefined ? undefined : await earlierOf(since);
    await BackupLog.check(path);
    return open(async (ports) => {
      if (earlier !== undefined) await checkOurs(ports, earlier);
      makeBackupFolder(path);
      return withFileLock(lock, time, () => write(ports, earlier));
    });
  });
  const counts = countsOf(files);
  const told = { folder: path, time: plan.time, ...counts, since };
  if (options.json) terminal.out(JSON.stringify(told));
  else
    terminal.out(
      `${path}: ${counted(counts.events, "event")}${since === undefined ? "" : ` since ${since}`}, ${counted(counts.inputs, "waiting input")} and ${counted(counts.letters, "dead letter")}, everything stored by ${plan.time}`,
    );
}

const manifestOf = ({ id, time, namespace, streams, shares, since }: BackupPlan) => ({
  id, time, namespace, streams, shares, ...(since === undefined ? {} : { since }),
}); // prettier-ignore

function countsOf(files: ReadonlyArray<BackupFile>) {
  const counts = { inputs: 0, events: 0, letters: 0 };
  for (const { kind, lines } of files) counts[kind] += lines;
  return counts;
}

interface Earlier {
  readonly path: string;
  readonly id: string;
  readonly namespace: string;
  readonly streams: ReadonlyArray<JournalStream>;
  readonly shares: number;
}

const FULL = "Make a full backup, without --since.";

/** Throws `CliError` for a backup that none can build on. */
async function earlierOf(path: string): Promise<Earlier> {
  const { manifest } = (await readChain(path)).links.at(-1)!;
  const { id, streams, namespace } = manifest;
  if (id === undefined || streams === undefined)
    throw failed(`${path} was made by an older release. New backups can't build on it. ${FULL}`);
  return { path, id, namespace, streams, shares: sharesOf(manifest) };
}

/** Throws `CliError` for a backup that backups of this installation can't build on. */
async function checkOurs(ports: ReadPorts, earlier: Earlier): Promise<void> {
  if (await isOurs(ports, earlier)) return;
  throw failed(
    `${earlier.path} belongs to another installation, or to this one before it was recreated. ${FULL}`,
  );
}

async function isOurs(
  { changes, namespace }: ReadPorts,
  found: Pick<BackupPlan, "namespace" | "streams">,
): Promise<boolean> {
  const now = await changes.streams();
  return (
    found.namespace === namespace &&
    found.streams.length === now.length &&
    found.streams.every(
      ({ created, end }, group) => created === now[group]!.created && end <= now[group]!.end,
    )
  );
}

/**
 * Returns the plan of an interrupted backup (rule 5), or a new one. Saves the inputs before it
 * makes the plan (rule 1).
 */
async function begin(
  ports: ReadPorts,
  path: string,
  log: BackupLog,
  {
    time,
    earlier,
    options,
  }: {
    readonly time: Pick<TimeShape, "id" | "nowMs">;
    readonly earlier: Earlier | undefined;
    readonly options: BackupOptions;
  },
): Promise<BackupPlan> {
  const { plan } = log;
  if (plan !== undefined && log.pieces.has("inputs")) {
    if (!(await isOurs(ports, plan)))
      throw failed(`${path} is an unfinished backup of another installation. Use a new folder.`);
    if (plan.since?.id !== earlier?.id)
      throw failed(
        `${path} was begun ${plan.since === undefined ? "without --since" : `with --since ${resolve(path, plan.since.folder)}`}. Use the same options to continue it, or use a new folder.`,
      );
    return plan;
  }
  const began = new Date(time.nowMs()).toISOString();
  const into = { prefix: "inputs", kind: "inputs", shares: 1 } as const;
  const files = await writeFiles(path, into, ports.stored("inputs"));
  const streams = await ports.changes.streams();
  const events = streams.reduce((sum, { end }) => sum + end, 0);
  const { rangeEventsMin, fileEventsMin, shareEvents, sharesMax } = options.sizes ?? SIZES;
  const shares =
    earlier?.shares ?? Math.max(1, Math.min(sharesMax, Math.ceil(events / shareEvents)));
  log.pieces.clear();
  return log.begin(
    {
      id: time.id(),
      time: began,
      namespace: ports.namespace,
      streams,
      shares,
      rangeEvents: Math.max(rangeEventsMin, shares * fileEventsMin),
      ...(earlier === undefined
        ? {}
        : { since: { folder: relative(path, earlier.path), id: earlier.id } }),
    },
    { piece: "inputs", files },
  );
}

/** What to read, after sequence `from` of each stream: an earlier backup's end, or 0. */
interface Saving {
  readonly plan: BackupPlan;
  readonly from: ReadonlyArray<number>;
  readonly time: Pick<TimeShape, "monotonicMs">;
}

/** Saves all missing pieces. Returns the files of all, in the manifest's order. */
async function save(
  ports: ReadPorts,
  path: string,
  log: BackupLog,
  { plan, from, time, progress }: Saving & { readonly progress: Progress },
): Promise<ReadonlyArray<BackupFile>> {
  const { shares } = plan;
  const ranges = rangesOf(plan, from);
  const sizeOf = ({ fromSeq, toSeq }: (typeof ranges)[number]): number => toSeq - fromSeq + 1;
  const total = ranges.reduce((sum, range) => sum + sizeOf(range), 0);
  let done = 0;
  const missing = ranges.filter((range) => !log.pieces.has(pieceOf(range)));
  for (const range of ranges) if (log.pieces.has(pieceOf(range))) done += sizeOf(range);
  progress.from(done);
  // The search for bases requires all ranges, and a range that is read again may need other bases.
  if (missing.length > 0) await log.forget((piece) => piece.startsWith(BASES));
  await inParallel(missing, RANGES_AT_ONCE, async (range) => {
    let at = range.fromSeq - 1;
    const saw = (seq: number): void => {
      done += seq - at;
      at = seq;
      progress.tell(done, total);
    };
    await log.add(await saveRange(ports, path, { range, shares, saw }));
    saw(range.toSeq);
  });
  const events = ranges.map((range) => log.pieces.get(pieceOf(range))!);
  const bases = await saveBases(ports, path, log, { plan, from, time, events });
  const into = { prefix: "letters", kind: "letters", shares: 1 } as const;
  const letters = await writeFiles(path, into, ports.stored("letters"));
  progress.end();
  const inputs = log.pieces.get("inputs")!;
  return [inputs, ...bases, ...events, { files: letters }].flatMap(({ files }) => files);
}

/** A base precedes its agent's events, and so do these files. */
async function saveBases(
  ports: ReadPorts,
  path: string,
  log: BackupLog,
  {
    plan: { shares, streams },
    from,
    time,
    events,
  }: Saving & { readonly events: ReadonlyArray<Piece> },
): Promise<ReadonlyArray<Piece>> {
  const pieces = Array.from({ length: shares }, (_, share) => `${BASES}-${share}`);
  if (!pieces.every((piece) => log.pieces.has(piece))) {
    const edges = events.flatMap((piece) => piece.edges?.name ?? []);
    const ends = streams.map(({ end }) => end);
    const missing = await findMissing(ports, path, { edges, from, ends, shares, time });
    for (const [share, piece] of pieces.entries()) {
      if (log.pieces.has(piece)) continue;
      const into = { prefix: BASES, kind: "events", shares } as const;
      const files = await writeFiles(path, into, basesOf(missing[share]!, ports));
      await log.add({ piece, files });
    }
  }
  return pieces.map((piece) => log.pieces.get(piece)!);
}
