/**
 * `npm run sim -- --seed N [--runs K] [--steps S] [--long] [--crash-at P] [--trace]`: simulates installations under faults, seed after
 * seed, and says which invariants did not hold. Exit code 1 when one did not.
 */
import { parseArgs } from "node:util";
import type { CrashPoint } from "./crashPoints.ts";
import { simulate, STEPS_DEFAULT } from "./simulate.ts";

/** A night's worth. */
const LONG_RUNS = 100_000;
const REPORT_EVERY = 500;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    runs: { type: "string" },
    steps: { type: "string", default: String(STEPS_DEFAULT) },
    long: { type: "boolean", default: false },
    "crash-at": { type: "string" },
    trace: { type: "boolean", default: false },
  },
});

const first = Number(values.seed);
const runs = Number(values.runs ?? (values.long ? LONG_RUNS : 1));
const bites = new Map<string, number>();
const startMs = performance.now();
let happened = 0;
let failed = 0;
for (let seed = first; seed < first + runs; seed++) {
  const report = await simulate({
    seed,
    steps: Number(values.steps),
    keepTrace: values.trace,
    ...(values["crash-at"] === undefined ? {} : { crashAt: values["crash-at"] as CrashPoint }),
  });
  happened += report.happened;
  for (const [fault, count] of report.bites) bites.set(fault, (bites.get(fault) ?? 0) + count);
  for (const line of report.lines) console.log(line);
  if (runs === 1) console.log(`seed ${seed}: trace ${report.digest}, ${report.happened} lines`);
  if (report.violations.length > 0) {
    failed++;
    console.log(`seed ${seed} (trace ${report.digest}):`);
    for (const { invariant, what } of report.violations) console.log(`  ${invariant}: ${what}`);
  }
  if ((seed - first + 1) % REPORT_EVERY === 0) tell(seed - first + 1);
}
tell(runs);
for (const [fault, count] of [...bites].toSorted(([a], [b]) => a.localeCompare(b)))
  console.log(`  ${String(count).padStart(8)} ${fault}`);
process.exitCode = failed > 0 ? 1 : 0;

function tell(done: number): void {
  const seconds = (performance.now() - startMs) / 1000;
  console.log(
    `${done} seeds, ${happened} lines of trace, ${failed} failed, ${(done / seconds).toFixed(1)} seeds/s`,
  );
}
