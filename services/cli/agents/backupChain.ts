/**
 * A backup and the ones that it builds on (`agents backup --since`), read as one: events of all of
 * them in order, inputs and dead letters of the last. Used by `agents restore` and `agents verify`.
 *
 * An agent that was erased in between has its end in a later backup. What earlier ones still have
 * of it is left out, so that a restore does not bring it back.
 */
import { resolve } from "node:path";
import { bareEnd } from "../../../core/journal/endLife.ts";
import { addressKey } from "../../../schemas/Address.ts";
import {
  BACKUP_PARTS,
  type BackupEntry,
  type BackupManifest,
} from "../../../schemas/BackupFile.ts";
import { CorruptFrame } from "../../../schemas/Frame.ts";
import { failed } from "../terminal/CliError.ts";
import { readManifest, readPart } from "./backupFolder.ts";

/** A year of hourly ones. A chain that is longer goes round in a circle. */
const LINKS_MAX = 10_000;

export interface BackupLink {
  readonly path: string;
  readonly manifest: BackupManifest;
}

export interface BackupChain {
  /** The oldest first. */
  readonly links: ReadonlyArray<BackupLink>;
  /** Where each erased agent ends: the number of the link, and the sequence of its end. */
  readonly ends: ReadonlyMap<string, { readonly link: number; readonly seq: number }>;
}

/**
 * The backup and those that it builds on, the oldest first. Throws `CliError` where one is missing,
 * `CorruptFrame` or `UnknownVersion`.
 */
export async function readChain(path: string): Promise<ReadonlyArray<BackupLink>> {
  const links: BackupLink[] = [{ path, manifest: await readManifest(path) }];
  for (;;) {
    const { path: at, manifest } = links[0]!;
    const { since } = manifest;
    if (since === undefined) return links;
    const earlier = resolve(at, since.folder);
    const found = await readManifest(earlier).catch(() => undefined);
    if (found?.id !== since.id || links.length >= LINKS_MAX)
      throw failed(
        `${at} builds on another backup (${since.id}), which is not in ${earlier}: put it back there.`,
      );
    links.unshift({ path: earlier, manifest: found });
  }
}

/**
 * Reads every file of the chain whole. Throws `CorruptFrame` where one is not as it was written,
 * the file's error, and as `readChain`.
 */
export async function checkChain(path: string): Promise<BackupChain> {
  const links = await readChain(path);
  const ends = new Map<string, { readonly link: number; readonly seq: number }>();
  for (const [link, { path: at, manifest }] of links.entries())
    for (const part of BACKUP_PARTS) {
      let lines = 0;
      for await (const { id, seq, data } of readPart(at, part, manifest.sums?.[part])) {
        lines++;
        if (part === "events" && links.length > 1 && bareEnd({ data }) !== undefined)
          ends.set(addressKey(id), { link, seq });
      }
      if (lines !== manifest[part])
        throw new CorruptFrame({
          message: `${manifest[part]} ${part} were saved, ${lines} are there`,
        });
    }
  return { links, ends };
}

/** All events of the chain, each agent's in order. */
export async function* chainEvents({
  links,
  ends,
}: BackupChain): AsyncGenerator<BackupEntry, void, void> {
  for (const [link, { path }] of links.entries())
    for await (const entry of readPart(path, "events")) {
      const end = ends.get(addressKey(entry.id));
      const isErased =
        end !== undefined && (link < end.link || (link === end.link && entry.seq < end.seq));
      if (!isErased) yield entry;
    }
}
