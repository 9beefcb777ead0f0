/** 5,000 webhooks while hosts and nats-server are killed and frozen: nothing lost, none doubled. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agentId, type AgentId } from "../../schemas/Address.ts";
import type { Databases } from "../../core/database/Databases.ts";
import { rebuildAgent, type RebuildSources } from "../../core/journal/rebuildAgent.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import {
  checkApplied, checkAtomic, checkEpochs, checkExactlyOnce, checkOrder, checkSame, historyOf,
  type History, type Picture,
} from "../kit/checkers.ts"; // prettier-ignore
import { pollUntil } from "../kit/poll.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import { Senders, type Delivery } from "./Senders.ts";

const AGENTS = 200;
const DISTINCT = 5_000;
const TWICE = DISTINCT / 10;
/** This many agents get a third of all webhooks, which makes enough events for snapshots. */
const HOT_AGENTS = 10;
const LEASE_TTL_MS = 1_500;
const FREEZES_MAX = 5;

interface Live {
  readonly state: { readonly count: number };
  readonly ids: ReadonlyArray<string>;
}

let installation: Installation;
let senders: Senders;
let hosts: { a: AgentsProcess; b: AgentsProcess };
let refused = 0;
const histories: History[] = [];
const live = new Map<string, Live>();
const figures: Record<string, unknown> = {};

/** Each id once, a tenth of them a second time within the next few hundred. */
function deliveries(): Delivery[] {
  const list: Delivery[] = [];
  for (let n = 0; n < DISTINCT; n++) {
    const agent = n % 3 === 0 ? `agent-${(n / 3) % HOT_AGENTS}` : `agent-${n % AGENTS}`;
    list.push({ agent, id: `delivery-${n}` });
  }
  const every = DISTINCT / TWICE;
  const again = list.filter((_, n) => n % every === every - 1);
  again.forEach((delivery, n) => list.splice((n + 1) * (every + 1) + 50 * (n % 6), 0, delivery));
  return list;
}

async function timed<A>(name: string, run: () => Promise<A>): Promise<A> {
  const startMs = performance.now();
  const result = await run();
  const ms = Math.round(performance.now() - startMs);
  figures[name] = [...((figures[name] as number[] | undefined) ?? []), ms];
  return result;
}

/** A host dies; the other has everything when its lease has run out; it comes back. */
async function killHost(name: "a" | "b"): Promise<void> {
  await hosts[name].kill();
  await timed("take-over after kill, ms", () => installation.shared(1));
  await senders.more(50);
  hosts[name] = await installation.startHost(name);
  await timed("share after join, ms", () => installation.shared(2));
  await senders.more(50);
}

/** The host stops itself in a turn; it is thawed when the other has written to the same agent. */
async function freezeHost(name: "a" | "b"): Promise<number> {
  const file = installation.freezeFile(name);
  const before = await hosts[name].metric("agents_refused_appends_total");
  writeFileSync(file, "");
  await pollUntil("a turn freezes its host", () => existsSync(`${file}.taken`));
  const id = agentId("Ledger", readFileSync(`${file}.agent`, "utf8"));
  const lastSeq = async () => (await installation.ports.journal.last(id))?.seq ?? 0;
  const seqBefore = await lastSeq();
  await timed("take-over after freeze, ms", () => installation.shared(1));
  await pollUntil(`the new owner writes to ${id.name}`, async () => (await lastSeq()) > seqBefore);
  hosts[name].thaw();
  await installation.shared(2);
  return (await hosts[name].metric("agents_refused_appends_total")) - before;
}

async function killNats(): Promise<void> {
  await installation.nats.kill();
  await timed("nats-server back, ms", () => installation.nats.restart());
  await senders.more(200);
}

beforeAll(async () => {
  installation = await Installation.start({ shards: 16, leaseTtlMs: LEASE_TTL_MS });
  const [a, b] = await Promise.all([installation.startHost("a"), installation.startHost("b")]);
  hosts = { a, b };
  await installation.shared(2);
  const list = deliveries();
  const startMs = performance.now();
  senders = new Senders({
    url: installation.gateway.url,
    secret: SECRET,
    deliveries: list,
    concurrency: 32,
    paceMs: 100,
    heldBack: 300,
  });
  await senders.more(200);
  await killHost("a");
  for (let n = 0; n < FREEZES_MAX && refused === 0; n++) refused += await freezeHost("b");
  await killNats();
  await killHost("b");
  refused += await freezeHost("a");
  // Both at once, so that nobody is there for a while.
  await Promise.all([hosts.a.kill(), hosts.b.kill()]);
  hosts.a = await installation.startHost("a");
  await senders.more(50);
  hosts.b = await installation.startHost("b");
  await killNats();
  senders.release();
  await senders.finished;
  await installation.shared(2);
  await pollUntil("the inbox is empty", async () => {
    const depth = await installation.ports.inbox.depth();
    return depth === 0 || { done: false, saw: depth };
  });
  figures["load and faults, ms"] = Math.round(performance.now() - startMs);
  figures["answers by status"] = Object.fromEntries(senders.byStatus);
  figures["refused appends"] = refused;
  for (let n = 0; n < AGENTS; n++) {
    const id = agentId("Ledger", `agent-${n}`);
    const response = await fetch(`${installation.gateway.url}/agents/ledger/${id.name}`);
    live.set(id.name, (await response.json()) as Live);
    histories.push(await historyOf(installation.ports.journal, id));
  }
});

afterAll(async () => {
  await installation?.stop();
  console.info("nothing lost:", figures);
});

const all = (check: (history: History) => ReadonlyArray<string>) => histories.flatMap(check);
const idsOf = ({ id }: History): string[] => live.get(id.name)!.ids.map((it) => `github:${it}`);

describe("after hosts and the broker are killed and a host is frozen in mid-commit", () => {
  test("every accepted webhook is done exactly once, and nothing else is", () => {
    expect(senders.sent).toHaveLength(DISTINCT);
    expect(checkExactlyOnce(senders.sent, histories)).toEqual([]);
  });

  test("each agent's count and rows are exactly its processed webhooks", () => {
    expect(all((history) => checkApplied(history, idsOf(history)))).toEqual([]);
    for (const { state, ids } of live.values()) expect(state.count).toBe(ids.length);
  });

  test("no webhook becomes a dead letter", () => {
    const dead = histories.flatMap(({ events }) =>
      events.flatMap(({ head }) => head.turns.filter((turn) => turn.dead === true)),
    );
    expect(dead).toEqual([]);
  });

  test("the frozen host's stale appends are refused", () => {
    expect(refused).toBeGreaterThan(0);
  });

  test("journals are in order, and every event applies to the previous one", () => {
    expect(all(checkOrder)).toEqual([]);
  });

  test("epochs never decrease, and each epoch has one host", () => {
    expect(all(checkEpochs)).toEqual([]);
  });

  test("after every event the state matches the processed inputs", () => {
    expect(all((history) => checkAtomic(history, { stalls: true }))).toEqual([]);
  });

  test("each agent rebuilt from its journal alone equals snapshots, caches and the host, to the byte", async () => {
    const { journal, snapshots } = installation.ports;
    const memory = await openSqliteDatabases({ folder: undefined });
    // Stopped in order: their caches are clean.
    await Promise.all([hosts.a.stop(), hosts.b.stop()]);
    const caches = await Promise.all(
      ["a", "b"].map((name) => openSqliteDatabases({ folder: installation.imagesOf(name) })),
    );
    const used = { snapshots: 0, caches: 0 };
    const wrong: string[] = [];
    const picture = async (
      way: string,
      id: AgentId,
      databases: Databases["Service"],
      more: Partial<RebuildSources> = {},
    ): Promise<Picture & { readonly ids: string[]; readonly replayed: number }> => {
      const built = await rebuildAgent(id, { journal, databases, ...more });
      const image = built.database.image();
      const rows = built.database.query("SELECT id FROM deliveries ORDER BY n", []).rows;
      built.database.close();
      const ids = rows.map(([it]) => String(it));
      return { way, state: built.state, image, ids, replayed: built.replayed.events };
    };
    for (const { id, events } of histories) {
      const full = await picture("full replay", id, memory.databases);
      const tail = await picture("snapshot and tail", id, memory.databases, { snapshots });
      if (tail.replayed < events.length) used.snapshots++;
      const pictures: Picture[] = [full, tail];
      for (const { databases } of caches) {
        const cached = databases.open(id);
        cached.database.close(cached.cached);
        if (cached.cached === undefined) continue;
        used.caches++;
        pictures.push(await picture("local cache and tail", id, databases));
      }
      const { state, ids } = live.get(id.name)!;
      pictures.push({ way: "the live host", state, image: full.image });
      wrong.push(...checkSame(id, pictures));
      expect(full.ids).toEqual(ids);
    }
    for (const { close } of [memory, ...caches]) close();
    figures["agents with a snapshot, with a cache"] = [used.snapshots, used.caches];
    expect(wrong).toEqual([]);
    expect(used.snapshots).toBeGreaterThan(0);
    expect(used.caches).toBeGreaterThan(0);
  });
});
