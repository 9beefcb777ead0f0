/**
 * Marches of one run, drawn from its seed: in some runs, orders for agents whose work is fibers.
 */
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { Order } from "./subjects.ts";

/** Of runs; and of the steps of one that has any. */
const RUNS_WITH_MARCHES = 0.3;
const MARCHES = 0.15;
const MARCHERS = ["m", "n"] as const;
const MS_MAX = 1_000;

export class Marches {
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly rate: number;
  private orders = 0;

  constructor({ seed }: Pick<Installation, "seed">, send: Marches["send"]) {
    this.send = send;
    this.random = new Random(seed, "marches");
    this.rate = this.random.chance(RUNS_WITH_MARCHES) ? MARCHES : 0;
  }

  /** What happens to marchers in one step. */
  act(): void {
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const agent = random.pick(MARCHERS);
    const id = `march-${++this.orders}`;
    this.send("Marcher", { id, agent, do: "march", ms: random.int(1, MS_MAX) });
  }
}
