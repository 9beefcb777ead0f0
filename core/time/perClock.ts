/**
 * Singletons for each clock. All agents of a process share a clock, and with it such a singleton. A
 * simulation runs several processes in one, each with its own clock.
 */
import type { TimeShape } from "./Time.ts";

/** Returns a function that makes one value for each clock, at first use, released with it. */
export function perClock<A>(make: (time: TimeShape) => A): (time: TimeShape) => A {
  const made = new WeakMap<TimeShape, { readonly value: A }>();
  return (time) => {
    let found = made.get(time);
    if (found === undefined) made.set(time, (found = { value: make(time) }));
    return found.value;
  };
}
