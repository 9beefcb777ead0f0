/**
 * Turns with steps in one run, drawn from its seed: in some runs, orders for agents that call the
 * world.
 */
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { Order } from "./subjects.ts";

/** Of runs; and of the steps of one that has any. */
const RUNS_WITH_CALLS = 0.4;
const CALLS = 0.3;
const CALLERS = ["p", "q"] as const;
const MS_MAX = 1_000;
const STEPS_MAX = 5;
/** Several at once interleave. */
const TOGETHER_MAX = 3;

export class Calls {
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly rate: number;
  private orders = 0;

  constructor({ seed }: Pick<Installation, "seed">, send: Calls["send"]) {
    this.send = send;
    this.random = new Random(seed, "calls");
    this.rate = this.random.chance(RUNS_WITH_CALLS) ? CALLS : 0;
  }

  /** What happens to callers in one step. */
  act(): void {
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const agent = random.pick(CALLERS);
    for (let n = random.int(1, TOGETHER_MAX); n > 0; n--) {
      const id = `call-${++this.orders}`;
      const fails = random.int(0, STEPS_MAX);
      this.send("Caller", { id, agent, do: "call", ms: random.int(1, MS_MAX), fails });
    }
  }
}
