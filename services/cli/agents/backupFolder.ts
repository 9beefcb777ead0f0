/**
 * Reads and writes the files of a backup (`schemas/BackupFile`) as streams, so that an installation
 * of any size needs little memory. Used by `commands/backup` and `commands/restore`.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import {
  decodeEntry,
  decodeManifest,
  encodeEntry,
  encodeManifest,
  type BackupEntry,
  type BackupManifest,
  type BackupPart,
} from "../../../schemas/BackupFile.ts";
import { CorruptFrame } from "../../../schemas/Frame.ts";
import { readLines } from "./readLines.ts";
import { failed } from "../terminal/CliError.ts";

/**
 * The files contain everything that agents store and what their callers sent: only their owner may
 * read them.
 */
const PRIVATE_FOLDER = 0o700;
const PRIVATE_FILE = 0o600;
const MANIFEST = "manifest.json";
const fileOf = (folder: string, part: BackupPart): string => join(folder, `${part}.jsonl.gz`);

/** Creates the folder, or accepts one that is empty. Throws `CliError` for any other. */
export async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER });
  if ((await readdir(folder)).length > 0)
    throw failed(`${folder} is not empty: give a new folder for each backup.`);
}

/** Returns the number of lines written, and the file's SHA-256. */
export async function writePart(
  folder: string,
  part: BackupPart,
  entries: AsyncIterable<BackupEntry>,
): Promise<{ readonly count: number; readonly sum: string }> {
  let count = 0;
  async function* lines(): AsyncGenerator<string, void, void> {
    for await (const entry of entries) {
      count++;
      yield `${encodeEntry(entry)}\n`;
    }
  }
  const hash = createHash("sha256");
  await pipeline(
    lines,
    createGzip(),
    hashed(hash),
    createWriteStream(fileOf(folder, part), { mode: PRIVATE_FILE, flush: true }),
  );
  return { count, sum: hash.digest("hex") };
}

/** A step of a pipeline: passes the bytes on, and hashes them. */
const hashed = (hash: Hash) =>
  async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
    for await (const chunk of source) {
      hash.update(chunk);
      yield chunk;
    }
  };

/** Written last: a folder without a manifest is not a backup. */
export async function writeManifest(folder: string, manifest: BackupManifest): Promise<void> {
  const path = join(folder, MANIFEST);
  await writeFile(`${path}.new`, `${encodeManifest(manifest)}\n`, {
    mode: PRIVATE_FILE,
    flush: true,
  });
  await rename(`${path}.new`, path);
}

/** Throws `CliError` where there is no manifest, `CorruptFrame` or `UnknownVersion`. */
export async function readManifest(folder: string): Promise<BackupManifest> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => undefined);
  if (text === undefined)
    throw failed(`${folder} has no ${MANIFEST}: it is no backup, or one that was not finished.`);
  return decodeManifest(text);
}

/**
 * `sum`: what the file's SHA-256 has to be, in hex; default: anything. Rejects with the file's
 * error, zlib's, or `CorruptFrame`.
 */
export async function* readPart(
  folder: string,
  part: BackupPart,
  sum?: string,
): AsyncGenerator<BackupEntry, void, void> {
  const gunzip = createGunzip();
  const hash = createHash("sha256");
  const file = createReadStream(fileOf(folder, part));
  // A failure is that of the lines, too.
  const fed = pipeline(file, hashed(hash), gunzip).catch(() => undefined);
  for await (const line of readLines(gunzip)) yield decodeEntry(line);
  await fed;
  if (sum !== undefined && hash.digest("hex") !== sum)
    throw new CorruptFrame({ message: `${fileOf(folder, part)} is not the file that was written` });
}
