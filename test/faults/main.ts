/**
 * `npm run faults [-- --long] [--seed N] [--minutes M] [--servers 1|3] [--only <fault>] [--times N]
 * [--every N] [--damage N]`: runs real processes under faults, and reports which promises did not
 * hold. Exits with 1 if one did not, or if a fault never struck.
 *
 * With `--times` each fault happens that often, one after the other as soon as the previous one has
 * healed, under a lighter load. After every 20 (`--every`) everything is read back and checked, and
 * the next installation begins. `--minutes` then ends it early. `--damage` damages what a real
 * installation has stored that many times; `--long` begins with 5,000 of them.
 */
import { parseArgs } from "node:util";
import { makeMaterial } from "./damage/Material.ts";
import { sweepDamage } from "./damage/sweepDamage.ts";
import { Bites } from "./rig/Bites.ts";
import { faultsOver, runRig, runsOf, scheduleOf } from "./rig/runRig.ts";

/** Faults begin during this time in the short form, which should end within a minute. */
const SHORT_BUDGET_MS = 20_000;
/** As long as people like to wait. */
const LONG_MINUTES = 10;
const MS_PER_MINUTE = 60_000;
/** Faults between two readings: a violation is near its cause, and starting costs less. */
const EVERY_DEFAULT = 20;
/** Times slower than usual, some 20 webhooks a second: enough for every fault to bite. */
const DENSE_SLOWER = 4;

/** The bar's, of stored bytes that are damaged. */
const LONG_DAMAGE_TIMES = 5_000;

// Ends by `exit`, whose handlers take folders and mounts away.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const { values } = parseArgs({
  options: {
    long: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    minutes: { type: "string" },
    servers: { type: "string", default: "1" },
    times: { type: "string" },
    damage: { type: "string" },
    every: { type: "string", default: String(EVERY_DEFAULT) },
    only: { type: "string", multiple: true, default: [] },
  },
});
const servers = values.servers === "3" ? 3 : 1;
const possible = faultsOver(servers);
const names = values.only.length > 0 ? values.only : possible;
const unknown = names.filter((name) => !possible.includes(name));
if (unknown.length > 0)
  throw new Error(`no such fault: ${unknown.join()}. There are ${possible.join(", ")}`);

const minutes = Number(values.minutes ?? (values.times === undefined ? LONG_MINUTES : Infinity));
const untilMs = performance.now() + minutes * MS_PER_MINUTE;
const firstSeed = Number(values.seed);
const planned =
  values.times === undefined
    ? undefined
    : runsOf(firstSeed, { names, times: Number(values.times), every: Number(values.every) });
const damageTimes = Number(
  values.damage ?? (values.long && values.only.length === 0 ? LONG_DAMAGE_TIMES : 0),
);
if (damageTimes > 0) await damage(damageTimes);
if (values.damage !== undefined) process.exit();

const bites = new Bites();
let runs = 0;
let failed = 0;
do {
  const seed = firstSeed + runs;
  const report = await runRig({
    seed,
    servers,
    faults: planned?.[runs] ?? scheduleOf(seed, names),
    ...(planned === undefined ? {} : { slower: DENSE_SLOWER }),
    ...(values.long || planned !== undefined ? {} : { budgetMs: SHORT_BUDGET_MS }),
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
  if (planned !== undefined) for (const line of bites.lines) console.log(`  so far ${line}`);
} while (
  performance.now() < untilMs &&
  (planned === undefined ? values.long : runs < planned.length)
);

console.log(`${runs} runs over ${servers} nats-server(s), ${failed} failed`);
for (const line of bites.lines) console.log(`  ${line}`);
const { toothless } = bites;
if (toothless.length > 0) console.log(`faults that never bit: ${toothless.join(", ")}`);
if (failed > 0 || toothless.length > 0) process.exitCode = 1;

async function damage(times: number): Promise<void> {
  const material = await makeMaterial();
  const { counts, violations } = await sweepDamage(material, { seed: firstSeed, times });
  material.remove();
  console.log(`${times} damaged, ${violations.length} not found`);
  for (const [kind, found] of counts)
    console.log(`  ${kind.padEnd(24)} ${[...found].map(([is, n]) => `${n} ${is}`).join(", ")}`);
  for (const what of violations) console.log(`  I12: ${what}`);
  if (violations.length > 0) process.exitCode = 1;
}
