/**
 * Where an agent's cache files lie: `<folder>/<class>/<two hex digits>/<name>`, without an ending. The digits
 * spread names over 256 folders, since one folder of a million entries is slow on most filesystems.
 *
 * A name is written as its token, which people can read. Past the disk's limit of a name it is its SHA-256; and
 * where it has capitals, a part of that follows, because some disks take "A" and "a" for one file.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { encodeToken, fnv1a32, type AgentId } from "../../schemas/Address.ts";

/** Filesystems take 255 bytes; the endings need some. */
const FILE_NAME_MAX = 200;
/** 64 bits: two names that differ in capitals only will not share them. */
const CAPITALS_HASH_DIGITS = 16;

export function cachePath(folder: string, id: AgentId): string {
  const shard = (fnv1a32(id.name) & 0xff).toString(16).padStart(2, "0");
  return join(folder, folderOf(id.class), shard, fileName(id.name));
}

/** Of the classes of a module: a few, each asked for with every agent that wakes. */
const folders = new Map<string, string>();

function folderOf(className: string): string {
  let name = folders.get(className);
  if (name === undefined) folders.set(className, (name = fileName(className)));
  return name;
}

function fileName(value: string): string {
  const token = encodeToken(value);
  const hash = (): string => createHash("sha256").update(token).digest("hex");
  if (token.length > FILE_NAME_MAX) return `~${hash()}`;
  // The hex digits of an escape are always capitals, so they tell nothing apart.
  return /[A-Z]/.test(token.replace(/=../g, ""))
    ? `${token}~${hash().slice(0, CAPITALS_HASH_DIGITS)}`
    : token;
}
