/**
 * A rolling restart of all hosts, then of all gateways, as `deploy/kubernetes` does it: a new one
 * is started and ready, and the balancer has left the old one before its SIGTERM. Clients stay
 * connected and webhooks flow meanwhile.
 */
import { agentId } from "../../schemas/Address.ts";
import { percentile } from "../bench/rig/statistics.ts";
import { checkEpochs, checkExactlyOnce, historyOf } from "../kit/checkers.ts";
import { getState } from "./Callers.ts";
import { Fleet } from "./Fleet.ts";
import type { Part, PartResult } from "./Part.ts";
import { Watchers, type Closed } from "./Watchers.ts";
import { explain, latencies, Webhooks } from "./Webhooks.ts";

const SHARDS = 64;
const AGENTS = 50;
/** The close code of a gateway that stops: going away. */
const CODE_STOPPING = 1001;

export interface RollingOptions {
  readonly clients: number;
  readonly perSecond: number;
  /** Time that the same load took before, without a restart. */
  readonly restMs: number;
  readonly say: (line: string) => void;
}

interface Phase {
  readonly name: string;
  readonly webhooks: Webhooks;
  readonly closed: ReadonlyArray<Closed>;
  /** How long each SIGTERM took to end its process. */
  readonly stopMs: ReadonlyArray<number>;
}

export const rolling: Part = {
  name: "rolling",
  about: "all hosts, then all gateways, are restarted under 200 clients and webhooks",
  run: ({ say }) => measureRolling({ clients: 200, perSecond: 50, restMs: 15_000, say }),
};

export async function measureRolling(options: RollingOptions): Promise<PartResult> {
  const { clients, perSecond, restMs, say } = options;
  const fleet = await Fleet.start({ shards: SHARDS, leaseTtlMs: 5_000, gateways: 2 });
  const names = Array.from({ length: AGENTS }, (_, n) => `agent-${n}`);
  let watchers: Watchers | undefined;
  try {
    await fleet.addHost();
    await fleet.addHost();
    await fleet.fair();
    watchers = await Watchers.open(fleet.url, names, clients);
    const open = watchers;
    const phase = async (name: string, act: () => Promise<number[]>): Promise<Phase> => {
      const closedBefore = open.closed.length;
      const webhooks = new Webhooks({ url: fleet.url, agents: names, perSecond });
      const stopMs = await act();
      await webhooks.stop();
      await open.allBack();
      say(`${name}: ${webhooks.sent.length} webhooks, failed: ${explain(webhooks.failed)}`);
      return {
        name,
        webhooks,
        closed: open.closed.slice(closedBefore),
        stopMs,
      };
    };
    const rest = await phase("no restart", async () => (await after(restMs), []));
    const hosts = await phase("hosts", () => restartHosts(fleet));
    const gateways = await phase("gateways", () => restartGateways(fleet));
    const phases = [rest, hosts, gateways];
    const inputs = phases.flatMap(({ webhooks }) => webhooks.inputs);
    const wrong: string[] = [];
    for (const name of names) {
      const history = await historyOf(fleet.inspector.journal, agentId("Member", name));
      const own = inputs.filter(({ agent }) => agent === name);
      wrong.push(...checkExactlyOnce(own, [history]), ...checkEpochs(history));
    }
    const counts = new Map<string, number>();
    for (const name of names)
      counts.set(name, (await getState<{ readonly count: number }>(fleet.url, name)).count);
    await open.allSee(counts);
    const failed = phases.flatMap(({ webhooks }) => webhooks.failed);
    const rude = gateways.closed.filter(({ code }) => code !== CODE_STOPPING);
    return {
      title: `2 hosts, then 2 gateways, new one first; ${clients} clients, ${perSecond} webhooks/s`,
      rows: [...phases.map(row), ...absences(gateways)],
      rules: [
        {
          rule: "no webhook fails",
          holds: failed.length === 0,
          saw: [explain(failed), ...failed.map((one) => JSON.stringify(one)), fleet.complaints()].join("\n"),
        },
        {
          rule: "a host's restart loses no socket",
          holds: hosts.closed.length === 0,
          saw: `${hosts.closed.length} closed`,
        },
        {
          rule: `a gateway's restart closes each of its sockets once, with ${CODE_STOPPING}`,
          // The first gateway's may go to the second, which is restarted after it.
          holds: rude.length === 0 && gateways.closed.length <= 2 * clients,
          saw: `${gateways.closed.length} closed, ${rude.length} of them otherwise: ${rude.slice(0, 3).map(({ kind, code }) => `${kind} ${code}`).join(", ")}`,
        },
        {
          rule: "each webhook is done exactly once, epochs never go back",
          holds: wrong.length === 0,
          saw: wrong.slice(0, 5).join("; ") || "all were",
        },
        { rule: "every client ends with its agent's last state", holds: true, saw: "all did" },
      ],
      raw: phases.map(({ name, stopMs, closed, webhooks }) => ({ name, stopMs, closed, failed: webhooks.failed })),
      notes: [
        "failed: no 2xx, or a connection that broke. Nothing is tried again.",
      ],
    }; // prettier-ignore
  } finally {
    watchers?.stop();
    await fleet.stop();
  }
}

async function restartHosts(fleet: Fleet): Promise<number[]> {
  const stopMs: number[] = [];
  for (const old of fleet.hosts.slice()) {
    const host = await fleet.addHost();
    await host.ready();
    await fleet.fair();
    stopMs.push(await fleet.stopMember(old));
    await fleet.fair();
  }
  return stopMs;
}

async function restartGateways(fleet: Fleet): Promise<number[]> {
  const stopMs: number[] = [];
  for (const old of fleet.gateways.slice()) {
    await fleet.addGateway();
    stopMs.push(await fleet.stopMember(old));
  }
  return stopMs;
}

const row = ({ name, webhooks, closed, stopMs }: Phase) => ({
  name,
  values: {
    webhooks: webhooks.sent.length,
    failed: webhooks.failed.length,
    ...latencies(webhooks.sent),
    "sockets closed": closed.length,
    "slowest stop": percentile(stopMs, 100),
  },
});

const absences = ({ closed }: Phase) =>
  (["plain", "AgentClient"] as const).map((kind) => ({
    name: `away, ${kind}`,
    values: latencies(
      closed.filter((one) => one.kind === kind).map(({ backMs = NaN }) => ({ ms: backMs })),
    ),
  }));

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
