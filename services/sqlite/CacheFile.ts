/**
 * One agent's file in the local cache: the pages in order, then the meta, which states that the
 * pages are complete, then the meta's length (u32, little-endian). The meta is a `Frame`:
 *
 *     {"v":1,"crc":"…","class":…,"name":…,"seq":…,"pages":…,"core":bytes of it}\n
 *     crc32 of each page (u32, little-endian) · core
 *
 * 1. The length is set to zero before the first write to the pages, and the meta is written last,
 *    at close. A meta therefore only follows pages that match it. The exceptions are a failing disk
 *    and a crash of the machine, which the checksum of the frame, or of a page when it is read,
 *    detects.
 * 2. The file is a shortcut and never the truth. Nothing is fsynced, and a damaged file is removed
 *    and the journal replayed.
 * 3. It is one file, written in place. Agents wake and hibernate often, and creating, renaming or
 *    removing a file costs more than writing it.
 *
 * Fed by `PageImage`.
 */
import {
  closeSync, fstatSync, ftruncateSync, futimesSync, openSync, readSync, rmSync, writeSync, type Stats,
} from "node:fs"; // prettier-ignore
import { agentId, InvalidAddress, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame, decodeFrame, encodeFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";
import type { OpenFiles } from "./OpenFiles.ts";
import { PAGE_SIZE } from "./PagePool.ts";

/** Suffix of a cache file's name. */
export const CACHE_ENDING = ".image";

/** Size of the field that holds the meta's length. */
const LENGTH_BYTES = 4;
/** Bytes of the first read from the file's end: most databases' meta, and its length. */
const TAIL_BYTES = 4096;

/** A file that was read keeps its time of change for so long: it is not written each time. */
const USED_MS = 24 * 60 * 60 * 1_000;

interface CacheMeta {
  readonly seq: Sequence;
  readonly core: Uint8Array;
  /** CRC-32 of each page, page 1 first. */
  readonly crcs: Uint32Array;
}

export class CacheFile {
  private readonly path: string;
  private readonly onGrown: ((bytes: number) => void) | undefined;
  /** As last read or completed. */
  private size = 0;
  /** Whether the file may have a meta. It must have none while the pages change. */
  private metaLeft = true;
  /** The file's meta that matches the pages, if there is one. */
  private clean: { readonly seq: Sequence; readonly pages: number } | undefined;

  /** `path` has no suffix. `onGrown` is called when the complete file is larger than before. */
  constructor(
    private readonly id: AgentId,
    path: string,
    private readonly files: OpenFiles,
    onGrown?: (bytes: number) => void,
  ) {
    this.path = path + CACHE_ENDING;
    this.onGrown = onGrown;
  }

  /** Returns the meta, or undefined if there is none that can be trusted. Never throws. */
  readMeta(): CacheMeta | undefined {
    try {
      const fd = this.files.use(this.path, { make: false });
      const meta = fd === undefined ? undefined : this.readFrom(fd);
      this.clean = meta && { seq: meta.seq, pages: meta.crcs.length };
      // `cachedAgents` may remove the file. The first write then creates another.
      if (meta === undefined) this.release();
      return meta;
    } catch {
      // Truncated, or another release's or agent's: the caller replays, which is always correct.
      this.release();
      return undefined;
    }
  }

  /** Fills `into` with the pages from `page` on. Throws if the file ends first. */
  read(page: number, into: Uint8Array): void {
    readAll(this.files.use(this.path), into, (page - 1) * PAGE_SIZE);
  }

  /** Writes consecutive pages, starting at `page`. Throws the disk's error. */
  write(page: number, bytes: Uint8Array): void {
    const fd = this.files.use(this.path);
    this.dropMeta(fd);
    writeAll(fd, bytes, (page - 1) * PAGE_SIZE);
  }

  /** Writes the meta, which makes the file complete (rule 1). Throws the disk's error. */
  writeMeta(meta: CacheMeta): void {
    const pages = meta.crcs.length;
    // The agent woke and committed nothing: the file has this meta already.
    if (this.clean?.seq === meta.seq && this.clean.pages === pages) return;
    const fd = this.files.use(this.path);
    this.dropMeta(fd);
    const bytes = encodeMeta(this.id, meta);
    const end = pages * PAGE_SIZE + bytes.length;
    if (fstatSync(fd).size > end) ftruncateSync(fd, end);
    writeAll(fd, bytes, pages * PAGE_SIZE);
    this.metaLeft = true;
    if (end > this.size) this.onGrown?.(end - this.size);
    this.size = end;
  }

  /** Closes the descriptor. */
  release(): void {
    this.files.close(this.path);
  }

  /** Removes the file. */
  remove(): void {
    this.clean = undefined;
    this.metaLeft = false;
    this.size = 0;
    this.release();
    rmSync(this.path, { force: true });
  }

  private readFrom(fd: number): CacheMeta | undefined {
    const stat = fstatSync(fd);
    const meta = decodeMeta(this.id, readTail(fd, stat.size));
    if (meta === undefined) return undefined;
    this.size = stat.size;
    noteUse(fd, stat);
    return meta;
  }

  private dropMeta(fd: number): void {
    this.clean = undefined;
    if (!this.metaLeft) return;
    const { size } = fstatSync(fd);
    if (size > 0)
      writeAll(fd, new Uint8Array(Math.min(size, LENGTH_BYTES)), Math.max(0, size - LENGTH_BYTES));
    this.metaLeft = false;
  }
}

/** Makes the file count as used (`FolderLimit`). */
function noteUse(fd: number, { mtimeMs }: Stats): void {
  const nowMs = Date.now();
  if (nowMs - mtimeMs > USED_MS) futimesSync(fd, nowMs / 1_000, nowMs / 1_000);
}

/**
 * Returns the agent that a cache file names, or undefined if it has no readable meta, or is gone: a
 * host removes files all the time. Throws any other error of the disk.
 */
export function idOfCache(path: string): AgentId | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const tail = readTail(fd, fstatSync(fd).size);
    if (tail === undefined) return undefined;
    const { head } = decodeFrame(tail.frame);
    return agentId(String(head["class"]), String(head["name"]));
  } catch (error) {
    if (
      error instanceof CorruptFrame ||
      error instanceof UnknownVersion ||
      error instanceof InvalidAddress
    )
      return undefined;
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** The meta's frame, from the end of a file of `size` bytes, or undefined. */
function readTail(
  fd: number,
  size: number,
): { readonly frame: Uint8Array; readonly pages: number } | undefined {
  if (size < LENGTH_BYTES) return undefined;
  const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
  readAll(fd, tail, size - tail.length);
  const length = tail.readUInt32LE(tail.length - LENGTH_BYTES);
  const from = size - LENGTH_BYTES - length;
  if (length === 0 || from < 0 || from % PAGE_SIZE !== 0) return undefined;
  const pages = from / PAGE_SIZE;
  if (length + LENGTH_BYTES <= tail.length)
    return { frame: tail.subarray(-LENGTH_BYTES - length, -LENGTH_BYTES), pages };
  const frame = new Uint8Array(length);
  readAll(fd, frame, from);
  return { frame, pages };
}

/** Fills `into`. Throws if the file ends first. */
function readAll(fd: number, into: Uint8Array, position: number): void {
  let at = 0;
  while (at < into.length) {
    const read = readSync(fd, into, at, into.length - at, position + at);
    if (read === 0)
      throw new Error(`the file ends in page ${Math.floor((position + at) / PAGE_SIZE) + 1}`);
    at += read;
  }
}

function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  let at = 0;
  while (at < bytes.length) at += writeSync(fd, bytes, at, bytes.length - at, position + at);
}

/** The bytes after the pages: the frame and its length. */
function encodeMeta(id: AgentId, { seq, core, crcs }: CacheMeta): Uint8Array {
  const body = new Uint8Array(crcs.length * 4 + core.length);
  const view = new DataView(body.buffer);
  for (let i = 0; i < crcs.length; i++) view.setUint32(i * 4, crcs[i]!, true);
  body.set(core, crcs.length * 4);
  const head = { class: id.class, name: id.name, seq, pages: crcs.length, core: core.length };
  const frame = encodeFrame(head, body);
  const bytes = new Uint8Array(frame.length + LENGTH_BYTES);
  bytes.set(frame);
  new DataView(bytes.buffer).setUint32(frame.length, frame.length, true);
  return bytes;
}

function decodeMeta(id: AgentId, tail: ReturnType<typeof readTail>): CacheMeta | undefined {
  if (tail === undefined) return undefined;
  const { head, body } = decodeFrame(tail.frame);
  const { seq, pages, core } = head;
  if (head["class"] !== id.class || head["name"] !== id.name) return undefined;
  if (typeof seq !== "number" || typeof pages !== "number" || typeof core !== "number")
    return undefined;
  if (pages > IMAGE_BYTES_MAX / PAGE_SIZE || body.length !== pages * 4 + core) return undefined;
  if (pages !== tail.pages) return undefined;
  const crcs = new Uint32Array(pages);
  const view = new DataView(body.buffer, body.byteOffset, pages * 4);
  for (let i = 0; i < pages; i++) crcs[i] = view.getUint32(i * 4, true);
  return { seq: seq as Sequence, core: new Uint8Array(body.subarray(pages * 4)), crcs };
}
