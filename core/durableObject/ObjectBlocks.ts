/**
 * What excludes other code of a Durable Object: `blockConcurrencyWhile`, and asynchronous
 * transactions, each of which is a block, as on the reference's platform.
 *
 * 1. No event begins from when a block is asked for until it has ended (`EventOrder`, rule 2).
 * 2. Blocks run one after another; those that a block begins are part of it (`ConcurrencyBlock`).
 * 3. A storage call that returns a promise and is made by other code, as by an event that began
 *    before the block, waits like a block. A call that returns its result can't wait: `AgentSql`
 *    decides what it is in a transaction.
 * 4. The object is discarded when a block takes longer than 30 s. That also ends a deadlock of two
 *    events that wait for each other.
 */
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import { ConcurrencyBlock, type Block } from "../turn/ConcurrencyBlock.ts";
import type { EventOrder } from "./EventOrder.ts";

/** As on the reference's platform: longer than any start, and an end to a deadlock. */
const BLOCK_MS_MAX = 30_000;

export class ObjectBlocks {
  readonly #runtime: Pick<AgentRuntime, "abort" | "code" | "time">;
  readonly #events: EventOrder;
  readonly #blocks: ConcurrencyBlock;

  constructor(runtime: Pick<AgentRuntime, "abort" | "code" | "time">, events: EventOrder) {
    this.#runtime = runtime;
    this.#events = events;
    this.#blocks = new ConcurrencyBlock(runtime.code);
  }

  /** Runs `f` as a block: at once, if nothing excludes it. Settles as `f` does. */
  async run<A>(what: string, f: (block: Block) => A | Promise<A>): Promise<A> {
    const release = this.#events.hold();
    const limited = async (block: Block): Promise<A> => {
      const cancel = this.#runtime.time.after(BLOCK_MS_MAX, () =>
        this.#runtime.abort(`${what} took longer than 30 s`),
      );
      try {
        return await f(block);
      } finally {
        cancel();
      }
    };
    try {
      return await this.#blocks.while(limited);
    } finally {
      release();
    }
  }

  /** Runs a storage call: at once, if no block excludes it (rule 3). */
  access<A>(f: () => A): A | Promise<A> {
    return this.#blocks.excludes ? this.#blocks.while(f) : f();
  }

  /** Runs `f` as code of the block, or of that within it which the running code belongs to. */
  within<A>(block: Block, f: () => A): A {
    const { code } = this.#runtime;
    return code.block?.isIn(block) === true ? f() : code.inBlock(block, f);
  }
}
