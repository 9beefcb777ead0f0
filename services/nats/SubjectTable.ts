/**
 * Values by subject: exact ones, and patterns that end in `.>`, which are for every subject that goes on from there.
 * Fed by `OwnListeners` and `RequestBatcher`.
 */
const WILDCARD_END = ".>";

export class SubjectTable<A> {
  private readonly exact = new Map<string, A>();
  /** By what stands before the wildcard, with its dot. */
  private readonly patterns = new Map<string, A>();
  /** How many dots the keys of patterns have: subjects are cut there to look them up. */
  private readonly depths = new Set<number>();

  /** Throws `TypeError` for a pattern of another form. */
  set(pattern: string, value: A): void {
    const key = keyOf(pattern);
    if (key === pattern) this.exact.set(key, value);
    else {
      this.patterns.set(key, value);
      this.depths.add(key.split(".").length - 1);
    }
  }

  /** Of this very pattern. */
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

  find(subject: string): A | undefined {
    // Not looked up for nothing: a subject that was just put together has to be hashed for it.
    const exact = this.exact.size === 0 ? undefined : this.exact.get(subject);
    if (exact !== undefined) return exact;
    for (const depth of this.depths) {
      const found = this.patterns.get(head(subject, depth));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Deletes what `find` finds. */
  forget(subject: string): void {
    if (this.exact.delete(subject)) return;
    for (const depth of this.depths) if (this.patterns.delete(head(subject, depth))) return;
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
