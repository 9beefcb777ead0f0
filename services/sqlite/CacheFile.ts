/**
 * One agent's files in the local cache: `….pages`, the pages in order, and `….meta`, which says that
 * they are whole. The meta file is a `Frame`:
 *
 *     {"v":1,"crc":"…","class":…,"name":…,"seq":…,"pages":…,"core":bytes of it}\n crc32 of each page (u32, little-endian) · core
 *
 * 1. The meta is removed before the first write to the pages, and written last, at close, by
 *    rename. So there is a meta only beside pages that match it, but for a failing disk or a crash
 *    of the machine: those are found by the checksum of each page, when it is read.
 * 2. The files are a shortcut and never the truth: nothing is fsynced, and whoever finds them
 *    damaged throws them away and replays.
 *
 * Fed by `PageImage`.
 */
import {
  mkdirSync, readFileSync, readSync, renameSync, rmSync, writeFileSync, writeSync,
} from "node:fs"; // prettier-ignore
import { dirname } from "node:path";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { decodeFrame, encodeFrame } from "../../schemas/Frame.ts";
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";
import type { OpenFiles } from "./OpenFiles.ts";
import { PAGE_SIZE } from "./PagePool.ts";

export interface CacheMeta {
  readonly seq: Sequence;
  readonly core: Uint8Array;
  /** CRC-32 of each page, page 1 first. */
  readonly crcs: Uint32Array;
}

export class CacheFile {
  private readonly id: AgentId;
  private readonly pagesPath: string;
  private readonly metaPath: string;
  private readonly files: OpenFiles;
  /** Whether a meta may exist; it must not while the pages change. */
  private metaLeft = true;
  /** Of the meta that lies there and matches the pages, where there is one. */
  private clean: { readonly seq: Sequence; readonly pages: number } | undefined;

  /** `path` is the files' common part. */
  constructor(id: AgentId, path: string, files: OpenFiles) {
    this.id = id;
    this.pagesPath = `${path}.pages`;
    this.metaPath = `${path}.meta`;
    this.files = files;
  }

  /** Undefined when there is none that can be trusted; never throws. */
  readMeta(): CacheMeta | undefined {
    try {
      const meta = decodeMeta(this.id, readFileSync(this.metaPath));
      this.clean = meta && { seq: meta.seq, pages: meta.crcs.length };
      return meta;
    } catch {
      // Absent, cut off, another release's or another agent's: the caller replays, which is always right.
      return undefined;
    }
  }

  /** Fills `into` with the pages from `page` on. Throws when they are not all there. */
  read(page: number, into: Uint8Array): void {
    const fd = this.files.use(this.pagesPath);
    const position = (page - 1) * PAGE_SIZE;
    let at = 0;
    while (at < into.length) {
      const read = readSync(fd, into, at, into.length - at, position + at);
      if (read === 0) throw new Error(`the file ends in page ${page}`);
      at += read;
    }
  }

  /** Writes pages that follow each other, the first being `page`. Throws when the disk does. */
  write(page: number, bytes: Uint8Array): void {
    this.dropMeta();
    const fd = this.files.use(this.pagesPath);
    const position = (page - 1) * PAGE_SIZE;
    let at = 0;
    while (at < bytes.length) at += writeSync(fd, bytes, at, bytes.length - at, position + at);
  }

  /** Rule 1. Throws when the disk does. */
  writeMeta(meta: CacheMeta): void {
    // An agent that woke and committed nothing: what lies there says the same.
    if (this.clean?.seq === meta.seq && this.clean.pages === meta.crcs.length) return;
    if (meta.crcs.length === 0 && this.clean?.pages !== 0) this.remove();
    const temporary = `${this.metaPath}.new`;
    const bytes = encodeMeta(this.id, meta);
    try {
      writeFileSync(temporary, bytes, { mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      mkdirSync(dirname(this.metaPath), { recursive: true });
      writeFileSync(temporary, bytes, { mode: 0o600 });
    }
    renameSync(temporary, this.metaPath);
    this.metaLeft = true;
  }

  /** Lets go of the descriptor. */
  release(): void {
    this.files.close(this.pagesPath);
  }

  /** Leaves nothing. The meta goes first (rule 1). */
  remove(): void {
    this.dropMeta();
    this.release();
    rmSync(this.pagesPath, { force: true });
  }

  private dropMeta(): void {
    this.clean = undefined;
    if (!this.metaLeft) return;
    rmSync(this.metaPath, { force: true });
    this.metaLeft = false;
  }
}

function encodeMeta(id: AgentId, { seq, core, crcs }: CacheMeta): Uint8Array {
  const body = new Uint8Array(crcs.length * 4 + core.length);
  const view = new DataView(body.buffer);
  for (let i = 0; i < crcs.length; i++) view.setUint32(i * 4, crcs[i]!, true);
  body.set(core, crcs.length * 4);
  const head = { class: id.class, name: id.name, seq, pages: crcs.length, core: core.length };
  return encodeFrame(head, body);
}

function decodeMeta(id: AgentId, bytes: Uint8Array): CacheMeta | undefined {
  const { head, body } = decodeFrame(bytes);
  const { seq, pages, core } = head;
  if (head["class"] !== id.class || head["name"] !== id.name) return undefined;
  if (typeof seq !== "number" || typeof pages !== "number" || typeof core !== "number")
    return undefined;
  if (pages > IMAGE_BYTES_MAX / PAGE_SIZE || body.length !== pages * 4 + core) return undefined;
  const crcs = new Uint32Array(pages);
  const view = new DataView(body.buffer, body.byteOffset, pages * 4);
  for (let i = 0; i < pages; i++) crcs[i] = view.getUint32(i * 4, true);
  return { seq: seq as Sequence, core: new Uint8Array(body.subarray(pages * 4)), crcs };
}
