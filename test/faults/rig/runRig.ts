/** One run: an installation, work, faults from the seed, repairs; then all is read and checked. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tempFolder } from "../../kit/tempFolder.ts";
import { Random } from "../../sim/rig/Random.ts";
import { Bites } from "./Bites.ts";
import { CHECKS, type RigHistory } from "./checks.ts";
import { Clients } from "./Clients.ts";
import { DAMAGE_FAULTS } from "./damageFaults.ts";
import { DISK_FAULTS } from "./diskFaults.ts";
import { PROCESS_FAULTS, type Fault } from "./faults.ts";
import { DELIVERY_FAULTS, ROUTE_FAULTS } from "./networkFaults.ts";
import { Providers } from "./Providers.ts";
import { readBack, type World } from "./readBack.ts";
import { openReceiver } from "./Receiver.ts";
import { Rig } from "./Rig.ts";

export const FAULTS: Readonly<Record<string, Fault>> = {
  ...PROCESS_FAULTS,
  ...DELIVERY_FAULTS,
  ...DISK_FAULTS,
  ...DAMAGE_FAULTS,
  ...ROUTE_FAULTS,
};

/** Those that so many servers can have. */
export const faultsOver = (servers: 1 | 3): string[] =>
  Object.keys(FAULTS).filter((name) => servers === 3 || ROUTE_FAULTS[name] === undefined);

export interface RunOptions {
  readonly seed: number;
  readonly servers: 1 | 3;
  /** Names of faults, in this order. */
  readonly faults: ReadonlyArray<string>;
  /** No fault begins later than this after the start. */
  readonly budgetMs?: number;
  /** How many times slower than usual providers and clients are. */
  readonly slower?: number;
  readonly say?: (line: string) => void;
}

export interface Report {
  readonly bites: Bites;
  /** Findings, each with its invariant; also work that did not end in time. */
  readonly violations: ReadonlyArray<string>;
  readonly figures: Readonly<Record<string, unknown>>;
  /** Where the history of a failure is kept. */
  readonly kept: string | undefined;
}

/** Every fault once, in an order drawn from the seed. */
export function scheduleOf(seed: number, names: ReadonlyArray<string>): string[] {
  const random = new Random(seed, "schedule");
  const left = [...names];
  const order: string[] = [];
  while (left.length > 0) order.push(...left.splice(random.int(0, left.length - 1), 1));
  return order;
}

/** Every fault so often, cut into runs; the order of run n is drawn from `seed + n`. */
export function runsOf(
  seed: number,
  plan: { readonly names: ReadonlyArray<string>; readonly times: number; readonly every: number },
): string[][] {
  const { names, times, every } = plan;
  const all = Array.from({ length: times }, () => names).flat();
  return Array.from({ length: Math.ceil(all.length / every) }, (_, n) =>
    scheduleOf(seed + n, all.slice(n * every, (n + 1) * every)),
  );
}

export async function runRig(options: RunOptions): Promise<Report> {
  const { seed, servers, say = () => undefined } = options;
  const startMs = performance.now();
  const folder = tempFolder("rig");
  const receiver = await openReceiver(new Random(seed, "receiver"));
  const random = new Random(seed, "faults");
  const violations: string[] = [];
  const told: string[] = [];
  const tell = (line: string): void => {
    const text = `${((performance.now() - startMs) / 1000).toFixed(1)} s: ${line}`;
    told.push(text);
    say(text);
  };
  let rig: Rig | undefined;
  let world: World | undefined;
  let history: RigHistory | undefined;
  try {
    rig = await Rig.start({ folder: folder.path, servers, receiverUrl: receiver.url });
    const urls = rig.gateways.map(({ port }) => `http://127.0.0.1:${port}`);
    world = {
      rig,
      providers: new Providers(new Random(seed, "providers"), urls, options.slower),
      clients: new Clients(new Random(seed, "clients"), urls, options.slower),
      received: receiver.received,
      hostTroubles: 0,
      violations,
    };
    tell("it serves");
    await world.providers.more(STEADY);
    const faultsMs = performance.now();
    for (const name of options.faults) {
      if (performance.now() - faultsMs > (options.budgetMs ?? Infinity)) break;
      tell(name);
      rig.bites.begin(name);
      await FAULTS[name]!(world, random);
    }
    tell("all is mended and read back");
    history = await readBack(world);
    for (const [invariant, check] of Object.entries(CHECKS))
      violations.push(...check(history).map((what) => `${invariant}: ${what}`));
  } catch (error) {
    await rig?.diagnose();
    violations.push(
      `it did not get there: ${error instanceof Error ? error.stack : String(error)}`,
    );
  } finally {
    world?.clients.end();
    world?.providers.abandon();
    await rig?.stop();
    receiver.close();
  }
  const figures = {
    seed,
    servers,
    seconds: Math.round((performance.now() - startMs) / 1000),
    "answers by status": Object.fromEntries(world?.providers.byStatus ?? []),
    "sent twice": world?.providers.twice,
    "held over a second": world?.providers.held,
    "sockets that came back": world?.clients.reconnects,
    "agents' turns": history?.runs.length,
    events: history?.pictures.reduce((sum, { history: { events } }) => sum + events.length, 0),
  };
  const kept = violations.length > 0 ? keep(options, { violations, told, figures, rig, history }) : undefined; // prettier-ignore
  folder.remove();
  return { bites: rig?.bites ?? new Bites(), violations, figures, kept };
}

/** Accepted before the first fault: every agent has something to lose. */
const STEADY = 60;

function keep(
  { seed, servers }: RunOptions,
  found: {
    readonly violations: ReadonlyArray<string>;
    readonly told: ReadonlyArray<string>;
    readonly figures: unknown;
    readonly rig: Rig | undefined;
    readonly history: RigHistory | undefined;
  },
): string {
  const parent = join(tmpdir(), "agents-faults");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, `seed-${seed}-servers-${servers}-`));
  const { violations, told, figures, rig, history } = found;
  writeFileSync(join(folder, "told.txt"), [...told, ...violations].join("\n"));
  writeFileSync(join(folder, "figures.json"), JSON.stringify(figures, undefined, 2));
  writeFileSync(join(folder, "logs.jsonl"), rig?.logs.join("\n") ?? "");
  // Images are long and are compared already.
  const plain = history && { ...history, pictures: history.pictures.length };
  writeFileSync(join(folder, "history.json"), JSON.stringify(plain, undefined, 1) ?? "none");
  return folder;
}
