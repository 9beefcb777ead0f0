/**
 * `blockConcurrencyWhile`: while a block runs, no other turn of the agent begins. Blocks run one
 * after another, in the order they were asked for; a block that fails frees the agent like any
 * other.
 */
export class ConcurrencyBlock {
  private block: Promise<unknown> | undefined;

  get closed(): boolean {
    return this.block !== undefined;
  }

  /** Resolves when nothing holds turns back. */
  async open(): Promise<void> {
    while (this.block !== undefined) await this.block.catch(() => undefined);
  }

  /** Settles with the current block, also with its failure; undefined when there is none. */
  get current(): Promise<unknown> | undefined {
    return this.block;
  }

  /** Closes the gate while `f` runs. Settles as `f` does. */
  while<A>(f: () => Promise<A>): Promise<A> {
    const before = this.block;
    const block = (async () => {
      await before?.catch(() => undefined);
      return f();
    })();
    this.block = block;
    const free = (): void => {
      if (this.block === block) this.block = undefined;
    };
    block.then(free, free);
    return block;
  }
}
