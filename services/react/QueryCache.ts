/**
 * The results of async `query` functions, by key. React throws away what a suspended first render made, so
 * what that render waits for must live outside of it: here, once a page.
 *
 * 1. Who asks while a query is under way, or its result is fresh, shares it.
 * 2. A result counts as fresh for its time to live from when it came, at least `RENDER_GRACE_MS`.
 * 3. A failed query is forgotten after `RENDER_GRACE_MS`: React renders an error once more, maybe later,
 *    before it believes it, and must find the same failure and not a new query.
 */

export type Query = Record<string, string | null | undefined>;

export interface QueryEntry {
  readonly promise: Promise<Query>;
  /** Set when it came. */
  value: Query | undefined;
  /** Milliseconds since the epoch; Infinity while under way. */
  expiresAtMs: number;
}

export interface QuerySource {
  readonly key: string;
  readonly fetch: () => Query | Promise<Query>;
  readonly ttlMs: number;
}

/** A render that waited for a result must find it again, whatever its time to live. */
const RENDER_GRACE_MS = 1_000;

export class QueryCache {
  readonly #entries = new Map<string, QueryEntry>();

  /** The entry of this key, asked for now unless there is a fresh one. */
  get({ key, fetch, ttlMs }: QuerySource): QueryEntry {
    const found = this.#entries.get(key);
    if (found !== undefined && Date.now() < found.expiresAtMs) return found;
    const entry: QueryEntry = {
      promise: new Promise<Query>((resolve) => resolve(fetch())),
      value: undefined,
      expiresAtMs: Infinity,
    };
    this.#entries.set(key, entry);
    entry.promise.then(
      (value) => {
        entry.value = value;
        entry.expiresAtMs = Date.now() + Math.max(ttlMs, RENDER_GRACE_MS);
      },
      () => (entry.expiresAtMs = Date.now() + RENDER_GRACE_MS),
    );
    return entry;
  }

  /** Forgets the entry, if it is still this one: somebody else may have asked anew already. */
  drop(key: string, entry: QueryEntry): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
  }
}
