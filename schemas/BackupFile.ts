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
 * the manifest are numbers of lines. A reader refuses another `v`.
 */
import { agentId, type AgentId } from "./Address.ts";
import { fromBase64, toBase64 } from "./base64.ts";
import { CorruptFrame, UnknownVersion } from "./Frame.ts";

const FORMAT = "agents.backup";
export const BACKUP_VERSION = 1;

/**
 * Written in this order: an input that completes meanwhile is in the journal, which has its key.
 */
export const BACKUP_PARTS = ["inputs", "events", "letters"] as const;
export type BackupPart = (typeof BACKUP_PARTS)[number];

export interface BackupManifest extends Readonly<Record<BackupPart, number>> {
  readonly namespace: string;
  /** Start of the backup, ISO 8601. */
  readonly time: string;
}

export interface BackupEntry {
  readonly id: AgentId;
  readonly seq: number;
  readonly storedMs: number;
  readonly data: Uint8Array;
}

export const encodeManifest = (manifest: BackupManifest): string =>
  JSON.stringify({ format: FORMAT, v: BACKUP_VERSION, ...manifest }, undefined, 2);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeManifest(text: string): BackupManifest {
  const found = parse(text);
  if (found["format"] !== FORMAT)
    throw new CorruptFrame({ message: 'manifest.json is not that of an "agents backup"' });
  const { v, namespace, time, inputs, events, letters } = found;
  const version = typeof v === "number" ? v : NaN;
  if (version !== BACKUP_VERSION)
    throw new UnknownVersion({
      version,
      message: `the backup is of version ${version}; this release reads ${BACKUP_VERSION}`,
    });
  if (
    typeof namespace !== "string" ||
    typeof time !== "string" ||
    typeof inputs !== "number" ||
    typeof events !== "number" ||
    typeof letters !== "number"
  )
    throw new CorruptFrame({ message: "manifest.json lacks a field" });
  return { namespace, time, inputs, events, letters };
}

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
