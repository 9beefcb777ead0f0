/**
 * A map and a set that are nothing while they are empty. An agent in memory has a score of them,
 * nearly all empty nearly always, and an empty `Map` keeps 180 bytes.
 */
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
