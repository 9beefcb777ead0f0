/**
 * The parameters and results of `this.spend`: budgets of one agent by calendar period. Types and
 * their error.
 */
import * as Data from "effect/Data";

/** The period of a budget, by the calendar of its time zone; `ever`: the agent's life. */
export type BudgetPeriod = "minute" | "hour" | "day" | "week" | "month" | "ever";

/** Options of `spend`. */
export interface SpendOptions {
  /** The most that may be reserved and spent in one period. */
  readonly limit: number;
  /** Default `day`. A week begins on Monday. */
  readonly per?: BudgetPeriod;
  /** An IANA name, for where a day begins. Default UTC. */
  readonly timezone?: string;
  /**
   * The reservation is made once under this key, by whichever turn asks first, until its period is
   * over. Default: the turn's input, and which of its calls this is.
   */
  readonly key?: string;
}

/** A reservation. */
export interface Spend {
  /** The same in each run of the turn. */
  readonly key: string;
  readonly budget: string;
  /** What is reserved, or was spent once it is settled. */
  readonly amount: number;
  /** `settled` in a turn that runs again, where the call had been made and settled. */
  readonly status: "reserved" | "settled" | "released";
  /** What is left in its period. */
  readonly remaining: number;
  /**
   * Replaces what was reserved by what was spent, which may be more. Once: a later call changes
   * nothing, and returns false.
   */
  settle(actual: number): boolean;
  /** Releases what was reserved: nothing was spent. As `settle(0)`. */
  release(): boolean;
}

/** A budget as it is now. */
export interface BudgetInfo {
  readonly budget: string;
  readonly per: BudgetPeriod;
  /** Reserved and spent in the present period. */
  readonly used: number;
  /** The limit of the last `spend`. */
  readonly limit: number;
  /** When the period ends, milliseconds since the epoch; null: never. */
  readonly resetsAt: number | null;
}

/** `spend` past the limit. Nothing was reserved. */
export class BudgetExceeded extends Data.TaggedError("BudgetExceeded")<{
  readonly budget: string;
  /** What was asked for. */
  readonly amount: number;
  /** What is reserved and spent in the period. */
  readonly used: number;
  readonly limit: number;
  /** When the period ends, milliseconds since the epoch; null: never. */
  readonly resetsAt: number | null;
}> {
  override get message(): string {
    const { budget, amount, used, limit, resetsAt } = this;
    const again = resetsAt === null ? "" : `; it resets at ${new Date(resetsAt).toISOString()}`;
    return `the budget "${budget}" has ${Math.max(0, limit - used)} left of ${limit}, but ${amount} was requested${again}`;
  }
}
