/**
 * A backup of a whole installation, which `agents backup` writes and `agents restore` reads: a
 * folder with three gzipped files of JSON lines and a manifest. The manifest is written last, so it
 * exists only beside complete files.
 *
 *     manifest.json     {"format":"agents.backup","v":1,"namespace":…,"time":ISO 8601,"inputs":…,"events":…,"letters":…}
 *     inputs.jsonl.gz   {"class":…,"name":…,"seq":…,"stored":milliseconds,"data":"the stored frame, base64"}   … one a line
 *     events.jsonl.gz   the same of every journal, each agent's oldest first
 *     letters.jsonl.gz  the same of the dead letters
 *
 * Frames are whole: content of the blob store is in the line. `inputs`, `events` and `letters` of
 * the manifest are numbers of lines. An incremental backup has `v` 2 and `since`: its events are
 * those after the other's, its inputs and letters are all. A reader refuses any other `v`.
 */
import { agentId, type AgentId } from "./Address.ts";
import { fromBase64, toBase64 } from "./base64.ts";
import { CorruptFrame, UnknownVersion } from "./Frame.ts";

const FORMAT = "agents.backup";
export const BACKUP_VERSION = 1;
/**
 * Version of a backup that builds on another. Releases that know only 1 would restore a part of
 * each agent.
 */
export const INCREMENT_VERSION = 2;

/**
 * Written in this order: an input that completes meanwhile is in the journal, which has its key.
 */
export const BACKUP_PARTS = ["inputs", "events", "letters"] as const;
export type BackupPart = (typeof BACKUP_PARTS)[number];

export interface BackupManifest extends Readonly<Record<BackupPart, number>> {
  readonly namespace: string;
  /** Start of the backup, ISO 8601. */
  readonly time: string;
  /** Unique for this backup. This and the next two are absent in backups of older releases. */
  readonly id?: string;
  /** The journals' streams, and the last sequence of each whose event is in it. */
  readonly streams?: ReadonlyArray<JournalStream>;
  /** SHA-256 of each file, in hex. */
  readonly sums?: Readonly<Record<BackupPart, string>>;
  /** The backup that this one builds on: its folder, from this one, and its id. Absent: none. */
  readonly since?: { readonly folder: string; readonly id: string };
}

/** `created`, ISO 8601, tells a stream from another of the same name. */
export interface JournalStream {
  readonly created: string;
  readonly end: number;
}

export interface BackupEntry {
  readonly id: AgentId;
  readonly seq: number;
  readonly storedMs: number;
  readonly data: Uint8Array;
}

export const encodeManifest = (manifest: BackupManifest): string =>
  JSON.stringify(
    {
      format: FORMAT,
      v: manifest.since === undefined ? BACKUP_VERSION : INCREMENT_VERSION,
      ...manifest,
    },
    undefined,
    2,
  );

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeManifest(text: string): BackupManifest {
  const found = parse(text);
  if (found["format"] !== FORMAT)
    throw new CorruptFrame({ message: 'manifest.json is not that of an "agents backup"' });
  const { v, namespace, time, inputs, events, letters, id, streams, sums, since } = found;
  const version = typeof v === "number" ? v : NaN;
  if (version !== BACKUP_VERSION && version !== INCREMENT_VERSION)
    throw new UnknownVersion({
      version,
      message: `the backup is of version ${version}; this release reads ${BACKUP_VERSION} and ${INCREMENT_VERSION}`,
    });
  if (
    typeof namespace !== "string" ||
    typeof time !== "string" ||
    typeof inputs !== "number" ||
    typeof events !== "number" ||
    typeof letters !== "number"
  )
    throw new CorruptFrame({ message: "manifest.json lacks a field" });
  if (version === INCREMENT_VERSION && !isSince(since))
    throw new CorruptFrame({ message: "manifest.json does not say what it builds on" });
  return {
    namespace,
    time,
    inputs,
    events,
    letters,
    ...(typeof id === "string" && { id }),
    ...(Array.isArray(streams) && streams.every(isStream) && { streams }),
    ...(isSums(sums) && { sums }),
    ...(isSince(since) && { since }),
  };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;
const isStream = (value: unknown): value is JournalStream =>
  isRecord(value) && typeof value["created"] === "string" && typeof value["end"] === "number";
const isSums = (value: unknown): value is NonNullable<BackupManifest["sums"]> =>
  isRecord(value) && BACKUP_PARTS.every((part) => typeof value[part] === "string");
const isSince = (value: unknown): value is NonNullable<BackupManifest["since"]> =>
  isRecord(value) && typeof value["folder"] === "string" && typeof value["id"] === "string";

export const encodeEntry = ({ id, seq, storedMs, data }: BackupEntry): string =>
  JSON.stringify({
    class: id.class,
    name: id.name,
    seq,
    stored: storedMs,
    data: toBase64(data),
  });

/** Throws `CorruptFrame` or `InvalidAddress`. */
export function decodeEntry(line: string): BackupEntry {
  const { class: className, name, seq, stored, data } = parse(line);
  if (
    typeof seq !== "number" ||
    typeof stored !== "number" ||
    typeof data !== "string" ||
    typeof className !== "string" ||
    typeof name !== "string"
  )
    throw new CorruptFrame({ message: "a line of the backup is no entry" });
  return {
    id: agentId(className, name),
    seq,
    storedMs: stored,
    data: fromBase64(data),
  };
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new CorruptFrame({ message: "a line of the backup is not JSON" });
}
