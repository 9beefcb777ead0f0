/**
 * The clock, the timers and the randomness of the system: the only source of any of them outside
 * the adapters. `services/node` gives the machine's; `services/memory` gives a virtual one that a
 * test moves by hand. Plain functions, not Effects: they stand on the per-message path.
 */
import * as Context from "effect/Context";

export interface TimeShape {
  /** Wall clock, milliseconds since the epoch. May jump. */
  readonly nowMs: () => number;
  /** Milliseconds of a clock that never jumps; only differences mean anything. */
  readonly monotonicMs: () => number;
  /**
   * Runs `f` once, `ms` from now or later. The returned function cancels; calling it twice is fine.
   */
  readonly after: (ms: number, f: () => void) => () => void;
  /** A new unique id: 128 random bits or more, `[A-Za-z0-9_-]`. */
  readonly id: () => string;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export class Time extends Context.Service<Time, TimeShape>()("agents/core/time/Time") {}
