/**
 * The path of an agent's cache file: `<folder>/<class>/<two hex digits>/<name>`, without an ending.
 * The digits spread names over 256 folders, because a folder of a million entries is slow on most
 * filesystems.
 *
 * A name is written as its token, which is readable. A name that is too long for a file name is
 * written as its SHA-256. A name with capitals has a part of the SHA-256 added, because some
 * filesystems treat "A" and "a" as one file.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { encodeToken, fnv1a32, type AgentId } from "../../schemas/Address.ts";

/** Filesystems allow 255 bytes, of which the suffix needs some. */
const FILE_NAME_MAX = 200;
/** 64 bits, so that two names that differ only in capitals do not collide. */
const CAPITALS_HASH_DIGITS = 16;

/** The path without a suffix. */
export function cachePath(folder: string, id: AgentId): string {
  const shard = (fnv1a32(id.name) & 0xff).toString(16).padStart(2, "0");
  return join(folder, folderOf(id.class), shard, fileName(id.name));
}

/** Folder names by class. A module has few classes, and each activation needs one. */
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
  // The hex digits of an escape are always capitals, so they are ignored.
  return /[A-Z]/.test(token.replace(/=../g, ""))
    ? `${token}~${hash().slice(0, CAPITALS_HASH_DIGITS)}`
    : token;
}
