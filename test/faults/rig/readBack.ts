/** The last phase of a run: all is mended, waits end, and the product's readers read all. */
import { agentId, type AgentId } from "../../../schemas/Address.ts";
import type { DatabasesShape } from "../../../core/database/Databases.ts";
import { rebuildAgent, type RebuildSources } from "../../../core/journal/rebuildAgent.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { historyOf, type History, type Picture } from "../../kit/checkers.ts";
import { pollUntil } from "../../kit/poll.ts";
import type { LedgerAtRest, RigHistory } from "./checks.ts";
import { BOARDS, type Clients } from "./Clients.ts";
import { LEDGERS, VICTIM, type Providers } from "./Providers.ts";
import type { Received } from "./Receiver.ts";
import type { Rig } from "./Rig.ts";

/** Work that waited for faults to heal is done by then, even on two busy cores. */
const REST_TIMEOUT_MS = 60_000;
/** Schedules that a shifted clock has set for later than this are not waited for. */
const HORIZON_MS = 60_000;

type Live = Omit<LedgerAtRest, "history"> & { readonly name: string };

export interface World {
  readonly rig: Rig;
  readonly providers: Providers;
  readonly clients: Clients;
  readonly received: ReadonlyArray<Received>;
  hostTroubles: number;
  /** Findings of the faults themselves. */
  readonly violations: string[];
}

export async function readBack(world: World): Promise<RigHistory> {
  const { rig, providers, clients, received } = world;
  await rig.heal();
  await Promise.all([providers.finish(), clients.finish()]);
  await pollUntil(
    "the inbox is empty",
    async () => {
      const depth = await rig.inspector.inbox.depth();
      return depth === 0 || { done: false, saw: [depth, rig.told()] };
    },
    { timeoutMs: REST_TIMEOUT_MS, intervalMs: 100 },
  );
  const lives = await atRest(world);
  await clients.settled(REST_TIMEOUT_MS);
  clients.end();
  const stopped = await Promise.all(rig.hosts.map(({ process }) => process.stopInTime()));
  for (const told of stopped) if (told !== undefined) throw new Error(`a host did not stop: ${told}`);

  const { journal } = rig.inspector;
  const ledgers: LedgerAtRest[] = [];
  for (const live of lives)
    ledgers.push({ ...live, history: await historyOf(journal, agentId("Ledger", live.name)) });
  const boards: History[] = [];
  for (const name of BOARDS) boards.push(await historyOf(journal, agentId("Board", name)));
  const pictures = await picturesOf(rig, [
    ...ledgers.map(({ history, state }) => ({ history, state })),
    ...boards.map((history) => ({ history, state: undefined })),
  ]);
  return {
    orders: [...providers.orders.values()],
    ledgers,
    boards,
    pictures,
    notes: [...clients.notes.values()],
    clients: clients.all.map(({ board, seen }) => ({ board, seen })),
    runs: rig.runs,
    received,
    hostTroubles: world.hostTroubles,
    readMs: Date.now(),
  };
} // prettier-ignore

/** What ledgers report when their queues are empty and no schedule is due soon. */
async function atRest({ rig, providers, received }: World): Promise<Live[]> {
  const url = `http://127.0.0.1:${rig.gateways[0]!.port}`;
  const sends = new Set(
    [...providers.orders.values()].filter(({ order }) => order.do === "send").map(({ order }) => order.id),
  ); // prettier-ignore
  const jobs = new Set(
    [...providers.orders.values()].filter(({ order }) => order.do === "queue").map(({ order }) => order.id),
  ); // prettier-ignore
  return pollUntil(
    "queues and schedules have run, and what is to be sent is sent",
    async () => {
      const lives: Live[] = [];
      const waiting: string[] = [];
      for (const name of [...LEDGERS, VICTIM]) {
        const response = await fetch(`${url}/agents/ledger/${name}`);
        if (!response.ok) throw new Error(`${name} answers ${response.status}: ${await response.text()}`);
        const live = (await response.json()) as Omit<Live, "name">;
        lives.push({ ...live, name });
        const keys = new Set(live.keys);
        for (const key of keys) {
          const id = key.slice("github:".length);
          if (!key.startsWith("github:")) continue;
          if (jobs.has(id) && !keys.has(`job:${id}`)) waiting.push(`${name} job:${id}`);
          if (sends.has(id) && !received.some((it) => it.id === id)) waiting.push(`${name} sends ${id}`);
        }
        const soon = live.dueMs.filter((due) => due < Date.now() + HORIZON_MS);
        if (soon.length > 0) waiting.push(`${name} has ${soon.length} schedules, due at ${soon.join()}`);
      }
      return waiting.length === 0 ? { done: true, value: lives } : { done: false, saw: waiting };
    },
    { timeoutMs: REST_TIMEOUT_MS, intervalMs: 200 },
  );
} // prettier-ignore

/** The result of every way to rebuild each agent, and what its last host reported. */
async function picturesOf(
  rig: Rig,
  agents: ReadonlyArray<{ readonly history: History; readonly state: unknown }>,
): Promise<RigHistory["pictures"]> {
  const { journal, snapshots } = rig.inspector;
  const memory = await openSqliteDatabases({ folder: undefined });
  const caches = await Promise.all(
    rig.hosts.map((seat) => openSqliteDatabases({ folder: rig.imagesOf(seat) })),
  );
  const picture = async (
    way: string,
    id: AgentId,
    databases: DatabasesShape,
    more: Partial<RebuildSources> = {},
  ): Promise<Picture> => {
    const built = await rebuildAgent(id, { journal, databases, ...more });
    const found = { way, state: built.state, image: built.database.image() };
    built.database.close();
    return found;
  };
  const all: Array<RigHistory["pictures"][number]> = [];
  for (const { history, state } of agents) {
    const { id } = history;
    const full = await picture("full replay", id, memory.databases);
    const found = [full, await picture("snapshot and tail", id, memory.databases, { snapshots })];
    for (const { databases } of caches)
      found.push(await picture("local cache and tail", id, databases));
    // One that got no order shows the state that its class begins with, which nothing has stored.
    if (state !== undefined && history.events.length > 0)
      found.push({ way: "the live host", state, image: full.image });
    all.push({ history, pictures: found });
  }
  for (const { close } of [memory, ...caches]) close();
  return all;
}
