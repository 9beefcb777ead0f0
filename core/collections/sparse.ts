/**
 * Maps and sets that are nothing while they are empty. An agent in memory has a score of them,
 * nearly all empty nearly always, and an empty `Map` keeps 180 bytes.
 *
 * 1. A field of an object that every agent has is a `Map` or `Set`, or undefined while that is
 *    empty. It is written with `withEntry`, `withItem` and `without`.
 * 2. Parts that few agents have, and those that share it, use `SparseMap` and `SparseSet`, which
 *    take 32 bytes more.
 */

/** A new map where there is none. Returns the map with the entry. */
export const withEntry = <K, V>(map: Map<K, V> | undefined, key: K, value: V): Map<K, V> =>
  (map ?? new Map<K, V>()).set(key, value);

/** A new set where there is none. Returns the set with the item. */
export const withItem = <A>(set: Set<A> | undefined, item: A): Set<A> =>
  (set ?? new Set<A>()).add(item);

/** Removes a key or an item. Undefined: nothing is left. */
export function without<K, C extends { readonly size: number; delete(key: K): boolean }>(
  collection: C | undefined,
  key: K,
): C | undefined {
  collection?.delete(key);
  return collection?.size === 0 ? undefined : collection;
}

const NO_MAP = new Map<never, never>();
const NO_SET = new Set<never>();

export class SparseMap<K, V> {
  private map: Map<K, V> | undefined;

  get size(): number {
    return this.map?.size ?? 0;
  }
  get(key: K): V | undefined {
    return this.map?.get(key);
  }
  has(key: K): boolean {
    return this.map?.has(key) ?? false;
  }
  set(key: K, value: V): this {
    (this.map ??= new Map()).set(key, value);
    return this;
  }
  delete(key: K): boolean {
    const had = this.map?.delete(key) ?? false;
    if (this.map?.size === 0) this.map = undefined;
    return had;
  }
  clear(): void {
    this.map = undefined;
  }
  keys(): MapIterator<K> {
    return (this.map ?? (NO_MAP as Map<K, V>)).keys();
  }
  values(): MapIterator<V> {
    return (this.map ?? (NO_MAP as Map<K, V>)).values();
  }
  [Symbol.iterator](): MapIterator<[K, V]> {
    return (this.map ?? (NO_MAP as Map<K, V>))[Symbol.iterator]();
  }
}

export class SparseSet<A> {
  private set: Set<A> | undefined;

  get size(): number {
    return this.set?.size ?? 0;
  }
  has(value: A): boolean {
    return this.set?.has(value) ?? false;
  }
  add(value: A): this {
    (this.set ??= new Set()).add(value);
    return this;
  }
  delete(value: A): boolean {
    const had = this.set?.delete(value) ?? false;
    if (this.set?.size === 0) this.set = undefined;
    return had;
  }
  clear(): void {
    this.set = undefined;
  }
  [Symbol.iterator](): SetIterator<A> {
    return (this.set ?? (NO_SET as Set<A>))[Symbol.iterator]();
  }
}
