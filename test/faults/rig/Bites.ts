/** Evidence that a fault struck: counts by fault and observation. */
export class Bites {
  /** How often each fault was done. */
  readonly done = new Map<string, number>();
  private readonly counts = new Map<string, Map<string, number>>();

  begin(fault: string): void {
    this.done.set(fault, (this.done.get(fault) ?? 0) + 1);
  }

  add(fault: string, what: string, count = 1): void {
    const inner = this.counts.get(fault) ?? new Map<string, number>();
    this.counts.set(fault, inner.set(what, (inner.get(what) ?? 0) + Math.max(0, count)));
  }

  /** Faults that were done and left no trace. */
  get toothless(): string[] {
    return [...this.done.keys()].filter(
      (fault) => ![...(this.counts.get(fault)?.values() ?? [])].some((count) => count > 0),
    );
  }

  get lines(): string[] {
    return [...this.done].map(([fault, times]) => {
      const seen = [...(this.counts.get(fault) ?? [])].map(([what, count]) => `${count} ${what}`);
      return `${fault.padEnd(18)} ${String(times).padStart(4)} times  ${seen.join(", ") || "NEVER BIT"}`;
    });
  }

  merge(other: Bites): void {
    for (const [fault, times] of other.done)
      this.done.set(fault, (this.done.get(fault) ?? 0) + times);
    for (const [fault, inner] of other.counts)
      for (const [what, count] of inner) this.add(fault, what, count);
  }
}
