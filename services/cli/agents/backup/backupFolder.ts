/**
 * Reads and writes the files of a backup (`schemas/BackupFile`), each as a stream, so that an
 * installation of any size needs little memory. Used by all commands that write or read backups.
 *
 * A file is a sequence of gzip members of a few hundred kilobytes. Several files are written
 * concurrently, and each needs only the memory of one member.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile, rename, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGunzip, gzip } from "node:zlib";
import {
  decodeEntry,
  decodeManifest,
  encodeEntry,
  encodeManifest,
  shareOf,
  type BackupEntry,
  type BackupFile,
  type BackupManifest,
  type BackupPart,
} from "../../../../schemas/BackupFile.ts";
import { CorruptFrame } from "../../../../schemas/Frame.ts";
import { readLines } from "../readLines.ts";
import { failed } from "../../terminal/CliError.ts";
import { makeFolder } from "../../terminal/makeFolder.ts";

/** Only the owner may read the files: they have all that agents store and callers sent. */
const PRIVATE_FOLDER = 0o700;
export const PRIVATE_FILE = 0o600;
export const MANIFEST = "manifest.json";
/** Characters of a gzip member. Larger members compress no better. */
const MEMBER_CHARS = 256 * 1024;
/** The level at which compressing is about as fast as encoding the lines. */
const GZIP_LEVEL = 3;
const gzipped = promisify(gzip);

export const makeBackupFolder = (path: string): void => makeFolder(path, PRIVATE_FOLDER);

/** A file of lines, which is compressed as it grows. */
export class LinesFile {
  lines = 0;
  private readonly hash: Hash = createHash("sha256");
  private waiting: string[] = [];
  private chars = 0;

  private constructor(private readonly file: FileHandle) {}

  /** Replaces an existing file. */
  static async create(path: string): Promise<LinesFile> {
    return new LinesFile(await open(path, "w", PRIVATE_FILE));
  }

  /** Returns a promise to await before the next line, or undefined. */
  add(line: string): Promise<void> | undefined {
    this.lines++;
    this.waiting.push(`${line}\n`);
    this.chars += line.length;
    return this.chars < MEMBER_CHARS ? undefined : this.write();
  }

  /** Resolves to the file's SHA-256 in hex once the file is on the disk. */
  async finish(): Promise<string> {
    await this.write();
    await this.file.sync();
    await this.close();
    return this.hash.digest("hex");
  }

  close(): Promise<void> {
    return this.file.close();
  }

  private async write(): Promise<void> {
    const text = this.waiting.join("");
    this.waiting = [];
    this.chars = 0;
    if (text === "") return;
    const member = await gzipped(text, { level: GZIP_LEVEL });
    this.hash.update(member);
    await this.file.appendFile(member);
  }
}

/**
 * Writes the entries into files of the folder, one for each share that has any. Rejects as the
 * entries do, and with the files' errors.
 */
export async function writeFiles(
  folder: string,
  { prefix, kind, shares }: { readonly prefix: string; readonly kind: BackupPart; readonly shares: number }, // prettier-ignore
  entries: AsyncIterable<BackupEntry>,
): Promise<ReadonlyArray<BackupFile>> {
  const begun = new Map<number, LinesFile>();
  const nameOf = (share: number): string =>
    `${shares === 1 ? prefix : `${prefix}-${share}`}.jsonl.gz`;
  const done: BackupFile[] = [];
  try {
    for await (const entry of entries) {
      const share = shareOf(entry.id, shares);
      const known = begun.get(share);
      const file = known ?? (await LinesFile.create(join(folder, nameOf(share))));
      if (known === undefined) begun.set(share, file);
      const written = file.add(encodeEntry(entry));
      if (written !== undefined) await written;
    }
    for (const [share, file] of begun) {
      begun.delete(share);
      const { lines } = file;
      done.push({ name: nameOf(share), kind, share, lines, sum: await file.finish() });
    }
    return done;
  } finally {
    for (const file of begun.values()) await file.close();
  }
}

/** Written last, because a folder without a manifest is not a backup. */
export async function writeManifest(
  folder: string,
  manifest: Parameters<typeof encodeManifest>[0],
): Promise<void> {
  const path = join(folder, MANIFEST);
  await writeFile(`${path}.new`, `${encodeManifest(manifest)}\n`, {
    mode: PRIVATE_FILE,
    flush: true,
  });
  await rename(`${path}.new`, path);
}

/** Throws `CliError` without a manifest, `CorruptFrame` or `UnknownVersion`. */
export async function readManifest(folder: string): Promise<BackupManifest> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => undefined);
  if (text === undefined)
    throw failed(
      `${folder} has no ${MANIFEST}: it is not a backup, or an unfinished one. Running the same "agents backup" again continues an unfinished backup.`,
    );
  return decodeManifest(text);
}

/** Rejects with the file's error, or with `CorruptFrame` if the file has changed. */
export async function* readEntries(
  folder: string,
  { name, lines, sum }: Pick<BackupFile, "name" | "lines"> & { readonly sum?: string | undefined },
): AsyncGenerator<BackupEntry, void, void> {
  const path = join(folder, name);
  const hash = createHash("sha256");
  let count = 0;
  try {
    for await (const line of unzippedLines(path, hash)) {
      count++;
      yield decodeEntry(line);
    }
  } catch (error) {
    // Errors of the file system already name the file.
    if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error;
    throw new CorruptFrame({
      message: `${path} is damaged or cut off, in line ${count}: ${(error as Error).message}`,
    });
  }
  if (sum !== undefined && hash.digest("hex") !== sum)
    throw new CorruptFrame({ message: `${path} has changed since it was written` });
  if (count !== lines)
    throw new CorruptFrame({ message: `${path}: ${lines} lines were saved, and it has ${count}` });
}

/** Yields the lines of a gzipped file. Its bytes are also passed to `hash`. */
export async function* unzippedLines(
  path: string,
  hash?: Hash,
): AsyncGenerator<string, void, void> {
  const gunzip = createGunzip();
  const hashed = async function* (source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      hash?.update(chunk);
      yield chunk;
    }
  };
  // A failure also fails the lines.
  const fed = pipeline(createReadStream(path), hashed, gunzip).catch(() => undefined);
  yield* readLines(gunzip);
  await fed;
}

/** Whether the file exists unchanged. */
export async function isAsWritten(
  folder: string,
  { name, sum }: Pick<BackupFile, "name" | "sum">,
): Promise<boolean> {
  const hash = createHash("sha256");
  try {
    await pipeline(createReadStream(join(folder, name)), hash);
  } catch {
    return false; // a missing or unreadable file is written again
  }
  return hash.digest("hex") === sum;
}
