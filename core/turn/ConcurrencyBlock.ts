/**
 * The blocks of one agent: code of `blockConcurrencyWhile` and, in Durable Objects, of asynchronous
 * transactions. While a block of an agent runs, no other turn of it begins (`ActiveAgent`,
 * `ObjectBlocks`).
 *
 * 1. Blocks run one after another, in the order they were asked for. A block that fails frees the
 *    agent like any other.
 * 2. A block that the code of a block begins is part of it. It waits only for those that were begun
 *    there before it, since waiting for the outer one would never end, and the outer one ends after
 *    it.
 * 3. Code of a block that has ended belongs to the nearest block around it that has not.
 */

export class Block {
  /** The last block begun within, which runs or waits; undefined: none does. */
  last: Promise<unknown> | undefined;
  ended = false;

  constructor(readonly around: Block | undefined) {}

  /** Resolves when no block within runs or waits. */
  async quiet(): Promise<void> {
    while (this.last !== undefined) await this.last.catch(() => undefined);
  }

  /** Whether it is `block`, or within it. */
  isIn(block: Block): boolean {
    return this === block || this.around?.isIn(block) === true;
  }
}

/** The code that runs now (`RunningCode`). */
export interface BlockCode {
  /** The block that it is part of. */
  readonly block: Block | undefined;
  /** Runs `f` as code of a block. */
  inBlock<A>(block: Block, f: () => A): A;
}

export class ConcurrencyBlock {
  /** Around all others. Created by the first. */
  private root: Block | undefined;

  constructor(private readonly code: BlockCode) {}

  get closed(): boolean {
    return this.root?.last !== undefined;
  }

  /** Resolves when nothing holds turns back. */
  open(): Promise<void> {
    return this.root?.quiet() ?? Promise.resolve();
  }

  /** Settles with the current block, also with its failure; undefined when there is none. */
  get current(): Promise<unknown> | undefined {
    return this.root?.last;
  }

  /** Whether a block that the running code began would have to wait. */
  get excludes(): boolean {
    // The common case costs nothing.
    return this.closed && this.around().last !== undefined;
  }

  /** Runs `f` as a block. Settles as `f` does, after the blocks within. */
  while<A>(f: (block: Block) => A | Promise<A>): Promise<A> {
    const around = this.around();
    const block = new Block(around);
    const run = this.run(around.last, block, f);
    around.last = run;
    const free = (): void => {
      if (around.last === run) around.last = undefined;
    };
    run.then(free, free);
    return run;
  }

  /** The block in which the running code may begin others. */
  private around(): Block {
    const root = (this.root ??= new Block(undefined));
    let { block } = this.code;
    while (block?.ended === true) block = block.around; // rule 3
    return block?.isIn(root) === true ? block : root;
  }

  private async run<A>(
    before: Promise<unknown> | undefined,
    block: Block,
    f: (block: Block) => A | Promise<A>,
  ): Promise<A> {
    if (before !== undefined) await before.catch(() => undefined);
    try {
      return await this.code.inBlock(block, () => f(block));
    } finally {
      if (block.last !== undefined) await block.quiet();
      block.ended = true;
    }
  }
}
