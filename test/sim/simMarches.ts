/**
 * Fibers of one run, drawn from its seed: in some runs marches, orders for agents whose work is
 * fibers; in some petitions, questions of an agent's fibers, and people who decide each: none, one
 * or several, soon, late, and when its time is up.
 */
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { Order } from "./subjects.ts";

/** The share of runs, and of the steps of one that has any. */
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

/** The same of petitions. */
const RUNS_WITH_PETITIONS = 0.3;
const PETITIONS = 0.15;
const ASKERS = ["t", "u"] as const;
/** How long a question waits: as long as hosts come and go. */
const ASKED_MS_MAX = 2_000;
const VOTES_MAX = 4;
/** The share of votes that come when the question's time is up, give or take `CLOSE_MS`. */
const CLOSE = 0.4;
const CLOSE_MS = 30;

export class Petitions {
  private readonly installation: Pick<Installation, "seed" | "time">;
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly rate: number;
  private orders = 0;

  constructor(installation: Petitions["installation"], send: Petitions["send"]) {
    this.installation = installation;
    this.send = send;
    this.random = new Random(installation.seed, "petitions");
    this.rate = this.random.chance(RUNS_WITH_PETITIONS) ? PETITIONS : 0;
  }

  /** What happens to askers in one step. */
  act(): void {
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const agent = random.pick(ASKERS);
    const id = `petition-${++this.orders}`;
    const ms = random.int(1, ASKED_MS_MAX);
    this.send("Asker", { id, agent, do: "petition", ms });
    for (let n = random.int(0, VOTES_MAX); n > 0; n--) {
      const verdict = random.pick(["approved", "rejected"] as const);
      const vote: Order = { id: `vote-${++this.orders}`, agent, do: "vote", other: id, verdict };
      const afterMs = random.chance(CLOSE)
        ? Math.max(1, ms + random.int(-CLOSE_MS, CLOSE_MS))
        : random.int(1, ASKED_MS_MAX);
      this.installation.time.after(afterMs, () => this.send("Asker", vote));
    }
  }
}
