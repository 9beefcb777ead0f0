/**
 * Damages stored bytes: one flipped bit or a cut tail, in local cache files, in snapshots, in an
 * event. Shortcuts are refused and rebuilt; a damaged event quarantines its agent until it is
 * repaired (I12).
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { addressKey, agentId, type AgentId } from "../../../schemas/Address.ts";
import { Subjects } from "../../../schemas/Subjects.ts";
import { LocalImageCorrupt, type DatabasesShape } from "../../../core/database/Databases.ts";
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { cachePath } from "../../../services/sqlite/cachePath.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { historyOf } from "../../kit/checkers.ts";
import { pollUntil } from "../../kit/poll.ts";
import type { Random } from "../../sim/rig/Random.ts";
import type { Fault } from "./faults.ts";
import { LEDGERS, VICTIM } from "./Providers.ts";
import type { World } from "./readBack.ts";
import type { Rig } from "./Rig.ts";

const BITE_TIMEOUT_MS = 30_000;
/** Enough that each host had some of it. */
const SOME = 40;
const CUT_SHARE = 0.3;
const BITS = 8;

export function damage(bytes: Uint8Array, random: Random): Uint8Array {
  if (random.chance(CUT_SHARE)) return bytes.slice(0, random.int(0, bytes.length - 1));
  const damaged = Uint8Array.from(bytes);
  const at = random.int(0, bytes.length - 1);
  damaged[at] = damaged[at]! ^ (1 << random.int(0, BITS - 1));
  return damaged;
}

const LEDGER_IDS: ReadonlyArray<AgentId> = LEDGERS.map((name) => agentId("Ledger", name));

/** Every cache file of a host that has stopped in order is damaged: none is believed. */
const cacheDamage: Fault = async (world, random) => {
  const { rig, providers } = world;
  const seat = random.pick(rig.hosts);
  const told = await seat.process.stopInTime();
  if (told !== undefined) throw new Error(`${seat.name} did not stop: ${told}`);
  const images = rig.imagesOf(seat);
  const damaged = new Set<string>();
  for (const file of filesIn(images)) {
    const before = readFileSync(file);
    if (before.length === 0) continue;
    writeFileSync(file, damage(before, random));
    damaged.add(file.replace(/\.image$/, ""));
  }
  rig.bites.add("cache-damage", "agents' files damaged", damaged.size);
  await refusedCaches(world, images, damaged);
  await rig.restart(seat);
  await rig.shared(2);
  await providers.more(SOME);
};

/** Reads a copy as the product does: a damaged image is detected, or has the same content. */
async function refusedCaches(
  { rig, violations }: World,
  images: string,
  damaged: ReadonlySet<string>,
): Promise<void> {
  const copy = join(rig.folder, "damaged-images");
  cpSync(images, copy, { recursive: true });
  const [own, memory] = await Promise.all([
    openSqliteDatabases({ folder: copy }),
    openSqliteDatabases({ folder: undefined }),
  ]);
  const { journal } = rig.inspector;
  for (const id of LEDGER_IDS) {
    if (!damaged.has(cachePath(images, id))) continue;
    const { events } = await historyOf(journal, id);
    const toSeq = events.at(-1)?.seq;
    if (toSeq === undefined) continue;
    const full = await imageOf(id, memory.databases, rig, toSeq);
    const opened = own.databases.open(id);
    const cachedSeq = opened.cached?.seq;
    let found: Uint8Array | undefined;
    try {
      // Alone the journal says what its bytes should be at the sequence that it claims.
      found = cachedSeq === undefined ? undefined : opened.database.image();
    } catch (error) {
      if (!(error instanceof LocalImageCorrupt)) throw error;
    }
    opened.database.close();
    if (found === undefined) rig.bites.add("cache-damage", "caches refused");
    else if (cachedSeq === toSeq && Buffer.compare(found, full) !== 0)
      violations.push(`I12: the damaged cache of ${addressKey(id)} was believed`);
  }
  own.close();
  memory.close();
  rmSync(copy, { recursive: true });
}

async function imageOf(
  id: AgentId,
  databases: DatabasesShape,
  { inspector: { journal } }: Rig,
  atSeq: number,
): Promise<Uint8Array> {
  const { database } = await rebuildAgent(id, { journal, databases, atSeq });
  const image = database.image();
  database.close();
  return image;
}

/** The newest snapshot of each agent is damaged: a host without caches must use what is left. */
const snapshotDamage: Fault = async (world, random) => {
  const { rig, providers } = world;
  const { journal, snapshots } = rig.inspector;
  const subjects = new Subjects();
  const memory = await openSqliteDatabases({ folder: undefined });
  const broker = await connect({ servers: rig.broker.url.split(",") });
  // Enough events for a snapshot of the busiest, when they next hibernate.
  await pollUntil(
    "agents have snapshots",
    async () => {
      for (const id of LEDGER_IDS) for await (const _ of snapshots.newestFirst(id)) return true;
      return false;
    },
    { timeoutMs: BITE_TIMEOUT_MS, intervalMs: 200 },
  );
  for (const id of LEDGER_IDS)
    for await (const data of snapshots.newestFirst(id)) {
      await broker.request(subjects.snapshot(id), damage(data, random), { timeout: BITE_TIMEOUT_MS }); // prettier-ignore
      const toSeq = (await historyOf(journal, id)).events.at(-1)!.seq;
      const full = await imageOf(id, memory.databases, rig, toSeq);
      const sources = { journal, databases: memory.databases, snapshots, atSeq: toSeq };
      const { database } = await rebuildAgent(id, sources);
      if (Buffer.compare(database.image(), full) !== 0)
        world.violations.push(`I12: the damaged snapshot of ${addressKey(id)} was believed`);
      database.close();
      rig.bites.add("snapshot-damage", "snapshots refused");
      break;
    }
  await broker.close();
  memory.close();
  const seat = random.pick(rig.hosts);
  await seat.process.kill();
  world.hostTroubles++;
  rmSync(rig.imagesOf(seat), { recursive: true, force: true });
  await rig.restart(seat);
  await rig.shared(2);
  await providers.more(SOME);
};

/** An agent's journal ends in a damaged event: quarantined, its inputs wait for the repair. */
const eventDamage: Fault = async (world, random) => {
  const { rig, providers, violations } = world;
  const id = agentId("Ledger", VICTIM);
  const url = `http://127.0.0.1:${rig.gateways[0]!.port}/agents/ledger/${VICTIM}`;
  const { journal } = rig.inspector;
  await providers.order(VICTIM, "mark");
  const last = await pollUntil("the victim has a journal", () => journal.last(id));
  const broker = await connect({ servers: rig.broker.url.split(",") });
  const subject = new Subjects();
  const bytes = await eventAt(rig, id, last.seq);
  const ack = (
    await broker.request(subject.journal(id), damage(bytes, random), { timeout: BITE_TIMEOUT_MS })
  ).json<{ readonly seq: number }>();
  const refusal = async (): Promise<string | false> => {
    const response = await fetch(url, { signal: AbortSignal.timeout(BITE_TIMEOUT_MS) });
    const text = await response.text();
    return !response.ok && `${response.status} ${text}`;
  };
  const asked = providers.order(VICTIM, "mark");
  await pollUntil("the victim is quarantined", refusal, {
    timeoutMs: BITE_TIMEOUT_MS,
    intervalMs: 100,
  });
  const metric = "agents_quarantines_total";
  const quarantines = await Promise.all(rig.hosts.map(({ process }) => process.metric(metric)));
  rig.bites.add(
    "event-damage",
    "quarantines",
    quarantines.reduce((sum, n) => sum + n, 0),
  );
  const memory = await openSqliteDatabases({ folder: undefined });
  const read = await rebuildAgent(id, { journal, databases: memory.databases }).then(
    ({ database }) => (database.close(), "read"),
    (error: unknown) => (error as { _tag?: string })._tag,
  );
  if (read === "read") violations.push("I12: a damaged event was passed over");
  else rig.bites.add("event-damage", `reads refused (${read})`);
  memory.close();
  for (const status of await asked)
    if (status === 200) violations.push("I12: a quarantined agent accepted a webhook");
  await providers.more(SOME);
  // An operator takes the damaged event out and starts the hosts anew.
  await broker.request(
    `$JS.API.STREAM.MSG.DELETE.${subject.stream.journal}`,
    JSON.stringify({ seq: ack.seq }),
    { timeout: BITE_TIMEOUT_MS },
  );
  await broker.close();
  for (const seat of rig.hosts) {
    await seat.process.kill();
    world.hostTroubles++;
    await rig.restart(seat);
    await rig.shared(2);
  }
  await pollUntil("the victim is back", async () => (await refusal()) === false, {
    timeoutMs: BITE_TIMEOUT_MS,
    intervalMs: 100,
  });
  rig.bites.add("event-damage", "agents repaired");
};

async function eventAt({ inspector }: Rig, id: AgentId, seq: number): Promise<Uint8Array> {
  const range = { fromSeq: seq as never };
  for await (const { data } of inspector.journal.read(id, range)) return data;
  throw new Error(`${addressKey(id)} has no event ${seq}`);
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:pages|meta)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));

export const DAMAGE_FAULTS: Readonly<Record<string, Fault>> = {
  "cache-damage": cacheDamage,
  "snapshot-damage": snapshotDamage,
  "event-damage": eventDamage,
};
