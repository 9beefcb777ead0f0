/**
 * Properties over drawn inputs, for about a second each in the suite; with `FUZZ_SECONDS=300 npx vitest run fuzz` each takes that
 * long, from another seed every time. What fails says the seed and the smallest input.
 */
import fc, { type IAsyncProperty, type IProperty } from "fast-check";

const { FUZZ_SECONDS } = process.env;

/** How long a property takes: the suite's time for it, or what the environment says. */
export const fuzzMs = (suiteMs: number): number =>
  FUZZ_SECONDS === undefined ? suiteMs : Number(FUZZ_SECONDS) * 1000;

/** For a test that fuzzes so long in the suite: it, and starting and shrinking. */
export const fuzzTimeoutMs = (suiteMs: number): number => fuzzMs(suiteMs) + 30_000;

/** Settings that end a property by time and not by number. */
export const forTime = (suiteMs: number) => ({
  numRuns: Number.MAX_SAFE_INTEGER,
  interruptAfterTimeLimit: fuzzMs(suiteMs),
});

/** Runs it for its time and says in the log how often, when it was long. */
export async function fuzz<A>(
  what: string,
  suiteMs: number,
  property: IProperty<A> | IAsyncProperty<A>,
): Promise<void> {
  const result = await fc.check(property, forTime(suiteMs));
  if (result.failed)
    throw new Error(fc.defaultReportMessage(result), { cause: result.errorInstance });
  if (FUZZ_SECONDS !== undefined) console.info(`fuzz: ${what}: ${result.numRuns} inputs`);
}
