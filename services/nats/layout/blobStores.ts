/**
 * Decides by a blob's name where it is stored. Blobs that only hosts write (events, snapshots and
 * dead letters past the payload limit) are in an object store. Bodies, which gateways and mail
 * processes write too (inputs, calls and their answers), are in a stream of their own. The broker
 * users of those processes then need no permission to change or remove anything that an agent has
 * stored.
 *
 * 1. Bodies are written once. The stream accepts one message per subject, refuses the next, and has
 *    no rollups. A user with permission to publish to it can only add bodies.
 * 2. Bodies of calls and answers expire after `BODY_TTL_MS`. Those of inputs are removed by the
 *    host that has processed the input, and by `agents erase`.
 *
 * Used by `NatsBlobs` and `purgeAgent`.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Subjects } from "../../../schemas/Subjects.ts";

/** Longer than any call is held, a host's death included. */
const BODY_TTL_MS = 5 * 60_000;
const BODY = /^(?:inbox|calls|answers)\//;
const LASTING_BODY = /^inbox\//;

/** The subjects of one store; `entryOf("*")` matches every entry. */
export interface BlobStore {
  readonly stream: string;
  /** Rule 1. */
  readonly isWriteOnce: boolean;
  /** The id in the subjects of a blob's chunks. */
  readonly newId: (name: string) => string;
  readonly entryOf: (name: string) => string;
  /** The subject of one chunk, and below it a filter for all chunks of a blob. */
  readonly chunkOf: (id: string, index: number) => string;
  readonly chunksOf: (id: string) => string;
}

/** The object store, in the layout of the NATS tools. */
export function objectStore({ bucket }: Subjects): BlobStore {
  const start = `$O.${bucket.blobs}`;
  const chunksOf = (id: string): string => `${start}.C.${id}`;
  return {
    stream: `OBJ_${bucket.blobs}`,
    isWriteOnce: false,
    newId: () => randomUUID().replaceAll("-", ""),
    entryOf: (name) => `${start}.M.${entryToken(name)}`,
    chunkOf: chunksOf,
    chunksOf,
  };
}

export function bodyStore({ namespace, stream }: Subjects): BlobStore {
  const start = `${namespace}.body`;
  return {
    stream: stream.bodies,
    isWriteOnce: true,
    // Derived from the name, which is used only once: a retried write finds its own chunks.
    newId: (name) => createHash("sha256").update(name).digest("hex"),
    entryOf: (name) => `${start}.entry.${entryToken(name)}`,
    chunkOf: (id, index) => `${start}.chunk.${id}.${index}`,
    chunksOf: (id) => `${start}.chunk.${id}.*`,
  };
}

/** All stores of an installation. */
export const blobStores = (subjects: Subjects): readonly BlobStore[] => [
  objectStore(subjects),
  bodyStore(subjects),
];

/** Whether the blob of this name is in the stream of bodies. */
export const isBody = (name: string): boolean => BODY.test(name);

/** Milliseconds after which a blob expires; undefined for one that stays until it is removed. */
export const bodyTtlMs = (name: string): number | undefined =>
  isBody(name) && !LASTING_BODY.test(name) ? BODY_TTL_MS : undefined;

/** The name in an entry's subject, as `storedName` returns it. */
export const blobNameOf = (entrySubject: string): string =>
  Buffer.from(entrySubject.slice(entrySubject.lastIndexOf(".") + 1), "base64url").toString();

/** An entry's subject, in base64, must fit into the server's control line (4 KiB by default). */
const NAME_BYTES_MAX = 2_048;
/** Enough of a long name for a lookup by prefix. */
const NAME_BYTES_KEPT = 512;

/** A long name (of an agent with a long name) is stored as its start and a hash of the whole. */
export function storedName(name: string): string {
  const bytes = Buffer.from(name);
  if (bytes.length <= NAME_BYTES_MAX) return name;
  const hash = createHash("sha256").update(bytes).digest("hex");
  return `${bytes.subarray(0, NAME_BYTES_KEPT).toString("latin1")}~${hash}`;
}

const entryToken = (name: string): string =>
  name === "*" ? name : base64Url(Buffer.from(storedName(name)));

/** URL-safe, with padding, as the NATS tools write it. */
export const base64Url = (bytes: Uint8Array): string =>
  Buffer.from(bytes).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
