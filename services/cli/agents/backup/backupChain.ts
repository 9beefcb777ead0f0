/**
 * Reads a backup and those that it builds on (`agents backup --since`) as one: the events of all in
 * order, share by share, and the inputs and dead letters of the last. Used by `agents restore` and
 * `agents verify`, which work on several shares at once.
 *
 * 1. An agent's event that is not after its last one is void (`schemas/BackupFile`), because the
 *    base that was read before it includes it.
 * 2. An agent that was erased in between has its end in a later backup, or a base that makes all
 *    before it void. Its events before that are left out, so that a restore does not bring it back.
 */
import { resolve } from "node:path";
import { endsAllBefore } from "../../../../core/journal/endLife.ts";
import { addressKey } from "../../../../schemas/Address.ts";
import {
  filesOf,
  sharesOf,
  type BackupEntry,
  type BackupManifest,
  type BackupPart,
} from "../../../../schemas/BackupFile.ts";
import { CorruptFrame } from "../../../../schemas/Frame.ts";
import { failed } from "../../terminal/CliError.ts";
import { readEntries, readManifest } from "./backupFolder.ts";

/** A year of hourly backups. A longer chain is a circle. */
const LINKS_MAX = 10_000;

interface BackupLink {
  readonly path: string;
  readonly manifest: BackupManifest;
}

export interface BackupChain {
  /** Oldest first. */
  readonly links: ReadonlyArray<BackupLink>;
  /** The number of shares among which the agents are divided. */
  readonly shares: number;
}

export interface CheckedShare {
  readonly agents: number;
  readonly events: number;
  /** The end of each erased agent: the number of its link, and its sequence. */
  readonly ends: ReadonlyMap<string, { readonly link: number; readonly seq: number }>;
}

/**
 * Returns the backup and those that it builds on. Throws `CliError` if one is missing,
 * `CorruptFrame` or `UnknownVersion`.
 */
export async function readChain(path: string): Promise<BackupChain> {
  const links: BackupLink[] = [{ path, manifest: await readManifest(path) }];
  for (;;) {
    const { path: at, manifest } = links[0]!;
    const { since } = manifest;
    if (since === undefined) break;
    const earlier = resolve(at, since.folder);
    const found = await readManifest(earlier).catch(() => undefined);
    if (found?.id !== since.id || links.length >= LINKS_MAX)
      throw failed(
        `${at} builds on another backup (${since.id}), which is not in ${earlier}. Move it back there.`,
      );
    links.unshift({ path: earlier, manifest: found });
  }
  const shares = sharesOf(links[0]!.manifest);
  const other = links.find(({ manifest }) => sharesOf(manifest) !== shares);
  if (other !== undefined)
    throw new CorruptFrame({
      message: `${other.path} divides its agents differently from the backup that it builds on`,
    });
  return { links, shares };
}

/** Reads all events of a share. Throws `CorruptFrame` for a changed file, and its error. */
export async function checkShare(chain: BackupChain, share: number): Promise<CheckedShare> {
  const ends = new Map<string, { readonly link: number; readonly seq: number }>();
  const agents = new Set<string>();
  let events = 0;
  for await (const { link, entry } of eventsOf(chain, share)) {
    events++;
    const key = addressKey(entry.id);
    agents.add(key);
    if (chain.links.length > 1 && endsAllBefore(entry)) ends.set(key, { link, seq: entry.seq });
  }
  return { agents: agents.size, events, ends };
}

/** `checkShare` for inputs and dead letters. */
export async function checkOthers({ links }: BackupChain): Promise<void> {
  for (const { path, manifest } of links)
    for (const file of filesOf(manifest))
      if (file.kind !== "events") for await (const _ of readEntries(path, file));
}

/** The events of a share that are not void, each agent's in order. `ends`: `checkShare`'s. */
export async function* shareEvents(
  chain: BackupChain,
  share: number,
  ends: CheckedShare["ends"],
): AsyncGenerator<BackupEntry, void, void> {
  const lasts = new Map<string, number>();
  for await (const { link, entry } of eventsOf(chain, share)) {
    const key = addressKey(entry.id);
    const end = ends.get(key);
    if (end !== undefined && (link < end.link || (link === end.link && entry.seq < end.seq)))
      continue; // rule 2
    if (entry.seq <= (lasts.get(key) ?? 0)) continue; // rule 1
    lasts.set(key, entry.seq);
    yield entry;
  }
}

/** Inputs or dead letters of the last backup of the chain. */
export async function* othersOf(
  { links }: BackupChain,
  kind: Exclude<BackupPart, "events">,
): AsyncGenerator<BackupEntry, void, void> {
  const { path, manifest } = links.at(-1)!;
  for (const file of filesOf(manifest)) if (file.kind === kind) yield* readEntries(path, file);
}

async function* eventsOf({ links }: BackupChain, share: number) {
  for (const [link, { path, manifest }] of links.entries())
    for (const file of filesOf(manifest))
      if (file.kind === "events" && file.share === share)
        for await (const entry of readEntries(path, file)) yield { link, entry };
}
