/**
 * Turns with steps in one run, drawn from its seed: in some runs, orders for agents that call the
 * world, and in some, for agents that spend and compensate.
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
/** The same of payments; their steps are few, since each may be undone as well. */
const RUNS_WITH_PAYMENTS = 0.25;
const PAYMENTS = 0.15;
const PAYERS = ["r", "s"] as const;
const BUYS_MAX = 3;
/** Several at once interleave. */
const TOGETHER_MAX = 3;

export class Calls {
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly rate: number;
  private readonly payments: Random;
  private readonly paymentRate: number;
  private orders = 0;

  constructor({ seed }: Pick<Installation, "seed">, send: Calls["send"]) {
    this.send = send;
    this.random = new Random(seed, "calls");
    this.rate = this.random.chance(RUNS_WITH_CALLS) ? CALLS : 0;
    this.payments = new Random(seed, "payments");
    this.paymentRate = this.payments.chance(RUNS_WITH_PAYMENTS) ? PAYMENTS : 0;
  }

  /** What happens to callers and payers in one step. */
  act(): void {
    this.pay();
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const agent = random.pick(CALLERS);
    for (let n = random.int(1, TOGETHER_MAX); n > 0; n--) {
      const id = `call-${++this.orders}`;
      const fails = random.int(0, STEPS_MAX);
      this.send("Caller", { id, agent, do: "call", ms: random.int(1, MS_MAX), fails });
    }
  }

  private pay(): void {
    const { payments } = this;
    if (!payments.chance(this.paymentRate)) return;
    const id = `pay-${++this.orders}`;
    const agent = payments.pick(PAYERS);
    const [ms, fails] = [payments.int(1, MS_MAX), payments.int(0, BUYS_MAX)];
    this.send("Payer", { id, agent, do: "pay", ms, fails });
  }
}
