/**
 * Writes and reads the receipt of an erasure (`schemas/ErasureReceipt`), and finds the backups that
 * still contain erased agents. `verifyErasure` checks a receipt again.
 */
import { createHash } from "node:crypto";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../../../core/errors/thrown.ts";
import { addressKey, type AgentId } from "../../../../schemas/Address.ts";
import { filesOf } from "../../../../schemas/BackupFile.ts";
import {
  decodeReceipt,
  encodeReceipt,
  type ErasureReceipt,
  type HoldingBackup,
} from "../../../../schemas/ErasureReceipt.ts";
import { isUnreadable } from "../../../../schemas/Frame.ts";
import { failed } from "../../terminal/CliError.ts";
import { MANIFEST, PRIVATE_FILE, readEntries, readManifest } from "../backup/backupFolder.ts";
import { LOG } from "../backup/BackupLog.ts";

/** Options of a file that must not exist yet. */
const NEW_FILE = { mode: PRIVATE_FILE, flag: "wx" };

export const sha256 = (content: string | Uint8Array): string =>
  createHash("sha256").update(content).digest("hex");

/**
 * Throws `CliError` if the file exists or can't be made. Called before anything is erased: what is
 * gone can't be read again for a second receipt.
 */
export function checkReceipt(path: string): void {
  if (existsSync(path))
    throw failed(`${path} exists already. Nothing was removed. Use a new file for each receipt.`);
  try {
    writeFileSync(path, "", NEW_FILE);
    rmSync(path);
  } catch (error) {
    throw failed(
      `The receipt can't be written: ${messageOf(error)}. Nothing was removed. Use another file.`,
    );
  }
}

/** Throws `CliError` with the receipt itself, if the file can't be written. */
export async function writeReceipt(path: string, receipt: ErasureReceipt): Promise<void> {
  const text = encodeReceipt(receipt, sha256);
  try {
    await writeFile(path, `${text}\n`, { ...NEW_FILE, flush: true });
  } catch (error) {
    throw failed(
      `The receipt could not be written: ${messageOf(error)}. Put this into a file, which is then the receipt:\n${text}`,
    );
  }
}

/** Throws `CliError`. */
export async function readReceipt(path: string): Promise<ErasureReceipt> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw failed(`${path} can't be read: ${(error as Error).message}`);
  });
  try {
    return decodeReceipt(text, sha256);
  } catch (error) {
    if (isUnreadable(error)) throw failed(`${path}: ${error.message}`);
    throw error;
  }
}

/**
 * Returns the folders of backups: each of `folders` that is one, and those inside it. Throws
 * `CliError` for a folder without any, and for an unfinished backup, which can't be searched.
 */
export async function backupsIn(folders: ReadonlyArray<string>): Promise<ReadonlyArray<string>> {
  const found: string[] = [];
  for (const folder of folders) {
    const inside = await readdir(folder).catch(() => []);
    const paths = [folder, ...inside.map((name) => join(folder, name))];
    const backups = paths.filter((path) => existsSync(join(path, MANIFEST)));
    for (const path of paths)
      if (existsSync(join(path, LOG)) && !backups.includes(path))
        throw failed(
          `${path} is an unfinished backup, and nothing was removed: run "agents backup ${path}" again, or remove the folder.`,
        );
    if (backups.length === 0)
      throw failed(
        `--backups ${folder}: it is not a backup and contains none. Nothing was removed.`,
      );
    found.push(...backups);
  }
  return found;
}

/** Undefined if the backup has nothing of the agents. Throws `CliError` if it is unreadable. */
export async function holding(
  folder: string,
  ids: ReadonlyArray<AgentId>,
): Promise<HoldingBackup | undefined> {
  const keys = new Set(ids.map(addressKey));
  let lines = 0;
  try {
    const manifest = await readManifest(folder);
    const { id, time } = manifest;
    for (const file of filesOf(manifest))
      for await (const entry of readEntries(folder, file))
        if (keys.has(addressKey(entry.id))) lines++;
    return lines === 0 ? undefined : { folder, ...(id !== undefined && { id }), time, lines };
  } catch (error) {
    throw failed(`the backup ${folder} can't be read: ${(error as Error).message}`);
  }
}
