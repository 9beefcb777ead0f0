/**
 * Blobs in an object store, in the layout that the NATS tools read: chunks under
 * `$O.<bucket>.C.<id>`, then one entry under `$O.<bucket>.M.<name>` that makes them the object.
 * Written by hand because chunks then go many at a time through `AckPublisher` and a lost connection is noticed;
 * the client library waits for each chunk and may wait for ever.
 *
 * 1. The entry is stored after all chunks: an object is whole or not there.
 * 2. The digest in the entry is checked on each read.
 * 3. Chunks of a replaced or refused object are purged; a crash in between leaves garbage, never a wrong object.
 */
import { createHash, randomUUID } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/blob/Blobs.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { joinBytes } from "../../schemas/joinBytes.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { unavailable } from "./JetStreamApi.ts";
import { headers } from "./ReplyInbox.ts";
import { Nats, type NatsShape } from "./Nats.ts";

/** The object store's usual chunk: small enough for any payload limit in use. */
const CHUNK_BYTES = 128 * 1024;
/** 4 MiB on their way: enough to hide the round trip. */
const CHUNKS_IN_FLIGHT = 32;
/** An entry's subject has to fit into the server's control line (4 KiB by default) in base64. */
const NAME_BYTES_MAX = 2_048;
const NAME_BYTES_KEPT = 512;
/** Tries while one is replaced under a reader's hands. */
const READS_MAX = 3;

export interface BlobEntry {
  readonly name: string;
  readonly bucket: string;
  readonly nuid: string;
  readonly size: number;
  readonly chunks: number;
  readonly digest: string;
  readonly deleted?: boolean;
  readonly options: { readonly max_chunk_size: number };
}

/** Where blobs lie: their stream, a blob's chunks, and its entry; `entryOf("*")` matches every entry. */
export function blobSubjects({ bucket }: Subjects) {
  const start = `$O.${bucket.blobs}`;
  return {
    stream: `OBJ_${bucket.blobs}`,
    chunksOf: (nuid: string): string => `${start}.C.${nuid}`,
    entryOf: (name: string): string =>
      `${start}.M.${name === "*" ? name : base64Url(Buffer.from(storedName(name)))}`,
  };
}

/** The name that an entry's subject stands for, as it is stored: a long one cut and hashed. */
export const blobNameOf = (entrySubject: string): string =>
  Buffer.from(entrySubject.slice(entrySubject.lastIndexOf(".") + 1), "base64url").toString();

export function makeNatsBlobs(nats: NatsShape): BlobsShape {
  const bucket = nats.subjects.bucket.blobs;
  const { stream, chunksOf, entryOf } = blobSubjects(nats.subjects);

  const readEntry = async (name: string): Promise<BlobEntry | undefined> => {
    const found = await nats.reader.byLeader(stream, { last_by_subj: entryOf(name) });
    if (found === undefined) return undefined;
    const entry = decodeBlobEntry(found.data);
    return entry.deleted === true ? undefined : entry;
  };
  const writeEntry = async (entry: BlobEntry): Promise<void> => {
    const outcome = await nats.publisher.publish(
      entryOf(entry.name),
      Buffer.from(JSON.stringify({ ...entry, name: storedName(entry.name) })),
      { headers: headers(["Nats-Rollup", "sub"]) },
    );
    if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
  };
  const purge = (nuid: string): Promise<unknown> =>
    nats.api.call(`STREAM.PURGE.${stream}`, { filter: chunksOf(nuid) });

  const putChunks = async (nuid: string, data: Uint8Array): Promise<number> => {
    const bytes = Math.min(CHUNK_BYTES, nats.messageBytesMax);
    for (let at = 0; at < data.length; at += CHUNKS_IN_FLIGHT * bytes) {
      const group = [];
      for (let i = at; i < Math.min(data.length, at + CHUNKS_IN_FLIGHT * bytes); i += bytes)
        group.push(nats.publisher.publish(chunksOf(nuid), data.subarray(i, i + bytes)));
      for (const outcome of await Promise.all(group))
        if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
    }
    return Math.ceil(data.length / bytes);
  };

  const readChunks = async (entry: BlobEntry): Promise<Uint8Array | undefined> => {
    // Gathered, not written into an array of the entry's size: that may be a damaged number.
    const chunks: Uint8Array[] = [];
    const hash = createHash("sha256");
    let bytes = 0;
    for await (const chunk of nats.reader.messages(stream, chunksOf(entry.nuid), { fromSeq: 1 })) {
      bytes += chunk.data.length;
      if (bytes > entry.size) return undefined;
      chunks.push(chunk.data);
      hash.update(chunk.data);
    }
    const isWhole = bytes === entry.size && digestOf(hash.digest()) === entry.digest;
    return isWhole ? joinBytes(chunks) : undefined;
  };

  return {
    put: async (name, data) => {
      const nuid = randomUUID().replaceAll("-", "");
      try {
        const before = await readEntry(name).catch((error: unknown) => {
          if (error instanceof CorruptFrame) return undefined; // it is replaced
          throw error;
        });
        const chunks = await putChunks(nuid, data);
        const digest = digestOf(createHash("sha256").update(data).digest());
        const options = { max_chunk_size: CHUNK_BYTES };
        await writeEntry({ name, bucket, nuid, size: data.length, chunks, digest, options });
        // The object is there; what is left of the one before it is only garbage.
        if (before !== undefined) await purge(before.nuid).catch(() => undefined);
      } catch (error) {
        throw unavailable(error);
      }
    },
    get: async (name) => {
      try {
        let entry = await readEntry(name);
        for (let read = 1; entry !== undefined; read++) {
          const data = await readChunks(entry);
          if (data !== undefined) return data;
          const now = await readEntry(name);
          if (now?.nuid === entry.nuid || read === READS_MAX)
            throw new CorruptFrame({ message: `the blob ${name} does not match its digest` });
          entry = now; // replaced while we read it
        }
        return undefined;
      } catch (error) {
        throw error instanceof CorruptFrame ? error : unavailable(error);
      }
    },
    remove: async (name) => {
      try {
        const entry = await readEntry(name);
        if (entry === undefined) return;
        await writeEntry({ ...entry, name, size: 0, chunks: 0, digest: "", deleted: true });
        await purge(entry.nuid);
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
}

/**
 * An entry as it is stored, which has no checksum: what in it matters is held against the chunks. Throws `CorruptFrame`, so that what
 * is damaged for good is not asked for again as if the broker were away.
 */
export function decodeBlobEntry(data: Uint8Array): BlobEntry {
  try {
    const entry = JSON.parse(Buffer.from(data).toString()) as BlobEntry | null;
    if (typeof entry === "object" && typeof entry?.nuid === "string") return entry;
  } catch {
    // Said below.
  }
  throw new CorruptFrame({ message: "a blob's entry is damaged" });
}

/** Long names (a long agent name in token form) keep their start and are told apart by a hash. */
function storedName(name: string): string {
  const bytes = Buffer.from(name);
  if (bytes.length <= NAME_BYTES_MAX) return name;
  const hash = createHash("sha256").update(bytes).digest("hex");
  return `${bytes.subarray(0, NAME_BYTES_KEPT).toString("latin1")}~${hash}`;
}

/** URL-safe, with padding, as the NATS tools write it. */
const base64Url = (bytes: Uint8Array): string =>
  Buffer.from(bytes).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
const digestOf = (hash: Uint8Array): string => `SHA-256=${base64Url(hash)}`;

export const layer: Layer.Layer<Blobs, never, Nats> = Layer.effect(
  Blobs,
  Effect.map(Nats, makeNatsBlobs),
);
