/**
 * One agent's file in the local cache: the pages in order, and behind the last of them what says that they are whole, and
 * its length (u32, little-endian), with which the file ends. That meta is a `Frame`:
 *
 *     {"v":1,"crc":"…","class":…,"name":…,"seq":…,"pages":…,"core":bytes of it}\n crc32 of each page (u32, little-endian) · core
 *
 * 1. The length is made zero before the first write to the pages, and the meta written last, at close. So there is a
 *    meta only behind pages that match it, but for a failing disk or a crash of the machine: those are found by the
 *    frame's checksum, or by that of each page when it is read.
 * 2. The file is a shortcut and never the truth: nothing is fsynced, and whoever finds it damaged throws it away and
 *    replays.
 * 3. One file, written in place: agents that come and go are many, and to make, rename or remove a file costs more than
 *    to write it.
 *
 * Fed by `PageImage`.
 */
import {
  closeSync, fstatSync, ftruncateSync, openSync, readSync, rmSync, writeSync,
} from "node:fs"; // prettier-ignore
import { agentId, InvalidAddress, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame, decodeFrame, encodeFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";
import type { OpenFiles } from "./OpenFiles.ts";
import { PAGE_SIZE } from "./PagePool.ts";

/** Ending of a cache file's name. */
export const CACHE_ENDING = ".image";

/** Of the meta's length. */
const LENGTH_BYTES = 4;
/** Read at once from the file's end: the meta of a small database, which most are, and its length. */
const TAIL_BYTES = 4096;

export interface CacheMeta {
  readonly seq: Sequence;
  readonly core: Uint8Array;
  /** CRC-32 of each page, page 1 first. */
  readonly crcs: Uint32Array;
}

export class CacheFile {
  private readonly id: AgentId;
  private readonly path: string;
  private readonly files: OpenFiles;
  /** Whether a meta may be there; it must not while the pages change. */
  private metaLeft = true;
  /** Of the meta that is there and matches the pages, where there is one. */
  private clean: { readonly seq: Sequence; readonly pages: number } | undefined;

  /** `path` is without the ending. */
  constructor(id: AgentId, path: string, files: OpenFiles) {
    this.id = id;
    this.path = path + CACHE_ENDING;
    this.files = files;
  }

  /** Undefined when there is none that can be trusted; never throws. */
  readMeta(): CacheMeta | undefined {
    try {
      const fd = this.files.use(this.path, { make: false });
      const meta = fd === undefined ? undefined : decodeMeta(this.id, readTail(fd));
      this.clean = meta && { seq: meta.seq, pages: meta.crcs.length };
      // Who looks through the folder may remove it: then the first write makes another.
      if (meta === undefined) this.release();
      return meta;
    } catch {
      // Cut off, another release's or another agent's: the caller replays, which is always right.
      this.release();
      return undefined;
    }
  }

  /** Fills `into` with the pages from `page` on. Throws when they are not all there. */
  read(page: number, into: Uint8Array): void {
    readAll(this.files.use(this.path), into, (page - 1) * PAGE_SIZE);
  }

  /** Writes pages that follow each other, the first being `page`. Throws when the disk does. */
  write(page: number, bytes: Uint8Array): void {
    const fd = this.files.use(this.path);
    this.dropMeta(fd);
    writeAll(fd, bytes, (page - 1) * PAGE_SIZE);
  }

  /** Rule 1. Throws when the disk does. */
  writeMeta(meta: CacheMeta): void {
    const pages = meta.crcs.length;
    // An agent that woke and committed nothing: what lies there says the same.
    if (this.clean?.seq === meta.seq && this.clean.pages === pages) return;
    const fd = this.files.use(this.path);
    this.dropMeta(fd);
    const bytes = encodeMeta(this.id, meta);
    const end = pages * PAGE_SIZE + bytes.length;
    if (fstatSync(fd).size > end) ftruncateSync(fd, end);
    writeAll(fd, bytes, pages * PAGE_SIZE);
    this.metaLeft = true;
  }

  /** Lets go of the descriptor. */
  release(): void {
    this.files.close(this.path);
  }

  /** Leaves nothing. */
  remove(): void {
    this.clean = undefined;
    this.metaLeft = false;
    this.release();
    rmSync(this.path, { force: true });
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

/** The agent of a cache file, by its own word; undefined where it says nothing that can be read. Throws when the disk does. */
export function idOfCache(path: string): AgentId | undefined {
  const fd = openSync(path, "r");
  try {
    const tail = readTail(fd);
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

/** The meta's frame, from the end of the file; undefined where there can be none. */
function readTail(fd: number): { readonly frame: Uint8Array; readonly pages: number } | undefined {
  const { size } = fstatSync(fd);
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

/** Fills `into`. Throws when the file ends before. */
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

/** The frame and its length: what follows the pages. */
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
