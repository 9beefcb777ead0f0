/**
 * Work that is done once at a time, and whose result is shared by all who ask for it meanwhile.
 * Used by `McpServer` for its attempts to connect and its listings.
 */
export class SharedRun<A> {
  private running: Promise<A> | undefined;

  /** The result of the work that runs, or else of `start`. */
  join(start: () => Promise<A>): Promise<A> {
    if (this.running !== undefined) return this.running;
    const run: Promise<A> = start().finally(() => {
      if (this.running === run) this.running = undefined;
    });
    return (this.running = run);
  }

  /** Whoever asks next starts anew. Those who wait receive the result of what runs. */
  leave(): void {
    this.running = undefined;
  }
}
