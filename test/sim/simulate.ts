/**
 * One seed, one run: an installation, a workload and faults drawn from it, then everything mended,
 * and the invariants checked over what is left. One seed twice gives one trace, to the byte.
 *
 * Phases: start → trouble (steps of work and faults) → calm (all is mended, what waits is done) →
 * rest (schedules cancelled, probes, hosts stopped in order) → checks.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { installLazyFetch } from "../../core/lazyFetch/installLazyFetch.ts";
import { check, type Violation } from "./checkers/index.ts";
import type { CrashPoint } from "./rig/crashPoints.ts";
import { Faults, FAULTS, type Fault } from "./faults.ts";
import { Installation } from "./Installation.ts";
import type { Observed } from "./rig/Observed.ts";
import type { PlantedBug } from "./planted/plantedBugs.ts";
import { Random } from "./rig/Random.ts";
import { readHistory, waitingIn } from "./rig/RunHistory.ts";
import { limitDisks } from "./rig/simDisk.ts";
import { Trace } from "./rig/Trace.ts";
import { Weather } from "./rig/Weather.ts";
import { hashAtOnce } from "./simMail.ts";
import { DOOMED } from "./simErase.ts";
import { BOARD, LEDGERS, VICTIM, Workload } from "./workload.ts";

export interface SimulateOptions {
  readonly seed: number;
  /** Things that the outside does, and faults. */
  readonly steps?: number;
  readonly bug?: PlantedBug;
  /** Keep the trace's lines. */
  readonly keepTrace?: boolean;
  /** A process dies at this point, as soon and as often as it is come to. */
  readonly crashAt?: CrashPoint;
}

export interface Report {
  readonly seed: number;
  readonly digest: string;
  /** Lines of the trace. */
  readonly happened: number;
  readonly violations: ReadonlyArray<Violation>;
  /** How often each fault bit. */
  readonly bites: ReadonlyMap<string, number>;
  readonly lines: ReadonlyArray<string>;
  readonly virtualMs: number;
  readonly passed: ReadonlySet<CrashPoint>;
  readonly diedAt: ReadonlyArray<CrashPoint>;
}

export const STEPS_DEFAULT = 40;
/** The share of runs whose hosts have disks: files cost more than all else in a run. */
const DISKS = 0.2;
/** In memory, if the machine has such a filesystem: thousands of files, made and removed. */
const MEMORY_FOLDER = "/dev/shm";
const DISKS_FOLDER = existsSync(MEMORY_FOLDER) ? MEMORY_FOLDER : tmpdir();
/** Weight of a full disk among faults, in most of those. */
const DISK_FULL = 8;
/** Weight of a damaged event, in runs whose reader passes it over: few runs have any. */
const DAMAGE = 8;
/** Between two steps, of virtual time: a run's trouble lasts a few leases. */
const GAP_MS_MAX = 220;
/** After its last fault: leases run out, processes return, late appends arrive, one-shots run. */
const CALM_MS = 5_000;
/** What waits then has so long to be done: poison that kills needs a lease for each attempt. */
const PATIENCE_MS = 120_000;
const TICK_MS = 250;
/** Mails of frames and answers of the last commits are out. */
const LAST_MS = 300;

/** First uses by Node and SQLite take turns of the real loop: a first run differs. */
let warm: Promise<unknown> | undefined;
const WARM_STEPS = 10;

/** Runs one seed. Rejects only when the simulation itself is broken. */
export async function simulate(options: SimulateOptions): Promise<Report> {
  // As every process that runs agents does.
  installLazyFetch();
  await (warm ??= runSeed({ seed: 0, steps: WARM_STEPS }));
  return runSeed(options);
}

async function runSeed(options: SimulateOptions): Promise<Report> {
  const { seed, bug } = options;
  const random = new Random(seed, "profile");
  const time = new VirtualTime({ seed });
  const trace = new Trace(time.monotonicMs, options.keepTrace ?? false);
  const some = (rate: number): number => (random.chance(0.5) ? rate * random.next() : 0);
  const rates = {
    delayed: random.pick([0, 0.3, 1]), lost: some(0.1), unknown: some(0.15), repeated: some(0.2),
    ackLost: some(0.2), messageLost: some(0.05),
  }; // prettier-ignore
  const weather = new Weather(seed, { rates, trace, bug });
  const folder = random.chance(DISKS) ? mkdtempSync(join(DISKS_FOLDER, "agents-sim-")) : undefined;
  const installation = new Installation({
    seed, time, weather, folder, hosts: random.int(2, 3), gateways: random.int(1, 2),
  }); // prettier-ignore
  const weights: Partial<Record<Fault, number>> = {};
  for (const fault of FAULTS) if (random.chance(0.4)) weights[fault] = random.int(1, 4);
  // Few runs have disks at all.
  if (folder !== undefined && new Random(seed, "disks").chance(0.8))
    weights["fill disk"] = DISK_FULL;
  if (bug?.skipsDamage === true) weights["damage event"] = DAMAGE;
  const faults = new Faults(installation, weights);
  const workload = new Workload(installation);
  const unlimit = limitDisks(installation.full, () => weather.bit("cache not written"));
  const unhash = hashAtOnce();
  const repair = bug?.install?.();
  try {
    for (const at of installation.gateways) installation.startGateway(at);
    for (const at of installation.hosts) await installation.startHost(at);
    const faultRate = Object.keys(weights).length === 0 ? 0 : random.next() * 0.35;
    for (let step = 0; step < (options.steps ?? STEPS_DEFAULT); step++) {
      await time.advance(random.int(0, GAP_MS_MAX));
      if (options.crashAt !== undefined) installation.armed = options.crashAt;
      if (random.chance(faultRate)) faults.strike();
      else workload.act();
      faults.restartLater();
    }
    const run = await settle(installation, faults, workload);
    // Each may have ended runs that nobody counted.
    for (const [fault, count] of weather.bites)
      if (/^(?:append|request|answer|cut|lose|lease|freeze|stop)/.test(fault))
        installation.observed.disruptions += count;
    const history = await readHistory(installation, run);
    return {
      seed,
      digest: trace.digest(),
      happened: trace.count,
      violations: check(history),
      bites: weather.bites,
      lines: trace.lines,
      virtualMs: time.monotonicMs(),
      passed: installation.passed,
      diedAt: installation.diedAt,
    };
  } finally {
    repair?.();
    unlimit();
    unhash();
    for (const { process } of [...installation.hostsAlive, ...installation.gatewaysAlive])
      process.kill();
    workload.trims.kill();
    await time.advance(0);
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

/** Nobody writes to it any more: once is enough, but for an operator's earlier try. */
const ERASE_TRIES_MAX = 10;

const idsOf = ({ sent }: Observed, name: string): ReadonlyArray<string> =>
  [...sent.values()].filter(({ agent }) => agent === name).map(({ id }) => id);

/** I17: at rest the lease of each shard lives, and is that of a host which serves it. */
function unownedShards({ broker, hostsAlive }: Installation): string[] {
  const holders = new Map(broker.leases.live().map(({ lease }) => [lease.key, lease.value]));
  const wrong: string[] = [];
  for (let shard = 0; shard < broker.shards; shard++) {
    const holder = holders.get(`shard.${shard}`);
    const host = hostsAlive.find(({ process }) => process.name === holder);
    if (host?.shards().includes(shard) !== true)
      wrong.push(
        `shard ${shard}: ${holder === undefined ? "no lease" : `${holder} does not serve it`}`,
      );
  }
  return wrong;
}

/** From the last fault to rest. */
async function settle(installation: Installation, faults: Faults, workload: Workload) {
  const { time, observed, weather } = installation;
  const pass = async (ms: number, over: () => boolean): Promise<void> => {
    for (let passed = 0; passed < ms && !over(); passed += TICK_MS) {
      faults.restartLater();
      if (weather.calm) installation.releaseQuarantined();
      await time.advance(TICK_MS);
    }
  };
  const until = async <A>(promise: Promise<A>): Promise<A> => {
    let over = false;
    void promise.then(() => (over = true));
    await pass(PATIENCE_MS, () => over);
    return promise;
  };
  const isDone = (): boolean =>
    waitingIn(installation).every(({ id }) => observed.damaged.has(id.name));
  weather.trace.add("calm");
  faults.heal();
  await pass(CALM_MS, () => false);
  // A pause that comes late is the last word.
  await pass(PATIENCE_MS, () => workload.isSent && workload.isPutBack && isDone());
  // An instance that a planted bug has broken may never answer.
  let goesOn: boolean | undefined;
  void workload.goOn().then((found) => (goesOn = found));
  await pass(PATIENCE_MS, () => goesOn !== undefined);
  if (goesOn !== false) {
    await pass(CALM_MS, () => false);
    await pass(PATIENCE_MS, isDone);
  }
  // Inputs that kill have done so by now.
  const calmFromMs = time.nowMs();
  await pass(CALM_MS, () => false);
  weather.trace.add("rest");
  const cancelledMs = time.nowMs();
  for (const name of LEDGERS) workload.order("cancel", name);
  workload.reconnectAll();
  await pass(TICK_MS * 8, () => false);
  await pass(PATIENCE_MS, isDone);
  for (const name of LEDGERS) {
    const startMs = time.monotonicMs();
    const sent = workload.deliver("Ledger", { id: `probe-${name}`, agent: name, do: "mark" });
    let tookMs = Infinity;
    void sent.then(() => (tookMs = time.monotonicMs() - startMs));
    await pass(PATIENCE_MS, () => tookMs !== Infinity);
    observed.probes.push({ agent: name, status: (await sent).statuses.at(-1)!, tookMs });
  }
  // A last change brings up to date who missed one before it: half of the runs have none.
  const isTouched = new Random(installation.seed, "touch").chance(0.5);
  const touched = await until(isTouched ? workload.touch() : workload.get("Board", BOARD));
  observed.probes.push({ agent: BOARD, status: touched.status, tookMs: 0 });
  observed.unowned.push(...unownedShards(installation));
  if (observed.damaged.size > 0) {
    // Whoever has it in memory, on disk or in a snapshot goes on; whoever reads its journal must
    // not.
    installation.broker.snapshots.delete(`Ledger/${VICTIM}`);
    for (const { process } of installation.hostsAlive) installation.crash(process, 0);
    await pass(CALM_MS, () => false);
    observed.damagedAnswers.push((await until(workload.get("Ledger", VICTIM))).status);
  }
  if ([...observed.sent.values()].some(({ agent }) => agent === DOOMED)) {
    for (let n = 0; n < ERASE_TRIES_MAX && observed.erased === undefined; n++)
      if (await until(workload.erase())) observed.erased = idsOf(observed, DOOMED);
      else await pass(CALM_MS, () => false);
    observed.eraseFailed = observed.erased === undefined;
  }
  await until(workload.trims.forgetErased());
  await time.advance(LAST_MS);
  const stoppedMs = time.nowMs();
  await until(Promise.all(installation.hosts.map((at) => installation.stop(at))));
  return { calmFromMs, cancelledMs, stoppedMs };
}
