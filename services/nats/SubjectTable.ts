/**
 * A map from subjects to values. A key is an exact subject, or a pattern that ends in `.>` and
 * matches every subject that begins with the part before it. Used by `InProcessListeners` and
 * `RequestBatcher`.
 */
const WILDCARD_END = ".>";

export class SubjectTable<A> {
  private readonly exact = new Map<string, A>();
  /** By the part before the wildcard, with its dot. */
  private readonly patterns = new Map<string, A>();
  /** The numbers of dots in the keys of `patterns`. Subjects are cut there for a lookup. */
  private readonly depths = new Set<number>();

  /** Replaces an earlier value. Throws `TypeError` for a pattern of another form. */
  set(pattern: string, value: A): void {
    const key = keyOf(pattern);
    if (key === pattern) this.exact.set(key, value);
    else {
      this.patterns.set(key, value);
      this.depths.add(key.split(".").length - 1);
    }
  }

  /** The value of exactly this pattern. */
  get(pattern: string): A | undefined {
    const key = keyOf(pattern);
    return (key === pattern ? this.exact : this.patterns).get(key);
  }

  delete(pattern: string): void {
    const key = keyOf(pattern);
    (key === pattern ? this.exact : this.patterns).delete(key);
  }

  clear(): void {
    this.exact.clear();
    this.patterns.clear();
  }

  /** The value for a subject: of the exact key, otherwise of a pattern. */
  find(subject: string): A | undefined {
    // An empty map is skipped, because the lookup would hash a newly concatenated subject.
    const exact = this.exact.size === 0 ? undefined : this.exact.get(subject);
    if (exact !== undefined) return exact;
    for (const depth of this.depths) {
      const found = this.patterns.get(head(subject, depth));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Deletes the entry that `find` returns. */
  forget(subject: string): void {
    if (this.exact.delete(subject)) return;
    for (const depth of this.depths) if (this.patterns.delete(head(subject, depth))) return;
  }
}

function keyOf(pattern: string): string {
  const key = pattern.endsWith(WILDCARD_END) ? pattern.slice(0, -1) : pattern;
  if (key.includes("*") || key.includes(">"))
    throw new TypeError(
      `an exclusive listener needs an exact subject, or one that ends in ".>": ${pattern}`,
    );
  return key;
}

/** The subject up to and including its `dots`-th dot; the whole subject when it has fewer. */
function head(subject: string, dots: number): string {
  let at = -1;
  for (let n = 0; n < dots; n++) {
    at = subject.indexOf(".", at + 1);
    if (at === -1) return subject;
  }
  return subject.slice(0, at + 1);
}
