/**
 * `npm run faults [-- --long] [--seed N] [--minutes M] [--servers 1|3] [--only <fault>]`: real processes under faults, run after run,
 * and what of the promises did not hold. Exit code 1 when one did not, or when a fault never bit.
 */
import { parseArgs } from "node:util";
import { Bites } from "./rig/Bites.ts";
import { faultsOver, runRig, scheduleOf } from "./rig/runRig.ts";

/** Faults begin for so long in the short form, which is to end within a minute. */
const SHORT_BUDGET_MS = 20_000;
/** As long as one likes to wait. */
const LONG_MINUTES = 10;
const MS_PER_MINUTE = 60_000;

// Ends by `exit`, whose handlers take folders and mounts away.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const { values } = parseArgs({
  options: {
    long: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    minutes: { type: "string" },
    servers: { type: "string", default: "1" },
    only: { type: "string", multiple: true, default: [] },
  },
});
const servers = values.servers === "3" ? 3 : 1;
const possible = faultsOver(servers);
const names = values.only.length > 0 ? values.only : possible;
const unknown = names.filter((name) => !possible.includes(name));
if (unknown.length > 0)
  throw new Error(`no such fault: ${unknown.join()}. There are ${possible.join(", ")}`);

const minutes = Number(values.minutes ?? LONG_MINUTES);
const untilMs = performance.now() + minutes * MS_PER_MINUTE;
const bites = new Bites();
let runs = 0;
let failed = 0;
let seed = Number(values.seed);
do {
  const report = await runRig({
    seed,
    servers,
    faults: scheduleOf(seed, names),
    ...(values.long ? {} : { budgetMs: SHORT_BUDGET_MS }),
    say: (line) => console.log(`seed ${seed}, ${line}`),
  });
  runs++;
  bites.merge(report.bites);
  console.log(JSON.stringify(report.figures));
  if (report.violations.length > 0) {
    failed++;
    console.log(`seed ${seed} FAILED; its history is kept in ${report.kept}:`);
    for (const what of report.violations) console.log(`  ${what}`);
  }
  seed++;
} while (values.long && performance.now() < untilMs);

console.log(`${runs} runs over ${servers} nats-server(s), ${failed} failed`);
for (const line of bites.lines) console.log(`  ${line}`);
const { toothless } = bites;
if (toothless.length > 0) console.log(`faults that never bit: ${toothless.join(", ")}`);
process.exitCode = failed > 0 || toothless.length > 0 ? 1 : 0;
