/**
 * What the agents of a host cost: turns, the time that they took, commits and their bytes, and how
 * often and for how long they held the thread of their process. Each agent in memory has a meter,
 * and each class one sum, which is a metric too. `agents top` reads them (`Call`, kind `usage`). A
 * hot path: a few additions a turn.
 *
 * The time of a turn is from the beginning of its code to its end, waits included; turns that run
 * side by side add up. A stall is the thread's own time (`services/watchdog`).
 */

export interface Cost {
  readonly turns: number;
  /** Milliseconds in turns. */
  readonly turnMs: number;
  readonly commits: number;
  /** Size of its journal events. */
  readonly bytes: number;
  /** Times that it held the thread of its process for 200 ms or more. */
  readonly stalls: number;
  /** Milliseconds of these. */
  readonly stallMs: number;
}

export interface ClassMetrics {
  readonly turn: (ms: number) => void;
  readonly commit: (bytes: number) => void;
  readonly stall: (ms: number) => void;
}

export class Meter implements Cost {
  turns = 0;
  turnMs = 0;
  commits = 0;
  bytes = 0;
  stalls = 0;
  stallMs = 0;
  readonly #sum: ClassMetrics;

  /** `sum` receives every addition as well. */
  constructor(sum: ClassMetrics) {
    this.#sum = sum;
  }

  turn(ms: number): void {
    this.turns++;
    this.turnMs += ms;
    this.#sum.turn(ms);
  }

  commit(bytes: number): void {
    this.commits++;
    this.bytes += bytes;
    this.#sum.commit(bytes);
  }

  stall(ms: number): void {
    this.stalls++;
    this.stallMs += ms;
    this.#sum.stall(ms);
  }
}

/** The sums of a host's classes. There are as many as its module has. */
export class Usage {
  readonly #classes = new Map<string, Meter>();
  readonly #metricsOf: (className: string) => ClassMetrics;

  constructor(metricsOf: (className: string) => ClassMetrics) {
    this.#metricsOf = metricsOf;
  }

  /** A meter of one agent of the class. */
  meter(className: string): Meter {
    return new Meter(this.ofClass(className));
  }

  ofClass(className: string): Meter {
    let sum = this.#classes.get(className);
    if (sum === undefined)
      this.#classes.set(className, (sum = new Meter(this.#metricsOf(className))));
    return sum;
  }

  get classes(): ReadonlyArray<readonly [className: string, cost: Cost]> {
    return [...this.#classes];
  }
}

export const costOf = ({ turns, turnMs, commits, bytes, stalls, stallMs }: Cost): Cost => ({
  turns,
  turnMs,
  commits,
  bytes,
  stalls,
  stallMs,
});

/** The spending of all agents of a class on budgets of one name, and the refusals. */
export interface BudgetSum {
  readonly class: string;
  readonly budget: string;
  readonly spent: number;
  /** Calls. */
  readonly refused: number;
}

/** The answer to a `usage`: of the host's classes since its start, of agents since their wake. */
export interface UsageReply {
  readonly host: string;
  readonly classes: ReadonlyArray<Cost & { readonly class: string }>;
  /** Absent: of a host of an older release. */
  readonly budgets?: ReadonlyArray<BudgetSum>;
  /** Those in memory that had a turn in the last minute, the busiest first, up to `AGENTS_MAX`. */
  readonly agents: ReadonlyArray<
    Cost & {
      readonly class: string;
      readonly name: string;
      /** Stored inputs that are not done. */
      readonly waiting: number;
    }
  >;
}
