/**
 * Webhooks for hibernated agents, as most entities' are: each activates its agent from its local
 * file, runs a turn, and the agent leaves memory again. Compared with the same webhooks for agents
 * that stay, in the same process.
 */
import { createHmac } from "node:crypto";
import { fileURLToPath } from "node:url";
import { pollUntil } from "../kit/poll.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { runHttp, type HttpRun } from "./rig/HttpLoad.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { SECRET } from "./rig/startOurs.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/rareAgents.ts", import.meta.url));
const CONNECTIONS = [64, 4];
/** As the webhook bench has them. */
const OFTEN = 1_000;
/** This many other webhooks come between two of one agent, which has hibernated by then. */
const SELDOM = 10_000;
/** The share of webhooks for hibernated agents that activate one. */
const WOKEN_MIN = 0.97;
/** A backlog of a slow machine is put to bed in it. */
const ASLEEP_TIMEOUT_MS = 120_000;
const PAD = "x".repeat(180);

interface Measured extends HttpRun {
  readonly name: string;
  readonly connections: number;
  readonly nodeUs: number;
  readonly brokerUs: number;
}

/** Each agent of `count` in turn, with a delivery that never was before. */
function deliveries(port: number, path: string, count: number): () => string {
  let n = 0;
  return () => {
    const number = `${path}-${process.pid}-${(n += 1)}`;
    const body = `{"ref":"refs/heads/main","number":"${number}","repository":{"full_name":"acme/r-${n % count}"},"pad":"${PAD}"}`;
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    return [
      `POST /webhooks/${path} HTTP/1.1`,
      `Host: 127.0.0.1:${port}`,
      "Content-Type: application/json",
      "X-GitHub-Event: push",
      `X-GitHub-Delivery: ${number}`,
      `X-Hub-Signature-256: sha256=${signature}`,
      `Content-Length: ${body.length}`,
      "",
      body,
    ].join("\r\n");
  };
}

export const rare: Bench = {
  name: "rare",
  about: "webhooks that each wake their agent, beside the same for agents in memory",
  run: async (options) => {
    const { rounds, seconds, say, syncAlways, profile } = options;
    const agents = await startAgents({
      module: MODULE, hosts: 0, syncAlways, profile,
      nodeArgs: ["--max-semi-space-size=64"], env: { GITHUB_WEBHOOK_SECRET: SECRET },
    }); // prettier-ignore
    try {
      const { port } = agents;
      const sides = [
        { name: "in memory", next: deliveries(port, "often", OFTEN) },
        { name: "asleep", next: deliveries(port, "seldom", SELDOM) },
        { name: "asleep, no table", next: deliveries(port, "plain", SELDOM) },
      ];
      say("every agent comes to life");
      await first(port, sides[0]!.next, OFTEN);
      // Twice, because only an agent that was activated again has a file without a table.
      for (const side of [...sides.slice(1), ...sides.slice(1)]) {
        await first(port, side.next, SELDOM);
        await asleep(agents);
      }
      const measured: Measured[] = [];
      for (const connections of CONNECTIONS)
        for (let round = 0; round < rounds; round += 1)
          for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
            await asleep(agents);
            measured.push(await measure(agents, side, { connections, seconds }));
            const { perSecond, tookMs } = measured.at(-1)!;
            say(
              `  ${side.name}, ${connections} connections: ${Math.round(perSecond)}/s, p50 ${median(tookMs).toFixed(1)} ms`,
            );
          }
      return {
        title: `signed, 300 B; ${SELDOM} agents asleep of each kind, ${OFTEN} in memory; ${rounds} × ${seconds} s each, medians`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: CONNECTIONS.flatMap((connections) =>
          sides.map(({ name }) => row(measured, name, connections)),
        ),
        raw: measured.map(({ tookMs, ...run }) => ({ ...run, p99Ms: percentile(tookMs, 99) })),
        notes: [
          `Checked: at least ${WOKEN_MIN * 100} % of the webhooks for sleeping agents woke one.`,
        ],
      };
    } finally {
      await agents.stop();
    }
  },
};

/** One webhook to each agent. */
async function first(port: number, next: () => string, count: number): Promise<void> {
  let left = count;
  await runHttp({ port, connections: 64, next: () => (left-- > 0 ? next() : undefined) });
}

/** Waits until those that may sleep do. */
const asleep = (agents: RunningAgents): Promise<unknown> =>
  pollUntil(
    "those that may sleep do",
    async () => {
      const active = await agents.metric("agents_active");
      return active <= OFTEN || { done: false, saw: active };
    },
    { timeoutMs: ASLEEP_TIMEOUT_MS, intervalMs: 100 },
  );

async function measure(
  agents: RunningAgents,
  { name, next }: { readonly name: string; readonly next: () => string },
  load: { readonly connections: number; readonly seconds: number },
): Promise<Measured> {
  const node = agents.nodeSeconds();
  const broker = agents.brokerSeconds();
  const wokenBefore = await agents.metric("agents_activations_total");
  const run = await runHttp({ port: agents.port, next, ...load });
  // A webhook's cost includes hibernating its agent again.
  await asleep(agents);
  const woken = (await agents.metric("agents_activations_total")) - wokenBefore;
  if (name.startsWith("asleep") && woken < run.answered * WOKEN_MIN)
    throw new BenchFailed(`${run.answered} webhooks woke only ${woken} agents`);
  const us = (cpuSeconds: number): number => (cpuSeconds * 1e6) / run.answered;
  return {
    ...run,
    name,
    connections: load.connections,
    nodeUs: us(agents.nodeSeconds() - node),
    brokerUs: us(agents.brokerSeconds() - broker),
  };
}

function row(all: ReadonlyArray<Measured>, name: string, connections: number): BenchRow {
  const of = (side: string, value: (run: Measured) => number): number =>
    median(all.filter((r) => r.name === side && r.connections === connections).map(value));
  const rate = of(name, (run) => run.perSecond);
  return {
    name: `${name}, ${connections} connections`,
    values: {
      "webhooks/s": rate,
      ratio: rate / of("in memory", (run) => run.perSecond),
      "p50 ms": of(name, (run) => median(run.tookMs)),
      "p99 ms": of(name, (run) => percentile(run.tookMs, 99)),
      "node CPU": of(name, (run) => run.nodeUs),
      "nats CPU": of(name, (run) => run.brokerUs),
    },
  };
}
