/**
 * Network faults of a cluster and of deliveries: nats-servers that can't reach each other while
 * clients reach them all, and inputs that arrive twice or after later ones, as by redelivery.
 * Faults of single processes' links are in `faults.ts`.
 */
import { Subjects } from "../../../schemas/Subjects.ts";
import { pollUntil } from "../../kit/poll.ts";
import { Random } from "../../sim/rig/Random.ts";
import type { Fault } from "./faults.ts";
import type { World } from "./readBack.ts";

const SERVERS = 3;
/** Followers wait 4 to 9 s for a silent leader, and an election may fail on a busy machine. */
const ELECTION_TIMEOUT_MS = 40_000;
/** A pair that is cut for less sees nothing of it, for more than this it has elected. */
const PAIR_CUT_MS_MAX = 12_000;
const PAIR_CUT_MS_MIN = 1_000;
/** Enough that each host had some of it. */
const SOME = 40;
/** The share of inputs that come twice or late: many, and some still come as they were sent. */
const UNRULY_SHARE = 0.4;
/** Past the next inputs of the same agent, also of a quiet one. */
const LATE_MS_MAX = 1_500;
const BITE_TIMEOUT_MS = 30_000;

/** The server that leads the journal is cut off from the others: they elect, it stores nothing. */
const routeIsolate: Fault = async (world) => {
  const { rig, providers } = world;
  const { broker } = rig;
  const { leader, other } = await journalLeader(world);
  const before = broker.routes.swallowed;
  const refusedBefore = refused(world);
  world.hostTroubles += rig.hosts.length;
  broker.routes.isolate(leader);
  await pollUntil(
    "the other servers elect a leader for the journal",
    async () => {
      const elected = await broker.leaderOf(JOURNAL, broker.servers[other]!);
      return (elected !== undefined && elected !== leader) || { done: false, saw: elected };
    },
    { timeoutMs: ELECTION_TIMEOUT_MS, intervalMs: 100 },
  );
  rig.bites.add("route-isolate", "leaders elected");
  // Also what is connected to the server that is alone works again, before that hears the others.
  await providers.everywhere();
  broker.routes.heal();
  await broker.healthy();
  await rig.shared(2);
  await providers.more(SOME);
  rig.bites.add("route-isolate", "bytes swallowed", broker.routes.swallowed - before);
  rig.bites.add("route-isolate", "503 or held", refused(world) - refusedBefore);
};

/** Two servers can't reach each other, but the third reaches both. */
const routePair: Fault = async (world, random) => {
  const { rig, providers } = world;
  const { broker } = rig;
  const { leader, other } = await journalLeader(world, random);
  const before = broker.routes.swallowed;
  const refusedBefore = refused(world);
  world.hostTroubles += rig.hosts.length;
  broker.routes.cut(leader, other);
  const forMs = random.int(PAIR_CUT_MS_MIN, PAIR_CUT_MS_MAX);
  await new Promise((resolve) => setTimeout(resolve, forMs)); // the length of a fault
  broker.routes.heal();
  await broker.healthy();
  await rig.shared(2);
  await providers.more(SOME);
  const now = await broker.leaderOf(JOURNAL, broker.servers[other]!);
  rig.bites.add("route-pair", "leaders elected", now === leader ? 0 : 1);
  rig.bites.add("route-pair", "bytes swallowed", broker.routes.swallowed - before);
  rig.bites.add("route-pair", "503 or held", refused(world) - refusedBefore);
};

/** Inputs arrive a second time, up to a second and a half later. */
const duplicate: Fault = async ({ rig, providers }, random) => {
  const { link } = random.pick(rig.hosts);
  const before = link.repeated;
  link.disturb({ ...unruly(random), twiceShare: UNRULY_SHARE });
  await providers.more(2 * SOME);
  await pollUntil("inputs come twice", () => link.repeated > before, { timeoutMs: BITE_TIMEOUT_MS });
  link.heal();
  await providers.more(SOME);
  rig.bites.add("duplicate", "inputs that came again", link.repeated - before);
}; // prettier-ignore

/** Inputs come after others that were sent later. */
const reorder: Fault = async ({ rig, providers }, random) => {
  const { link } = random.pick(rig.hosts);
  const before = link.overtaken;
  link.disturb({ ...unruly(random), lateShare: UNRULY_SHARE });
  await providers.more(2 * SOME);
  await pollUntil("inputs are overtaken", () => link.overtaken > before, { timeoutMs: BITE_TIMEOUT_MS });
  link.heal();
  await providers.more(SOME);
  rig.bites.add("reorder", "inputs overtaken", link.overtaken - before);
}; // prettier-ignore

export const DELIVERY_FAULTS: Readonly<Record<string, Fault>> = { duplicate, reorder };

/** Only where there are three servers. */
export const ROUTE_FAULTS: Readonly<Record<string, Fault>> = {
  "route-isolate": routeIsolate,
  "route-pair": routePair,
};

const JOURNAL = new Subjects().stream.journal;

/** With a stream of its own: how many inputs there are is the machine's. */
const unruly = (random: Random) => ({
  random: new Random(random.int(0, SEED_MAX), "inputs"),
  twiceShare: 0,
  lateShare: 0,
  lateMsMax: LATE_MS_MAX,
});
const SEED_MAX = 2 ** 31;

const refused = ({ providers }: World): number => providers.held + providers.countOf(503, 0);

/** Who leads the journal, and one that does not. */
async function journalLeader({ rig: { broker } }: World, random?: Random) {
  const leader = await pollUntil(
    "the journal has a leader",
    async () => {
      const found = await broker.leaderOf(JOURNAL, broker.servers[0]!);
      return found === undefined ? false : { done: true as const, value: found };
    },
    { timeoutMs: ELECTION_TIMEOUT_MS, intervalMs: 100 },
  );
  return { leader, other: (leader + (random?.int(1, SERVERS - 1) ?? 1)) % SERVERS };
}
