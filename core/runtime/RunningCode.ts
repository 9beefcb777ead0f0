/**
 * What the running code of an agent belongs to: its turn, its step and its block. The ambient turn
 * of a step or a block is a view of the turn (`core/turn/Turn`). Part of `ActiveAgent`.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { AmbientShape } from "../turn/Ambient.ts";
import type { Block, BlockCode } from "../turn/ConcurrencyBlock.ts";
import { within, type StepScope, type Turn } from "../turn/Turn.ts";

interface CodeAgent {
  readonly parts: { readonly ambient: AmbientShape };
  newTurn(cause: Cause): Turn;
}

export class RunningCode implements BlockCode {
  constructor(private readonly agent: CodeAgent) {}

  /** Undefined: the running code is not this agent's. */
  get turn(): Turn | undefined {
    return this.seen?.whole;
  }

  /** The step whose function runs. */
  get step(): StepScope | undefined {
    return this.seen?.step;
  }

  get block(): Block | undefined {
    return this.seen?.block;
  }

  /** Runs `f` in a turn; in the block of the running code, if that has one. */
  inTurn<A>(turn: Turn, f: () => A): A {
    const { block } = this;
    return this.agent.parts.ambient.run(block === undefined ? turn : within(turn, block), f);
  }

  /** Runs `f` in the block. Code outside of a turn gets a new one. */
  inBlock<A>(block: Block, f: () => A): A {
    const turn = this.turn ?? this.agent.newTurn({ kind: "background" });
    return this.agent.parts.ambient.run(within(turn, block), f);
  }

  private get seen(): Turn | undefined {
    const turn = this.agent.parts.ambient.current();
    return turn?.owner === this.agent ? turn : undefined;
  }
}
