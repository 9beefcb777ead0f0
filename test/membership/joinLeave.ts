/**
 * Joining and leaving under load: one host becomes four, then two, then three, while webhooks, HTTP
 * calls, RPC over sockets and schedules continue. No caller may notice; shares become fair, and no
 * more shards move than necessary.
 */
import { agentId } from "../../schemas/Address.ts";
import { percentile } from "../bench/rig/statistics.ts";
import { checkEpochs, checkExactlyOnce, historyOf } from "../kit/checkers.ts";
import { Caller, getState, openClient } from "./Callers.ts";
import { Fleet } from "./Fleet.ts";
import type { Part, PartResult, Rule } from "./Part.ts";
import { explain, latencies, Webhooks } from "./Webhooks.ts";

const SHARDS = 64;
const AGENTS = 64;
const PER_SECOND = 40;
const HTTP_CALLERS = 4;
const RPC_CALLERS = 8;
const TICKERS = 8;
/** Pause between a caller's calls: some ten a second each. */
const PACE_MS = 100;
/** What a schedule may be late: the rule of the issue. */
const LATE_MS_MAX = 1_000;
/** Work goes on so long after each change, and for the figures of rest. */
const REST_MS = 3_000;
const SIZES = [4, 2, 3];

interface Step {
  readonly name: string;
  readonly ms: number;
  readonly shares: ReadonlyArray<number>;
  readonly moves: number;
  readonly movesNeeded: number;
  /** For each shard that moved, the time from one owner's release to the next one's claim. */
  readonly unownedMs: ReadonlyArray<number>;
}

export const joinLeave: Part = {
  name: "join-leave",
  about: "1 → 4 → 2 → 3 hosts under load: errors of callers, time until fair, needless moves",
  run: ({ say }) => measureJoinLeave({ sizes: SIZES, restMs: REST_MS, say }),
};

export interface JoinLeaveOptions {
  readonly sizes: ReadonlyArray<number>;
  readonly restMs: number;
  readonly say: (line: string) => void;
}

export async function measureJoinLeave(options: JoinLeaveOptions): Promise<PartResult> {
  const { sizes, restMs, say } = options;
  const fleet = await Fleet.start({ shards: SHARDS, leaseTtlMs: 5_000, gateways: 2 });
  try {
    await fleet.addHost();
    await fleet.fair();
    const names = Array.from({ length: AGENTS }, (_, n) => `agent-${n}`);
    const work = await startWork(fleet, names);
    const steps: Step[] = [];
    await after(restMs);
    for (const size of sizes) {
      steps.push(await resize(fleet, size));
      const { name, ms, shares, moves } = steps.at(-1)!;
      say(`${name}: fair after ${Math.round(ms)} ms, ${shares.join("/")}, ${moves} moves`);
      await after(restMs);
    }
    const { webhooks, http, rpc, lateMs } = await work.stop();
    const wrong: string[] = [];
    for (const name of names) {
      const history = await historyOf(fleet.inspector.journal, agentId("Member", name));
      const own = webhooks.inputs.filter(({ agent }) => agent === name);
      wrong.push(...checkExactlyOnce(own, [history]), ...checkEpochs(history));
    }
    const latest = lateMs.toSorted((a, b) => b - a);
    const uneven = steps.filter(({ shares }) => shares[0]! - shares.at(-1)! > 1);
    return {
      title: `hosts 1 → ${sizes.join(" → ")}, ${SHARDS} shards, ${PER_SECOND} webhooks/s`,
      rows: [
        ...steps.map(({ name, ms, moves, movesNeeded, unownedMs }) => ({
          name,
          values: {
            "fair after ms": ms,
            moves,
            needless: moves - movesNeeded,
            "unowned p50": percentile(unownedMs, 50),
            "unowned most": percentile(unownedMs, 100),
          },
        })),
        row("webhooks", webhooks.sent, webhooks.failed.length),
        row(
          "HTTP calls",
          http.flatMap((c) => c.answered),
          count(http),
        ),
        row(
          "RPC over sockets",
          rpc.flatMap((c) => c.answered),
          count(rpc),
        ),
        row(
          "schedules (late)",
          lateMs.map((ms) => ({ ms })),
          0,
        ),
      ],
      rules: [
        {
          rule: "no webhook fails",
          holds: webhooks.failed.length === 0,
          saw: explain(webhooks.failed),
        },
        noErrors("no HTTP call fails", http),
        noErrors("no RPC over a socket fails", rpc),
        {
          rule: `no schedule is more than ${LATE_MS_MAX} ms late`,
          timed: true,
          holds: (latest[0] ?? 0) <= LATE_MS_MAX,
          saw: `latest ${latest.slice(0, 5).map(Math.round).join(", ")} ms of ${latest.length}`,
        },
        {
          rule: "shares differ by at most one",
          holds: uneven.length === 0,
          saw: steps.map(({ shares }) => shares.join("/")).join(", "),
        },
        {
          rule: "each webhook is done exactly once, epochs never go back",
          holds: wrong.length === 0,
          saw: wrong.slice(0, 5).join("; ") || "all were",
        },
      ],
      raw: { steps, lateMs },
      notes: [
        "needless: changes of owner beyond the fewest that make the shares fair;",
        "unowned: from one owner's release of a shard to the next one's claim, ms.",
      ],
    };
  } finally {
    await fleet.stop();
  }
}

/** Starts or stops hosts, all at once, until there are so many. */
async function resize(fleet: Fleet, size: number): Promise<Step> {
  const before = fleet.hosts.length;
  const watching = new AbortController();
  const changes = await fleet.changes(watching.signal);
  const startMs = performance.now();
  const ends: Array<Promise<unknown>> = [];
  for (const host of fleet.hosts.slice(size)) ends.push(fleet.stopMember(host));
  for (let n = before; n < size; n++) ends.push(fleet.addHost());
  // The start of Node itself is no part of it.
  if (size > before) await Promise.all(ends);
  const joinedMs = size > before ? performance.now() : startMs;
  const { shares } = await fleet.fair();
  const ms = performance.now() - joinedMs;
  await Promise.all(ends);
  watching.abort();
  const moves = changes.filter(({ owner }) => owner !== undefined).length;
  const released = new Map<string, number>();
  const unownedMs: number[] = [];
  for (const { key, owner, atMs } of changes)
    if (owner === undefined) released.set(key, atMs);
    else unownedMs.push(atMs - (released.get(key) ?? atMs));
  const name = `${before} → ${size} hosts`;
  return { name, ms, shares, moves, movesNeeded: needed(before, size), unownedMs };
}

/** Shards that must move when hosts that have fair shares become more or fewer. */
const needed = (before: number, size: number): number =>
  Math.floor((SHARDS * Math.abs(size - before)) / Math.max(size, before));

async function startWork(fleet: Fleet, names: ReadonlyArray<string>) {
  const { url } = fleet;
  const tickers = Array.from({ length: TICKERS }, (_, n) => `ticker-${n}`);
  const starters = tickers.map((name) => openClient(url, name));
  await Promise.all(starters.map((client) => client.call("start")));
  for (const client of starters) client.close();
  const clients = names.slice(0, RPC_CALLERS).map((name) => openClient(url, name));
  await Promise.all(clients.map((client) => client.ready));
  const webhooks = new Webhooks({ url, agents: names, perSecond: PER_SECOND });
  const http = Array.from({ length: HTTP_CALLERS }, (_, n) => {
    let turn = n;
    return new Caller(() => getState(url, names[(turn += HTTP_CALLERS) % AGENTS]!), PACE_MS);
  });
  const rpc = clients.map((client) => new Caller(() => client.call("add"), PACE_MS));
  return {
    stop: async () => {
      await Promise.all([webhooks, ...http, ...rpc].map((load) => load.stop()));
      for (const client of clients) client.close();
      const states = await Promise.all(
        tickers.map((name) => getState<{ readonly late: ReadonlyArray<number> }>(url, name)),
      );
      return { webhooks, http, rpc, lateMs: states.flatMap(({ late }) => late) };
    },
  };
}

const count = (callers: ReadonlyArray<Caller>): number =>
  callers.reduce((sum, { errors }) => sum + errors.length, 0);

function noErrors(rule: string, callers: ReadonlyArray<Caller>): Rule {
  const errors = callers.flatMap((caller) => caller.errors);
  return { rule, holds: errors.length === 0, saw: errors.slice(0, 3).join("; ") || "none" };
}

const row = (name: string, done: ReadonlyArray<{ readonly ms: number }>, failed: number) => ({
  name,
  values: { count: done.length, failed, ...latencies(done) },
});

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
