/**
 * What all agents of a process share, by the clock that they share: a simulation has several
 * processes in one.
 */
import type { TimeShape } from "./Time.ts";

/** Made for each clock once, when it is first asked for; it goes with its clock. */
export function perClock<A>(make: (time: TimeShape) => A): (time: TimeShape) => A {
  const made = new WeakMap<TimeShape, { readonly value: A }>();
  return (time) => {
    let found = made.get(time);
    if (found === undefined) made.set(time, (found = { value: make(time) }));
    return found.value;
  };
}
