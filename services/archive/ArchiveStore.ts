/**
 * The storage of an archive's objects: `FolderStore` or `S3Store`. Names are relative, with `/`.
 * `test/retention/archive` tests both.
 */
export interface ArchiveStore {
  /** A readable name, without secrets. */
  readonly name: string;
  /** Resolves when the object is durable. It is never incomplete. Rejects with any error. */
  readonly put: (key: string, bytes: Uint8Array) => Promise<void>;
  /** The object, or `bytes` bytes of it from `offset` on. Undefined when there is none. */
  readonly get: (
    key: string,
    range?: { readonly offset: number; readonly bytes: number },
  ) => Promise<Uint8Array | undefined>;
  /** The names that begin with `prefix`, which ends in `/`. */
  readonly list: (prefix: string) => AsyncIterable<string>;
}
