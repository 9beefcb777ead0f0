/**
 * Where a blob lies, by its name. What only hosts write (events, snapshots, dead letters past the payload limit) is in an
 * object store. What gateways and mail processes write too (inputs, bodies of calls and of their answers) is in a stream of
 * its own, so that their users of the broker need no right to change or remove anything that an agent has stored:
 *
 * 1. Bodies are written once: the stream takes one message a subject, refuses the next one, and has no rollups. Who may
 *    publish to it can only add.
 * 2. Bodies of calls and answers go after `BODY_TTL_MS`. Those of inputs are removed by the host that has done the input,
 *    and by `agents erase`.
 *
 * Used by `NatsBlobs`, `purgeAgent` and `streamConfigs`.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Subjects } from "../../schemas/Subjects.ts";

/** Longer than any call is held, with a host's death in it. */
const BODY_TTL_MS = 5 * 60_000;
const BODY = /^(?:inbox|calls|answers)\//;
const LASTING_BODY = /^inbox\//;

/** The subjects of one store; `entryOf("*")` matches every entry. */
export interface BlobStore {
  readonly stream: string;
  /** Rule 1. */
  readonly isWriteOnce: boolean;
  /** The id that a blob's chunks are found by. */
  readonly newId: (name: string) => string;
  readonly entryOf: (name: string) => string;
  /** Where one chunk is stored, and a filter for all of a blob's. */
  readonly chunkOf: (id: string, index: number) => string;
  readonly chunksOf: (id: string) => string;
}

/** An object store, as the NATS tools know it. */
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
    // Of the name, which is never used twice: a write that is tried again meets its own chunks.
    newId: (name) => createHash("sha256").update(name).digest("hex"),
    entryOf: (name) => `${start}.entry.${entryToken(name)}`,
    chunkOf: (id, index) => `${start}.chunk.${id}.${index}`,
    chunksOf: (id) => `${start}.chunk.${id}.*`,
  };
}

export const blobStores = (subjects: Subjects): readonly BlobStore[] => [
  objectStore(subjects),
  bodyStore(subjects),
];

export const isBody = (name: string): boolean => BODY.test(name);

/** Undefined: it stays until it is removed. */
export const bodyTtlMs = (name: string): number | undefined =>
  isBody(name) && !LASTING_BODY.test(name) ? BODY_TTL_MS : undefined;

/** The name that an entry's subject stands for, as it is stored: a long one cut and hashed. */
export const blobNameOf = (entrySubject: string): string =>
  Buffer.from(entrySubject.slice(entrySubject.lastIndexOf(".") + 1), "base64url").toString();

/** An entry's subject has to fit into the server's control line (4 KiB by default) in base64. */
const NAME_BYTES_MAX = 2_048;
const NAME_BYTES_KEPT = 512;

/** Long names (a long agent name in token form) keep their start and are told apart by a hash. */
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
