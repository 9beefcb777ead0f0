/**
 * A backup of a whole installation, which `agents backup` writes and `agents restore` reads: a
 * folder of gzipped JSON lines and a manifest. The manifest is written last, so it exists only
 * beside complete files.
 *
 *     manifest.json  {"format":"agents.backup","v":3,"formats":…,"namespace":…,"time":ISO 8601,"id":…,"inputs":…,"events":…,"letters":…,
 *                     "streams":[…],"shares":…,"files":[{"name":…,"kind":"inputs"|"events"|"letters","share":…,"lines":…,"sum":…}…]}
 *     <name>         {"class":…,"name":…,"seq":…,"stored":milliseconds,"data":"the stored frame, base64"}   … one a line
 *
 * Frames are whole: content of the blob store is in the line. Events are divided by agent
 * (`shareOf`). The files of one share, in the manifest's order, have each agent's events with its
 * oldest first; a line that is not after the agent's last one is void: the agent's base has it. An
 * incremental backup has `since`.
 *
 * `formats`: the version of all that is in it (`StoredFormats`). A reader refuses a later one.
 *
 * Version 1 has one file of each kind, version 2 is an increment of that form. A reader refuses any
 * other `v`.
 */
import { addressKey, agentId, fnv1a32, type AgentId } from "./Address.ts";
import { fromBase64, toBase64 } from "./base64.ts";
import { CorruptFrame, UnknownVersion } from "./Frame.ts";
import { jsonObject } from "./jsonObject.ts";
import { refuseNewerFormats, STORED_FORMATS } from "./StoredFormats.ts";

const FORMAT = "agents.backup";
const PLAIN_VERSION = 1;
const PLAIN_INCREMENT_VERSION = 2;
const BACKUP_VERSION = 3;

/** Saved in this order: an input that completes meanwhile is in the journal, which has its key. */
const BACKUP_PARTS = ["inputs", "events", "letters"] as const;
export type BackupPart = (typeof BACKUP_PARTS)[number];

export interface BackupFile {
  /** In the backup's folder. */
  readonly name: string;
  readonly kind: BackupPart;
  /** Which agents' (`shareOf`). 0 for inputs and letters, which are not divided. */
  readonly share: number;
  readonly lines: number;
  /** SHA-256 of the file, in hex. */
  readonly sum: string;
}

/** The first three numbers are of lines. */
export interface BackupManifest extends Readonly<Record<BackupPart, number>> {
  readonly namespace: string;
  /** Start of the backup, ISO 8601. */
  readonly time: string;
  /** Unique for this backup. This and `streams` are absent in backups of older releases. */
  readonly id?: string;
  /** The journals' streams, and the last sequence of each whose event is in it. */
  readonly streams?: ReadonlyArray<JournalStream>;
  /** Among how many its agents are divided. This and `files` are absent before version 3. */
  readonly shares?: number;
  readonly files?: ReadonlyArray<BackupFile>;
  /** SHA-256 of each file, in hex. Before version 3. */
  readonly sums?: Readonly<Record<BackupPart, string>>;
  /** The backup that this one builds on: its folder, from this one, and its id. Absent: none. */
  readonly since?: { readonly folder: string; readonly id: string };
}

/** `created`, ISO 8601, tells a stream from another of the same name. */
export interface JournalStream {
  readonly created: string;
  readonly end: number;
}

/** `shares`: that of the agent's backup, and of all that build on it. */
export const shareOf = (id: AgentId, shares: number): number => fnv1a32(addressKey(id)) % shares;

export const sharesOf = ({ shares = 1 }: BackupManifest): number => shares;

/** In the order of `BackupFile`. `sum` is absent where an older release wrote none. */
export function filesOf(
  manifest: BackupManifest,
): ReadonlyArray<Omit<BackupFile, "sum"> & { readonly sum?: string | undefined }> {
  const { files, sums } = manifest;
  return (
    files ??
    BACKUP_PARTS.map((kind) => ({
      name: `${kind}.jsonl.gz`,
      kind,
      share: 0,
      lines: manifest[kind],
      sum: sums?.[kind],
    }))
  );
}

export interface BackupEntry {
  readonly id: AgentId;
  readonly seq: number;
  readonly storedMs: number;
  readonly data: Uint8Array;
}

export const encodeManifest = (
  manifest: Omit<BackupManifest, "sums"> & Required<Pick<BackupManifest, "shares" | "files">>,
): string =>
  JSON.stringify(
    { format: FORMAT, v: BACKUP_VERSION, formats: STORED_FORMATS, ...manifest },
    undefined,
    2,
  );

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeManifest(text: string): BackupManifest {
  const found = jsonObject(text, "a line of the backup is not JSON");
  if (found["format"] !== FORMAT)
    throw new CorruptFrame({ message: 'manifest.json is not that of an "agents backup"' });
  const { v, namespace, time, inputs, events, letters, id, streams, shares, files, sums, since } =
    found;
  refuseNewerFormats("the backup", found["formats"]);
  const version = typeof v === "number" ? v : NaN;
  if (![PLAIN_VERSION, PLAIN_INCREMENT_VERSION, BACKUP_VERSION].includes(version))
    throw new UnknownVersion({
      version,
      message: `the backup is of version ${version}; this release reads ${PLAIN_VERSION} to ${BACKUP_VERSION}`,
    });
  if (
    typeof namespace !== "string" ||
    typeof time !== "string" ||
    typeof inputs !== "number" ||
    typeof events !== "number" ||
    typeof letters !== "number"
  )
    throw new CorruptFrame({ message: "manifest.json lacks a field" });
  if ((version === PLAIN_INCREMENT_VERSION || since !== undefined) && !isSince(since))
    throw new CorruptFrame({ message: "manifest.json does not say what it builds on" });
  const divided = { shares, files };
  if (version === BACKUP_VERSION && !isDivided(divided))
    throw new CorruptFrame({ message: "manifest.json does not say which files there are" });
  return {
    namespace,
    time,
    inputs,
    events,
    letters,
    ...(typeof id === "string" && { id }),
    ...(Array.isArray(streams) && streams.every(isStream) && { streams }),
    ...(version === BACKUP_VERSION && isDivided(divided) && divided),
    ...(isSums(sums) && { sums }),
    ...(isSince(since) && { since }),
  };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;
const isStream = (value: unknown): value is JournalStream =>
  isRecord(value) && typeof value["created"] === "string" && typeof value["end"] === "number";
/** No name leads out of the folder. */
const NAME = /^[\w-]+\.jsonl\.gz$/;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0; // prettier-ignore
const isBackupFile = (value: unknown): value is BackupFile =>
  isRecord(value) &&
  NAME.test(String(value["name"])) &&
  BACKUP_PARTS.some((kind) => kind === value["kind"]) &&
  isCount(value["share"]) &&
  isCount(value["lines"]) &&
  typeof value["sum"] === "string";
const isDivided = (
  value: Readonly<Record<"shares" | "files", unknown>>,
): value is { readonly shares: number; readonly files: ReadonlyArray<BackupFile> } =>
  isCount(value.shares) &&
  value.shares > 0 &&
  Array.isArray(value.files) &&
  value.files.every(isBackupFile);
const isSums = (value: unknown): value is NonNullable<BackupManifest["sums"]> =>
  isRecord(value) && BACKUP_PARTS.every((part) => typeof value[part] === "string");
const isSince = (value: unknown): value is NonNullable<BackupManifest["since"]> =>
  isRecord(value) && typeof value["folder"] === "string" && typeof value["id"] === "string";

export const encodeEntry = ({ id, seq, storedMs, data }: BackupEntry): string =>
  JSON.stringify({ class: id.class, name: id.name, seq, stored: storedMs, data: toBase64(data) });

/** Throws `CorruptFrame` or `InvalidAddress`. */
export function decodeEntry(line: string): BackupEntry {
  const {
    class: className,
    name,
    seq,
    stored,
    data,
  } = jsonObject(line, "a line of the backup is not JSON");
  if (
    typeof seq !== "number" ||
    typeof stored !== "number" ||
    typeof data !== "string" ||
    typeof className !== "string" ||
    typeof name !== "string"
  )
    throw new CorruptFrame({ message: "a line of the backup is not an entry" });
  return { id: agentId(className, name), seq, storedMs: stored, data: fromBase64(data) };
}
