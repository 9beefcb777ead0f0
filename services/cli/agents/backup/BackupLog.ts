/**
 * The progress of an unfinished backup: `unfinished.jsonl` in its folder. The first line is the
 * plan; each further line lists the complete files of one piece. A piece without a line is written
 * again. When all pieces are complete, the manifest replaces the log.
 *
 * 1. A line is written once its files are on the disk.
 * 2. A truncated or damaged line ends the log: later pieces are written again, and so are pieces
 *    whose files have changed.
 */
import { appendFile, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BackupFile, BackupManifest, JournalStream } from "../../../../schemas/BackupFile.ts";
import { failed } from "../../terminal/CliError.ts";
import { isAsWritten, MANIFEST, PRIVATE_FILE } from "./backupFolder.ts";

export const LOG = "unfinished.jsonl";
/** The lock file of the process that works on the folder. */
export const LOCK = "unfinished.lock";
/** Increased when a release can't continue the backups of earlier ones. */
const VERSION = 1;

/** Fixed when a backup begins, and used by every run that continues it. */
export interface BackupPlan {
  readonly v: typeof VERSION;
  readonly id: string;
  /** ISO 8601. */
  readonly time: string;
  readonly namespace: string;
  /** The ends of the journals' streams when the backup began. */
  readonly streams: ReadonlyArray<JournalStream>;
  readonly shares: number;
  /** The most sequences that one piece of a stream has. */
  readonly rangeEvents: number;
  readonly since?: BackupManifest["since"];
}

/** `edges` is set for a range of events: the file with its agents' edges (`backupEvents`). */
export interface Piece {
  readonly piece: string;
  readonly files: ReadonlyArray<BackupFile>;
  readonly edges?: Pick<BackupFile, "name" | "sum">;
}

export class BackupLog {
  plan: BackupPlan | undefined;
  readonly pieces = new Map<string, Piece>();
  private last: Promise<unknown> = Promise.resolve();

  private constructor(private readonly folder: string) {}

  /**
   * Reads the progress of an earlier run from the folder, which exists. Throws `CliError` if the
   * folder has anything else. The caller holds the lock.
   */
  static async open(folder: string): Promise<BackupLog> {
    await BackupLog.check(folder);
    const log = new BackupLog(folder);
    await log.read();
    return log;
  }

  /** Throws `CliError` if the folder exists and has anything but an unfinished backup. */
  static async check(folder: string): Promise<void> {
    const found = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const names = found.filter((name) => !name.startsWith(LOCK));
    if (names.includes(MANIFEST) || (names.length > 0 && !names.includes(LOG)))
      throw failed(`${folder} is not empty. Use a new folder for each backup.`);
  }

  /** Starts a new log. */
  async begin(plan: Omit<BackupPlan, "v">, first: Piece): Promise<BackupPlan> {
    this.plan = { v: VERSION, ...plan };
    this.pieces.set(first.piece, first);
    await this.rewrite();
    return this.plan;
  }

  async add(piece: Piece): Promise<void> {
    this.pieces.set(piece.piece, piece);
    const line = `${JSON.stringify(piece)}\n`;
    const written = this.last.then(() =>
      appendFile(join(this.folder, LOG), line, { mode: PRIVATE_FILE, flush: true }),
    );
    this.last = written.catch(() => undefined);
    await written;
  }

  /** Removes pieces, which are then written again. */
  async forget(isWanted: (piece: string) => boolean): Promise<void> {
    for (const piece of this.pieces.keys()) if (isWanted(piece)) this.pieces.delete(piece);
    await this.rewrite();
  }

  /** Called after the manifest is written. Removes all files that it does not name. */
  async finish(files: ReadonlyArray<BackupFile>): Promise<void> {
    const stay = new Set(files.map(({ name }) => name));
    for (const name of await readdir(this.folder))
      if (/\.jsonl(?:\.gz)?$/.test(name) && !stay.has(name)) await rm(join(this.folder, name));
  }

  private async read(): Promise<void> {
    const text = await readFile(join(this.folder, LOG), "utf8").catch(() => "");
    const lines = text.split("\n").slice(0, -1);
    const plan = parse<BackupPlan>(lines[0]);
    // Written first, so that the next run recognizes the folder as an unfinished backup.
    if (plan === undefined) return writeFile(join(this.folder, LOG), "", { mode: PRIVATE_FILE });
    if (plan.v !== VERSION)
      throw failed(
        `${this.folder} is an unfinished backup of another release, and only that release can continue it. Use a new folder.`,
      );
    this.plan = plan;
    for (const line of lines.slice(1)) {
      const piece = parse<Piece>(line);
      if (piece === undefined) break;
      const { files, edges } = piece;
      let whole = true;
      for (const file of edges === undefined ? files : [...files, edges])
        whole &&= await isAsWritten(this.folder, file);
      if (whole) this.pieces.set(piece.piece, piece);
    }
    await this.rewrite();
  }

  private async rewrite(): Promise<void> {
    const lines = [this.plan, ...this.pieces.values()].map((line) => `${JSON.stringify(line)}\n`);
    const path = join(this.folder, LOG);
    await writeFile(`${path}.new`, lines.join(""), { mode: PRIVATE_FILE, flush: true });
    await rename(`${path}.new`, path);
  }
}

/** Undefined for a truncated line. Complete lines were written by this file. */
function parse<A>(line: string | undefined): A | undefined {
  try {
    return line === undefined ? undefined : (JSON.parse(line) as A);
  } catch {
    return undefined;
  }
}
