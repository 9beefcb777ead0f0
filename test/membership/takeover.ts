/** Take-over: hosts killed with -9 under webhooks, until all agents have answered again. */
import { checkEpochs, checkExactlyOnce, historyOf, type History } from "../kit/checkers.ts";
import { agentId } from "../../schemas/Address.ts";
import { percentile } from "../bench/rig/statistics.ts";
import { Fleet } from "./Fleet.ts";
import type { Part, PartResult, Rule } from "./Part.ts";
import { explain, Webhooks } from "./Webhooks.ts";

const SHARDS = 64;
/** Some two for each shard. */
const AGENTS = 128;
const PER_SECOND = 50;
/** The product's default, and the shortest that a careful operator would choose. */
const TTLS_MS = [5_000, 1_500];
/** What a take-over may take past the TTL: the rule of `docs/evidence/reliability.md`. */
const PAST_TTL_MS_MAX = 1_000;
/** Between two questions to an agent that has not answered: the error of the measurement. */
const ASK_MS = 20;
/** An agent that has not answered by then never will. */
const GIVE_UP_MS = 60_000;

const AGENT_NAMES = Array.from({ length: AGENTS }, (_, n) => `agent-${n}`);

export const takeover: Part = {
  name: "takeover",
  about: "a host is killed under webhooks: time until each of its agents answers again",
  run: async ({ repeats, say }) => {
    const rows: Array<PartResult["rows"][number]> = [];
    const rules: Rule[] = [];
    const raw: Record<string, ReadonlyArray<Kill>> = {};
    for (const ttlMs of TTLS_MS) {
      const { kills, sent } = await measure(ttlMs, repeats, say);
      raw[`ttl ${ttlMs} ms`] = kills;
      const tookMs = kills.map(({ answeredMs }) => answeredMs);
      const worstMs = Math.max(...tookMs);
      rows.push({
        name: `lease TTL ${ttlMs} ms`,
        values: {
          kills: tookMs.length,
          "p50 ms": percentile(tookMs, 50),
          "p99 ms": percentile(tookMs, 99),
          "most ms": worstMs,
          "expired p50": percentile(
            kills.map((kill) => kill.expiredMs),
            50,
          ),
          "claimed p50": percentile(
            kills.map((kill) => kill.claimedMs),
            50,
          ),
          webhooks: sent.webhooks,
          failed: sent.failed,
        },
      });
      rules.push(
        {
          rule: `take-over within the TTL of ${ttlMs} ms and ${PAST_TTL_MS_MAX} ms`,
          timed: true,
          holds: worstMs <= ttlMs + PAST_TTL_MS_MAX,
          saw: `at most ${Math.round(worstMs)} ms`,
        },
        { rule: "no webhook fails while a host is dead", holds: sent.failed === 0, saw: sent.how },
        {
          rule: "each is done exactly once",
          holds: sent.violations.length === 0,
          saw: sent.violations.join("; ") || "all were",
        },
      );
    }
    return {
      title: `kill -9 of one of two hosts, ${AGENTS} agents, ${PER_SECOND} webhooks/s`,
      rows,
      rules,
      raw,
      notes: [
        "From the kill until the last of all agents has answered a GET sent after it;",
        "expired, claimed: until the last of its leases had run out, and had a new owner.",
      ],
    };
  },
};

/** Milliseconds after the kill. */
interface Kill {
  readonly expiredMs: number;
  readonly claimedMs: number;
  readonly answeredMs: number;
}

async function measure(ttlMs: number, repeats: number, say: (line: string) => void) {
  const fleet = await Fleet.start({ shards: SHARDS, leaseTtlMs: ttlMs, gateways: 1 });
  try {
    await fleet.addHost();
    await fleet.addHost();
    await fleet.fair();
    const webhooks = new Webhooks({ url: fleet.url, agents: AGENT_NAMES, perSecond: PER_SECOND });
    const kills: Kill[] = [];
    await allAnswer(fleet.url);
    for (let n = 0; n < repeats; n++) {
      // Leases are renewed at a third of the TTL: the kill meets any moment between two renewals.
      await after((Math.random() * ttlMs) / 3);
      const watching = new AbortController();
      const changes = await fleet.changes(watching.signal);
      const killedMs = performance.now();
      await fleet.killMember(fleet.hosts[0]!);
      await allAnswer(fleet.url);
      const answeredMs = performance.now() - killedMs;
      watching.abort();
      const last = (claimed: boolean): number =>
        Math.max(...changes.filter((c) => (c.owner !== undefined) === claimed).map((c) => c.atMs)) -
        killedMs;
      kills.push({ expiredMs: last(false), claimedMs: last(true), answeredMs });
      say(
        `TTL ${ttlMs} ms, kill ${n + 1}: ${JSON.stringify(kills.at(-1), (_, v: unknown) => (typeof v === "number" ? Math.round(v) : v))}`,
      );
      await fleet.addHost();
      await fleet.fair();
    }
    await webhooks.stop();
    const histories: History[] = [];
    for (const name of AGENT_NAMES)
      histories.push(await historyOf(fleet.inspector.journal, agentId("Member", name)));
    return {
      kills,
      sent: {
        webhooks: webhooks.sent.length,
        failed: webhooks.failed.length,
        how: explain(webhooks.failed),
        violations: [
          ...checkExactlyOnce(webhooks.inputs, histories),
          ...histories.flatMap(checkEpochs),
        ],
      },
    };
  } finally {
    await fleet.stop();
  }
}

/** Resolves when each agent has answered a question that was asked from now on. */
async function allAnswer(url: string): Promise<void> {
  const endMs = performance.now() + GIVE_UP_MS;
  await Promise.all(
    AGENT_NAMES.map(async (name) => {
      for (let saw = "nothing"; ; await after(ASK_MS)) {
        try {
          const signal = AbortSignal.timeout(GIVE_UP_MS);
          const response = await fetch(`${url}/agents/member/${name}`, { signal });
          await response.arrayBuffer();
          if (response.ok) return;
          saw = `status ${response.status}`;
        } catch (error) {
          saw = String(error);
        }
        if (performance.now() > endMs) throw new Error(`${name} does not answer: ${saw}`);
      }
    }),
  );
}

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
