/** Holds the thread of agents' code, asleep: a loop would wait for a processor elsewhere. */

/** The debugger looks between two of them. */
const SLEEP_MS = 50;
const ASLEEP = new Int32Array(new SharedArrayBuffer(4));

export function holdThread(ms: number): void {
  for (let held = 0; held < ms; held += SLEEP_MS) Atomics.wait(ASLEEP, 0, 0, SLEEP_MS);
}
