/**
 * The clock, the timers and the randomness of the system. Outside the adapters there is no other
 * source of them. `services/node` implements the port on the machine's; `services/memory`
 * implements a virtual time that a test advances. Plain functions, not Effects, because they run
 * for each message.
 */
import * as Context from "effect/Context";

export interface TimeShape {
  /** Wall clock, milliseconds since the epoch. May jump. */
  readonly nowMs: () => number;
  /** Milliseconds of a clock that never jumps. Only differences are meaningful. */
  readonly monotonicMs: () => number;
  /** Runs `f` once, `ms` from now or later. The returned function cancels, also a second time. */
  readonly after: (ms: number, f: () => void) => () => void;
  /** Makes a unique id: 128 random bits or more, `[A-Za-z0-9_-]`. */
  readonly id: () => string;
  /** Returns a random number, uniform in [0, 1). */
  readonly random: () => number;
}

export class Time extends Context.Service<Time, TimeShape>()("agents/core/time/Time") {}
