/**
 * Blobs, each stored as chunks and one entry, in the layout of the NATS tools' object store
 * (`blobStores` decides where). The client library's object store is not used: it waits for each
 * chunk, possibly for ever. Here many chunks are in flight through `AckPublisher`, which notices a
 * lost connection.
 *
 * 1. The entry is stored after all chunks, so a blob is complete or absent.
 * 2. The digest in the entry is checked on each read.
 * 3. The chunks of a replaced or removed blob are purged. A crash in between leaves garbage, never
 *    a wrong blob.
 * 4. Bodies are written once, and only hosts and the operator remove them.
 */
import { createHash } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { joinBytes } from "../../schemas/joinBytes.ts";
import { errorOf, type PublishOutcome } from "./client/AckPublisher.ts";
import {
  base64Url,
  bodyStore,
  bodyTtlMs,
  isBody,
  objectStore,
  storedName,
  type BlobStore,
} from "./layout/blobStores.ts";
import { ApiCode, orUnavailable, unavailable } from "./client/JetStreamApi.ts";
import { headers, type HeaderBlock } from "./client/ReplyInbox.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";

/**
 * Half of the usual payload limit, and not the object store's usual 128 KiB: the server rewrites a
 * block of 8 MB for each chunk that it overwrites.
 */
const CHUNK_BYTES = 512 * 1024;
/** 4 MiB in flight: enough to hide the round trip. */
const CHUNKS_IN_FLIGHT = 8;
/** Attempts to read a blob that is replaced during the read. */
const READS_MAX = 3;

/** An entry as the NATS tools write it. */
export interface BlobEntry {
  readonly name: string;
  readonly bucket: string;
  /** The id of its chunks. */
  readonly nuid: string;
  readonly size: number;
  readonly chunks: number;
  readonly digest: string;
  readonly deleted?: boolean;
  readonly options: { readonly max_chunk_size: number };
}

export function makeNatsBlobs(nats: NatsShape): BlobsShape {
  const objects = new StoredBlobs(nats, objectStore(nats.subjects));
  const bodies = new StoredBlobs(nats, bodyStore(nats.subjects));
  const storeOf = (name: string): StoredBlobs => (isBody(name) ? bodies : objects);
  return {
    put: (name, data) => orUnavailable(() => storeOf(name).put(name, data)),
    get: async (name) => {
      try {
        const store = storeOf(name);
        const found = await store.read(name);
        // Inputs of an older release are in the object store.
        return found ?? (store === bodies ? await objects.read(name) : undefined);
      } catch (error) {
        throw error instanceof CorruptFrame ? error : unavailable(error);
      }
    },
    remove: async (name) => {
      if (bodyTtlMs(name) !== undefined) return; // it expires
      await orUnavailable(() => storeOf(name).remove(name));
    },
  };
}

/** The blobs of one store. */
class StoredBlobs {
  constructor(
    private readonly nats: NatsShape,
    private readonly store: BlobStore,
  ) {}

  async put(name: string, data: Uint8Array): Promise<void> {
    const { store } = this;
    const nuid = store.newId(name);
    const before = store.isWriteOnce ? undefined : await this.replaced(name);
    const chunks = await this.putChunks({ name, nuid }, data);
    const digest = digestOf(createHash("sha256").update(data).digest());
    const options = { max_chunk_size: CHUNK_BYTES };
    const bucket = this.nats.subjects.bucket.blobs;
    await this.writeEntry({ name, bucket, nuid, size: data.length, chunks, digest, options });
    // The blob is stored; chunks that remain of the previous one are only garbage.
    if (before !== undefined) await this.purgeChunks(before.nuid).catch(() => undefined);
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    let entry = await this.readEntry(name);
    for (let count = 1; entry !== undefined; count++) {
      const data = await this.readChunks(entry);
      if (data !== undefined) return data;
      const now = await this.readEntry(name);
      if (now?.nuid === entry.nuid || count === READS_MAX)
        throw new CorruptFrame({ message: `the blob ${name} does not match its digest` });
      entry = now; // replaced during the read
    }
    return undefined;
  }

  async remove(name: string): Promise<void> {
    const entry = await this.readEntry(name);
    if (entry === undefined) return;
    if (this.store.isWriteOnce) return await this.overwrite(name, entry.nuid);
    await this.writeEntry({ ...entry, name, size: 0, chunks: 0, digest: "", deleted: true });
    await this.purgeChunks(entry.nuid);
  }

  /** The entry that a new blob replaces, unless it is damaged. */
  private async replaced(name: string): Promise<BlobEntry | undefined> {
    try {
      return await this.readEntry(name);
    } catch (error) {
      if (error instanceof CorruptFrame) return undefined;
      throw error;
    }
  }

  private async readEntry(name: string): Promise<BlobEntry | undefined> {
    const query = { last_by_subj: this.store.entryOf(name) };
    const found = await this.nats.reader.byLeader(this.store.stream, query);
    if (found === undefined) return undefined;
    const entry = decodeBlobEntry(found.data);
    return entry.deleted === true ? undefined : entry;
  }

  private async writeEntry(entry: BlobEntry): Promise<void> {
    const { store } = this;
    const outcome = await this.nats.publisher.publish(
      store.entryOf(entry.name),
      Buffer.from(JSON.stringify({ ...entry, name: storedName(entry.name) })),
      store.isWriteOnce ? ttlOf(entry.name) : { headers: headers(["Nats-Rollup", "sub"]) },
    );
    checkStored(store, outcome);
  }

  private async putChunks(
    { name, nuid }: Pick<BlobEntry, "name" | "nuid">,
    data: Uint8Array,
  ): Promise<number> {
    const { nats, store } = this;
    const bytes = Math.min(CHUNK_BYTES, nats.messageBytesMax);
    const options = ttlOf(name);
    const chunks = Math.ceil(data.length / bytes);
    for (let first = 0; first < chunks; first += CHUNKS_IN_FLIGHT) {
      const group = [];
      for (let n = first; n < Math.min(chunks, first + CHUNKS_IN_FLIGHT); n++) {
        const chunk = data.subarray(n * bytes, (n + 1) * bytes);
        group.push(nats.publisher.publish(store.chunkOf(nuid, n), chunk, options));
      }
      for (const outcome of await Promise.all(group)) checkStored(store, outcome);
    }
    return chunks;
  }

  /** Undefined: they do not match the entry. */
  private async readChunks(entry: BlobEntry): Promise<Uint8Array | undefined> {
    const { stream, isWriteOnce, chunksOf } = this.store;
    // The chunks are collected first, because the size in the entry may be damaged.
    const chunks = new Map<number, Uint8Array>();
    let bytes = 0;
    const stored = this.nats.reader.messages(stream, chunksOf(entry.nuid), { fromSeq: 1 });
    for await (const chunk of stored) {
      const index = isWriteOnce ? indexOf(chunk.subject) : chunks.size;
      if (index === undefined || (isWriteOnce && index >= entry.chunks)) continue; // not written by this project
      bytes += chunk.data.length;
      if (bytes > entry.size) return undefined;
      chunks.set(index, chunk.data);
    }
    if (bytes !== entry.size) return undefined;
    // A retried write may have stored them in another order.
    const inOrder = [...chunks].toSorted(([a], [b]) => a - b).map(([, chunk]) => chunk);
    const whole = joinBytes(inOrder);
    return digestOf(createHash("sha256").update(whole).digest()) === entry.digest
      ? whole
      : undefined;
  }

  private purgeChunks(nuid: string): Promise<unknown> {
    const { stream, chunksOf } = this.store;
    return this.nats.api.call(`STREAM.PURGE.${stream}`, { filter: chunksOf(nuid) });
  }

  /**
   * Deletes message by message, which makes the server overwrite the bytes: the blob may belong to
   * an agent that is erased later.
   */
  private async overwrite(name: string, nuid: string): Promise<void> {
    const { stream, entryOf, chunksOf } = this.store;
    for (const subject of [entryOf(name), chunksOf(nuid)])
      for await (const { seq } of this.nats.reader.messages(stream, subject, { fromSeq: 1 }))
        await this.nats.api.call(`STREAM.MSG.DELETE.${stream}`, { seq });
  }
}

/** The publish options of a body that expires. */
function ttlOf(name: string): { readonly headers?: HeaderBlock } {
  const ttlMs = bodyTtlMs(name);
  return ttlMs === undefined ? {} : { headers: headers(["Nats-TTL", `${ttlMs / 1_000}s`]) };
}

/**
 * A body that exists already is of an earlier attempt whose ack was lost, because no other process
 * knows its name. Throws `BrokerUnavailable` for any other refusal; `NotPermitted` is one.
 */
function checkStored(store: BlobStore, outcome: PublishOutcome): void {
  if (outcome._tag === "Stored") return;
  const isThere = outcome._tag === "Refused" && outcome.code === ApiCode.subjectFull;
  if (!(store.isWriteOnce && isThere)) throw errorOf(outcome);
}

/** Undefined for a subject that this project does not write: `00` is not another chunk 0. */
function indexOf(chunkSubject: string): number | undefined {
  const token = chunkSubject.slice(chunkSubject.lastIndexOf(".") + 1);
  return /^(?:0|[1-9]\d{0,8})$/.test(token) ? Number(token) : undefined;
}

/**
 * Decodes a stored entry. It has no checksum; its relevant fields are compared with the chunks.
 * Throws `CorruptFrame`, so that permanent damage is not retried as an unreachable broker would be.
 */
export function decodeBlobEntry(data: Uint8Array): BlobEntry {
  try {
    const entry = JSON.parse(Buffer.from(data).toString()) as BlobEntry | null;
    if (typeof entry === "object" && typeof entry?.nuid === "string") return entry;
  } catch {
    // Thrown below.
  }
  throw new CorruptFrame({ message: "a blob's entry is damaged" });
}

const digestOf = (hash: Uint8Array): string => `SHA-256=${base64Url(hash)}`;

export const layer: Layer.Layer<Blobs, never, Nats> = Layer.effect(
  Blobs,
  Effect.map(Nats, makeNatsBlobs),
);
