/**
 * Caches the results of async `query` functions by key, once per page. React discards everything
 * that a suspended first render created, so the promise that it waits for has to be outside of the
 * component.
 *
 * 1. Callers share a query that is running and a result that is fresh.
 * 2. A result is fresh for its time to live, and for at least `RENDER_GRACE_MS`.
 * 3. A failed query is kept for `RENDER_GRACE_MS`: React renders once more before it reports an
 *    error, and must find the same failure instead of a new query.
 * 4. A new query removes what has expired: keys may contain tokens, of which there is no end.
 */

/** Parameters of the socket's URL. */
export type Query = Record<string, string | null | undefined>;

/** One query and its result. */
export interface QueryEntry {
  readonly promise: Promise<Query>;
  /** The result; undefined while the query runs, and after a failure. */
  value: Query | undefined;
  /** Milliseconds since the epoch; Infinity while the query runs. */
  expiresAtMs: number;
}

/** How to run a query. */
export interface QuerySource {
  readonly key: string;
  readonly fetch: () => Query | Promise<Query>;
  readonly ttlMs: number;
}

/** Milliseconds in which a render that waited for a result finds it, whatever its time to live. */
const RENDER_GRACE_MS = 1_000;

/** The cache of one page. */
export class QueryCache {
  readonly #entries = new Map<string, QueryEntry>();

  /** The fresh entry of this key, or a new one whose query starts now. */
  get({ key, fetch, ttlMs }: QuerySource): QueryEntry {
    const found = this.#entries.get(key);
    const nowMs = Date.now();
    if (found !== undefined && nowMs < found.expiresAtMs) return found;
    for (const [other, { expiresAtMs }] of this.#entries)
      if (nowMs >= expiresAtMs) this.#entries.delete(other);
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

  /** Removes the entry if it is still this one; another caller may have replaced it. */
  drop(key: string, entry: QueryEntry): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
  }
}
