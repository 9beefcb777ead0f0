/**
 * Turns that have used the database while a transaction of other code was open
 * (`ObjectStorage.transaction`). Their calls could not wait, so what they wrote is part of the
 * transaction, and what they read may be undone with it.
 *
 * 1. Nothing that depends on them leaves before the transaction has ended: outputs of code that is
 *    not part of the transaction are kept until then.
 * 2. A durable turn among them does not end before the transaction has, so no event stores its
 *    input as done without its writes.
 * 3. When the transaction is committed, their writes are committed like any others, and then the
 *    outputs leave. When it is rolled back, `AgentSql` discards the agent: inputs run again, and
 *    calls fail.
 *
 * `AgentSql` adds turns and ends it; `Committer` asks it.
 */
import type { Output } from "./Batch.ts";
import type { Turn } from "./Turn.ts";

/** Takes what the end of the transaction releases (`Committer`). */
interface Released {
  touch(turn: Turn): void;
  end(turn: Turn): void;
  afterCommit(output: Output): void;
}

export class JoinedTurns {
  readonly #turns = new Set<Turn>();
  readonly #ended: Turn[] = [];
  readonly #outputs: Output[] = [];
  readonly #isInside: () => boolean;

  /** `isInside`: whether the running code is part of the transaction. */
  constructor(isInside: () => boolean) {
    this.#isInside = isInside;
  }

  add(turn: Turn): void {
    this.#turns.add(turn);
  }

  /** Rule 1. True: the output is kept. Code of the transaction must not wait for its end. */
  keeps(output: Output): boolean {
    if (this.#isInside()) return false;
    this.#outputs.push(output);
    return true;
  }

  /** Rule 2. True: the turn ends later. */
  keepsEnd(turn: Turn): boolean {
    if (!turn.durable || !this.#turns.has(turn)) return false;
    this.#ended.push(turn);
    return true;
  }

  /** Rule 3. */
  release(committer: Released): void {
    for (const turn of this.#turns) committer.touch(turn);
    for (const turn of this.#ended) committer.end(turn);
    for (const output of this.#outputs) committer.afterCommit(output);
  }
}
