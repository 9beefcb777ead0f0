/**
 * `npm run sim -- --seed N [--runs K] [--minutes M] [--jobs J] [--steps S] [--long] [--crash-at P]
 * [--trace]`: simulates installations under faults, seed after seed, and says which invariants did
 * not hold. Exit code 1 when one did not, or when, of at least `SEEDS_THAT_BITE` seeds, a common
 * fault never struck.
 *
 * `--jobs` divides the seeds among that many processes. `--minutes` ends the run after that time,
 * but not before `SEEDS_MIN` seeds. Its last line is "N passed, N failed".
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { CrashPoint } from "./rig/crashPoints.ts";
import { simulate, STEPS_DEFAULT } from "./simulate.ts";

/** A night's worth. */
const LONG_RUNS = 100_000;
const REPORT_EVERY = 500;
/** Fewer would not be a test, however slow the machine. */
const SEEDS_MIN = 30;
/** In this many seeds each of `COMMON_FAULTS` strikes many times. */
const SEEDS_THAT_BITE = 100;
const MS_PER_MINUTE = 60_000;

/** A fault that never struck shows nothing. */
const COMMON_FAULTS = [
  "crash host",
  "freeze host",
  "append refused",
  "repeated",
  "ack lost",
  "hibernated",
  "errand: pause",
  "errand: terminate",
  "errand: restart",
  "killed by an input",
  "duplicate dropped",
  "erased",
  "mail accepted",
  "batch: lost",
  "trimmed",
  "isolated while its worker runs",
];

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    runs: { type: "string" },
    minutes: { type: "string" },
    jobs: { type: "string", default: "1" },
    /** Distance from one seed to the next in each of the processes of one `--jobs`. */
    stride: { type: "string", default: "1" },
    steps: { type: "string", default: String(STEPS_DEFAULT) },
    long: { type: "boolean", default: false },
    "crash-at": { type: "string" },
    trace: { type: "boolean", default: false },
  },
});

interface Tally {
  ran: number;
  failed: number;
  happened: number;
  readonly bites: Map<string, number>;
}

const first = Number(values.seed);
const stride = Number(values.stride);
const runs = Number(values.runs ?? (values.long ? LONG_RUNS : 1));
const jobs = Math.min(Number(values.jobs), runs);
const untilMs = performance.now() + Number(values.minutes ?? Infinity) * MS_PER_MINUTE;
const startMs = performance.now();

const tally = jobs > 1 ? await divide() : await simulateAll();
if (process.send === undefined) conclude(tally);
else process.send({ ...tally, bites: [...tally.bites] }, () => process.disconnect());

async function simulateAll(): Promise<Tally> {
  const sum: Tally = { ran: 0, failed: 0, happened: 0, bites: new Map() };
  for (let seed = first; sum.ran < runs; seed += stride) {
    if (sum.ran >= SEEDS_MIN && performance.now() > untilMs) break;
    const report = await simulate({
      seed,
      steps: Number(values.steps),
      keepTrace: values.trace,
      ...(values["crash-at"] === undefined ? {} : { crashAt: values["crash-at"] as CrashPoint }),
    });
    sum.ran++;
    sum.happened += report.happened;
    addBites(sum.bites, report.bites);
    for (const line of report.lines) console.log(line);
    if (runs === 1) console.log(`seed ${seed}: trace ${report.digest}, ${report.happened} lines`);
    if (report.violations.length > 0) {
      sum.failed++;
      console.log(`seed ${seed} (trace ${report.digest}):`);
      for (const { invariant, what } of report.violations) console.log(`  ${invariant}: ${what}`);
    }
    if (sum.ran % REPORT_EVERY === 0) tell(sum);
  }
  return sum;
}

/** The same in `jobs` processes, each with every so-manieth seed. */
async function divide(): Promise<Tally> {
  const given = process.argv.slice(2);
  const parts = Array.from({ length: jobs }, (_, n) => {
    const own = Math.ceil((runs - n) / jobs);
    const args = [...given, "--seed", `${first + n}`, "--stride", `${jobs}`, "--jobs", "1"];
    const child = fork(fileURLToPath(import.meta.url), [...args, "--runs", `${own}`]);
    return new Promise<Tally>((resolve, reject) => {
      child.once("message", (message) => {
        const part = message as Omit<Tally, "bites"> & { bites: Array<[string, number]> };
        resolve({ ...part, bites: new Map(part.bites) });
      });
      child.once("exit", (code) => reject(new Error(`a simulating process ended with ${code}`)));
    });
  });
  const sum: Tally = { ran: 0, failed: 0, happened: 0, bites: new Map() };
  for (const part of await Promise.all(parts)) {
    sum.ran += part.ran;
    sum.failed += part.failed;
    sum.happened += part.happened;
    addBites(sum.bites, part.bites);
  }
  return sum;
}

function addBites(to: Map<string, number>, more: ReadonlyMap<string, number>): void {
  for (const [fault, count] of more) to.set(fault, (to.get(fault) ?? 0) + count);
}

function conclude(sum: Tally): void {
  tell(sum);
  for (const [fault, count] of [...sum.bites].toSorted(([a], [b]) => a.localeCompare(b)))
    console.log(`  ${String(count).padStart(8)} ${fault}`);
  const common = sum.ran >= SEEDS_THAT_BITE ? COMMON_FAULTS : [];
  const toothless = common.filter((fault) => (sum.bites.get(fault) ?? 0) === 0);
  for (const fault of toothless) console.log(`the fault "${fault}" never struck`);
  process.exitCode = sum.failed > 0 || toothless.length > 0 ? 1 : 0;
  console.log(`${sum.ran - sum.failed} passed, ${sum.failed} failed`);
}

function tell({ ran, failed, happened }: Tally): void {
  const seconds = (performance.now() - startMs) / 1000;
  console.log(
    `${ran} seeds, ${happened} lines of trace, ${failed} failed, ${(ran / seconds).toFixed(1)} seeds/s`,
  );
}
