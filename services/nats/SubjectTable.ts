/**
 * Values by subject: exact ones, and patterns that end in `.>`, which are for every subject that goes on from there.
 * Fed by `OwnListeners` and `Parcels`.
 */
const WILDCARD_END = ".>";

export class SubjectTable<A> {
  /** By subject; a pattern by what stands before its wildcard, with the dot. */
  private readonly values = new Map<string, A>();
  /** How many dots the keys of patterns have: subjects are cut there to look them up. */
  private readonly depths = new Set<number>();

  /** Throws `TypeError` for a pattern of another form. */
  set(pattern: string, value: A): void {
    const key = keyOf(pattern);
    this.values.set(key, value);
    if (key !== pattern) this.depths.add(key.split(".").length - 1);
  }

  /** Of this very pattern. */
  get(pattern: string): A | undefined {
    return this.values.get(keyOf(pattern));
  }

  delete(pattern: string): void {
    this.values.delete(keyOf(pattern));
  }

  clear(): void {
    this.values.clear();
  }

  find(subject: string): A | undefined {
    const key = this.keyFor(subject);
    return key === undefined ? undefined : this.values.get(key);
  }

  /** Deletes what `find` finds. */
  forget(subject: string): void {
    const key = this.keyFor(subject);
    if (key !== undefined) this.values.delete(key);
  }

  private keyFor(subject: string): string | undefined {
    if (this.values.has(subject)) return subject;
    for (const depth of this.depths) {
      const key = head(subject, depth);
      if (this.values.has(key)) return key;
    }
    return undefined;
  }
}

function keyOf(pattern: string): string {
  const key = pattern.endsWith(WILDCARD_END) ? pattern.slice(0, -1) : pattern;
  if (key.includes("*") || key.includes(">"))
    throw new TypeError(`who listens alone names a subject, or one that ends in ".>": ${pattern}`);
  return key;
}

/** Up to the dot of that number, with it; the whole subject when it has fewer. */
function head(subject: string, dots: number): string {
  let at = -1;
  for (let n = 0; n < dots; n++) {
    at = subject.indexOf(".", at + 1);
    if (at === -1) return subject;
  }
  return subject.slice(0, at + 1);
}
