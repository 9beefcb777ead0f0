/**
 * The faults of processes and of the network. Each causes one failure under load, verifies that it
 * struck, repairs it, and returns when work continues. Those of disks are in `diskFaults.ts`, of
 * stored bytes in `damageFaults.ts`.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { agentId } from "../../../schemas/Address.ts";
import { pollUntil } from "../../kit/poll.ts";
import type { Random } from "../../sim/rig/Random.ts";
import type { World } from "./readBack.ts";
import { LEASE_TTL_MS, type Seat } from "./Rig.ts";

export type Fault = (world: World, random: Random) => Promise<void>;

const DELAY_MS_MIN = 50;
const DELAY_MS_MAX = 2_000;
/** The bar's: one hour, to either side. */
const CLOCK_JUMP_MS = 3_600_000;
/** Enough that each host had some of it. */
const SOME = 40;
/** A fault shows within this, on a busy machine. */
const BITE_TIMEOUT_MS = 30_000;

const hostKill: Fault = async (world, random) => {
  const { rig, providers } = world;
  const seat = random.pick(rig.hosts);
  const runsBefore = rig.runs.length;
  await seat.process.kill();
  world.hostTroubles++;
  await rig.shared(1);
  rig.bites.add("host-kill", "take-overs");
  await providers.more(SOME);
  await rig.restart(seat);
  await rig.shared(2);
  const begun = new Set<string>();
  const again = rig.runs.filter(({ key, attempt }, n) => {
    const at = `${key} ${attempt}`;
    const seen = begun.has(at);
    begun.add(at);
    return seen && n >= runsBefore;
  });
  rig.bites.add("host-kill", "turns run again", again.length);
};

/** Number of attempts: nothing is refused if a thawed host learns of its loss before its append. */
const FREEZES_MAX = 5;

/** Until a stale append was refused: only that proves that the fault bites. */
const hostFreeze: Fault = async (world, random) => {
  const { rig, providers } = world;
  let refused = 0;
  for (let n = 0; n < FREEZES_MAX && refused === 0; n++) refused += await freeze(world, random);
  rig.bites.add("host-freeze", "refused appends", refused);
  await providers.more(SOME);
};

/** In lease TTLs: as a swapping machine, a paused virtual one. */
const FREEZE_TTLS_MIN = 1.5;
const FREEZE_TTLS_MAX = 10;
const STEPS = 1_000;

/** The host stops itself in a turn; it is thawed when another has written to the agent. */
async function freeze(world: World, random: Random): Promise<number> {
  const { rig, providers } = world;
  const seat = random.pick(rig.hosts);
  // Short ones are as likely as long ones, in proportion: most of what can go wrong goes wrong
  // around the take-over.
  const exponent = random.int(0, STEPS) / STEPS;
  const frozenMs = LEASE_TTL_MS * FREEZE_TTLS_MIN * (FREEZE_TTLS_MAX / FREEZE_TTLS_MIN) ** exponent;
  const file = rig.freezeFile(seat);
  rmSync(`${file}.taken`, { force: true });
  const before = await seat.process.metric("agents_refused_appends_total");
  writeFileSync(file, "");
  await pollUntil("a turn freezes its host", () => existsSync(`${file}.taken`), {
    timeoutMs: BITE_TIMEOUT_MS,
  });
  const thawMs = performance.now() + frozenMs;
  world.hostTroubles++;
  const id = agentId("Ledger", readFileSync(`${file}.agent`, "utf8"));
  const lastSeq = async () => (await rig.inspector.journal.last(id))?.seq ?? 0;
  const seqBefore = await lastSeq();
  await rig.shared(1);
  const asked = providers.order(id.name, "mark");
  await pollUntil(`the new owner writes to ${id.name}`, async () => (await lastSeq()) > seqBefore, {
    timeoutMs: BITE_TIMEOUT_MS,
  });
  await until(thawMs - performance.now());
  seat.process.thaw();
  await asked;
  await rig.shared(2);
  return (await seat.process.metric("agents_refused_appends_total")) - before;
}

const hostStop: Fault = async ({ rig, providers }, random) => {
  const seat = random.pick(rig.hosts);
  const told = await seat.process.stopInTime();
  if (told !== undefined) throw new Error(`${seat.name} did not stop: ${told}`);
  await rig.shared(1);
  rig.bites.add("host-stop", "hand-overs");
  await providers.more(SOME);
  await rig.restart(seat);
  await rig.shared(2);
};

const gatewayKill: Fault = async ({ rig, providers, clients }, random) => {
  const seat = random.pick(rig.gateways);
  const [noneBefore, reconnectsBefore] = [providers.countOf(0), clients.reconnects];
  await seat.process.kill();
  await providers.more(SOME);
  await rig.restart(seat);
  await providers.more(SOME);
  rig.bites.add("gateway-kill", "requests without an answer", providers.countOf(0) - noneBefore);
  rig.bites.add("gateway-kill", "sockets lost", clients.reconnects - reconnectsBefore);
};

const gatewayFreeze: Fault = async ({ rig, providers }, random) => {
  const seat = random.pick(rig.gateways);
  const before = providers.countOf(0);
  seat.process.freeze();
  await pollUntil("a frozen gateway leaves requests unanswered", () => providers.countOf(0) > before, { timeoutMs: BITE_TIMEOUT_MS }); // prettier-ignore
  rig.bites.add("gateway-freeze", "requests without an answer", providers.countOf(0) - before);
  seat.process.thaw();
  await providers.more(SOME);
};

const natsKill: Fault = async ({ rig, providers }, random) => {
  const { servers } = rig.broker;
  const { nats } = random.pick(servers);
  const before = providers.held + providers.countOf(503);
  const reconnectsBefore = accepted(rig.hosts) + accepted(rig.gateways);
  await nats.kill();
  // One of three may be missed; the only one has to be.
  if (servers.length === 3) await providers.more(SOME);
  else
    await pollUntil(
      "webhooks are held or answered 503 without a broker",
      () => providers.held + providers.countOf(503) > before,
      { timeoutMs: BITE_TIMEOUT_MS },
    );
  await nats.restart();
  await rig.broker.healthy();
  await providers.more(SOME);
  rig.bites.add("nats-kill", "503 or held", providers.held + providers.countOf(503) - before);
  rig.bites.add("nats-kill", "reconnects", accepted(rig.hosts) + accepted(rig.gateways) - reconnectsBefore); // prettier-ignore
};

const natsFreeze: Fault = async ({ rig, providers }, random) => {
  const { nats } = random.pick(rig.broker.servers);
  const before = providers.held + providers.countOf(503, 0);
  const forMs = random.int(1_200, 2 * LEASE_TTL_MS);
  nats.freeze();
  await until(forMs);
  nats.thaw();
  await rig.broker.healthy();
  await providers.more(SOME);
  rig.bites.add("nats-freeze", "503 or held", providers.held + providers.countOf(503, 0) - before);
};

const hostCut: Fault = async (world, random) => {
  const { rig, providers } = world;
  const seat = random.pick(rig.hosts);
  const before = seat.link.swallowed;
  seat.link.cut();
  world.hostTroubles++;
  await rig.shared(1);
  rig.bites.add("host-cut", "take-overs");
  await providers.more(SOME);
  seat.link.heal();
  await rig.shared(2);
  rig.bites.add("host-cut", "bytes swallowed", seat.link.swallowed - before);
};

const gatewayCut: Fault = async ({ rig, providers }, random) => {
  const seat = random.pick(rig.gateways);
  const before = providers.held + providers.countOf(503, 0);
  seat.link.cut();
  await pollUntil("a gateway that is cut off answers 503", () => providers.held + providers.countOf(503, 0) > before, { timeoutMs: BITE_TIMEOUT_MS }); // prettier-ignore
  await until(random.int(500, 2 * LEASE_TTL_MS));
  seat.link.heal();
  await providers.more(SOME);
  rig.bites.add("gateway-cut", "503 or held", providers.held + providers.countOf(503, 0) - before);
};

const delay: Fault = async (world, random) => {
  const { rig, providers } = world;
  const seat = random.pick([...rig.hosts, ...rig.gateways]);
  const before = seat.link.delayed;
  seat.link.delay(random.int(DELAY_MS_MIN, DELAY_MS_MAX));
  world.hostTroubles++;
  await providers.more(SOME);
  await pollUntil("pieces come late", () => seat.link.delayed > before);
  seat.link.heal();
  await rig.shared(2);
  rig.bites.add("delay", "pieces late", seat.link.delayed - before);
};

const drop: Fault = async ({ rig, providers }, random) => {
  const seat = random.pick([...rig.hosts, ...rig.gateways]);
  const before = seat.link.accepted;
  seat.link.drop();
  await pollUntil("it connects again", () => seat.link.accepted > before, {
    timeoutMs: BITE_TIMEOUT_MS,
  });
  rig.bites.add("drop", "reconnects", seat.link.accepted - before);
  await providers.more(SOME);
};

/** One host and one gateway jump to the other side of the truth, and back. */
const clock: Fault = async (world, random) => {
  const { rig, providers } = world;
  const [host, gateway] = [random.pick(rig.hosts), random.pick(rig.gateways)];
  const before = rig.runs.length;
  const jumpMs = random.pick([CLOCK_JUMP_MS, -CLOCK_JUMP_MS]);
  rig.shiftClock(host, jumpMs);
  rig.shiftClock(gateway, -jumpMs);
  await providers.more(2 * SOME);
  rig.shiftClock(host, 0);
  rig.shiftClock(gateway, 0);
  await providers.more(SOME);
  const skewed = rig.runs.slice(before).filter(({ atMs }) => Math.abs(atMs - Date.now()) > CLOCK_JUMP_MS / 2); // prettier-ignore
  rig.bites.add("clock", "turns an hour off", skewed.length);
};

export const PROCESS_FAULTS: Readonly<Record<string, Fault>> = {
  "host-kill": hostKill,
  "host-freeze": hostFreeze,
  "host-stop": hostStop,
  "gateway-kill": gatewayKill,
  "gateway-freeze": gatewayFreeze,
  "nats-kill": natsKill,
  "nats-freeze": natsFreeze,
  "host-cut": hostCut,
  "gateway-cut": gatewayCut,
  delay,
  drop,
  clock,
};

const accepted = (seats: ReadonlyArray<Seat>): number =>
  seats.reduce((sum, { link }) => sum + link.accepted, 0);

/** The length of a fault, not a wait for something: drawn from the seed. */
const until = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
