/**
 * Identifies the steps of a turn or a workflow: by name, and by how many steps of that name were
 * begun before in the run.
 */
export class StepCounts {
  private readonly begun = new Map<string, number>();

  /** The key of the next step of that name: `1:charge`, `2:charge`. */
  next(name: string): string {
    const nth = (this.begun.get(name) ?? 0) + 1;
    this.begun.set(name, nth);
    return `${nth}:${name}`;
  }
}
