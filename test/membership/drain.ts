/**
 * SIGTERM with turns in flight: one of two hosts is stopped while many of its agents are within a
 * slow turn, webhook or job. It answers what is in flight, the other host does what waits, and the
 * process ends within its deadline; a turn that is longer than the deadline runs again on the
 * other, and applies once.
 */
import { agentId, shardOf } from "../../schemas/Address.ts";
import { checkEpochs, checkExactlyOnce, historyOf } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import { getState, openClient } from "./Callers.ts";
import { Fleet } from "./Fleet.ts";
import type { Part, PartResult } from "./Part.ts";
import { explain, latencies, Webhooks } from "./Webhooks.ts";

const SHARDS = 16;
/** `DRAIN_TIMEOUT_MS_DEFAULT` of the host. */
const DRAIN_MS = 10_000;
/** For what follows the turns: snapshots, leases, connections, on a busy machine. */
const AFTER_DRAIN_MS = 2_500;
const PER_SECOND = 100;
const JOBS = 6;
const JOB_MS = 500;
/** Long enough for both hosts' work, and for one turn twice. */
const DONE_TIMEOUT_MS = 60_000;

export interface DrainOptions {
  readonly agents: number;
  readonly slowMs: number;
  /** Length of the turn that outlasts the deadline. */
  readonly longMs: number;
}

export const drain: Part = {
  name: "drain",
  about: "SIGTERM with slow turns in flight: answers, queue items, deadline, a turn past it",
  run: () => measureDrain({ agents: 24, slowMs: 2_000, longMs: 14_000 }),
};

export async function measureDrain(options: DrainOptions): Promise<PartResult> {
  const { agents, slowMs, longMs } = options;
  const fleet = await Fleet.start({ shards: SHARDS, leaseTtlMs: 5_000, gateways: 1 });
  try {
    await fleet.addHost();
    const first = await stopWithin(fleet, { agents, jobs: JOBS, slowMs });
    const second = await stopWithin(fleet, { agents: 1, jobs: 0, slowMs: longMs });
    const { names } = first;
    const all = [...names, ...second.names];
    const jobsOf = async (name: string): Promise<ReadonlyArray<number>> =>
      (await getState<{ readonly jobs: ReadonlyArray<number> }>(fleet.url, name)).jobs;
    const inOrder = Array.from({ length: JOBS }, (_, n) => n).join();
    const jobs = await pollUntil(
      "every job ran",
      async () => {
        const saw = await Promise.all(names.map(jobsOf));
        return saw.every((ran) => ran.length >= JOBS)
          ? { done: true as const, value: saw }
          : { done: false as const, saw };
      },
      { timeoutMs: DONE_TIMEOUT_MS },
    );
    const counts = await pollUntil(
      "every webhook is applied",
      async () => {
        const saw = await Promise.all(all.map(async (name) => (await getState<{ readonly count: number }>(fleet.url, name)).count)); // prettier-ignore
        return saw.every((count) => count >= 1)
          ? { done: true as const, value: saw }
          : { done: false as const, saw };
      },
      { timeoutMs: DONE_TIMEOUT_MS },
    );
    const wrong: string[] = [];
    for (const name of all) {
      const history = await historyOf(fleet.inspector.journal, agentId("Member", name));
      const inputs = [...first.webhooks.inputs, ...second.webhooks.inputs];
      const own = inputs.filter(({ agent }) => agent === name);
      // Jobs are done with keys of their own, which no sender knows.
      wrong.push(
        ...checkExactlyOnce(own, [history]).filter((text) => !text.endsWith("never sent")),
      );
      wrong.push(...checkEpochs(history));
    }
    const misordered = jobs.filter((ran) => ran.join() !== inOrder);
    const { webhooks } = first;
    return {
      title: `SIGTERM to a host with ${agents} turns of ${slowMs} ms, then with one of ${longMs} ms`,
      rows: [
        {
          name: `${agents} turns of ${slowMs} ms`,
          values: {
            "stop ms": first.stopMs,
            webhooks: webhooks.sent.length,
            failed: webhooks.failed.length,
            ...latencies(webhooks.sent),
          },
        },
        {
          name: `one turn of ${longMs} ms`,
          values: {
            "stop ms": second.stopMs,
            webhooks: second.webhooks.sent.length,
            failed: second.webhooks.failed.length,
            ...latencies(second.webhooks.sent),
          },
        },
      ],
      rules: [
        {
          rule: "webhooks in flight are answered by their agents",
          holds: webhooks.sent.every(({ status }) => status === 200),
          saw: explain(webhooks.sent.filter(({ status }) => status !== 200)),
        },
        {
          rule: "the process ends when its turns have ended",
          timed: true,
          holds: first.stopMs < slowMs + JOB_MS + AFTER_DRAIN_MS,
          saw: `${Math.round(first.stopMs)} ms`,
        },
        {
          rule: "with a turn past the deadline it ends at the deadline",
          timed: true,
          holds: second.stopMs < DRAIN_MS + AFTER_DRAIN_MS,
          saw: `${Math.round(second.stopMs)} ms`,
        },
        {
          rule: "queue items go on at the next host, each once and in order",
          holds: misordered.length === 0,
          saw: misordered.length === 0 ? `${agents} × ${inOrder}` : JSON.stringify(misordered),
        },
        {
          rule: "every turn is applied once, also the one that began on both hosts",
          holds: wrong.length === 0 && counts.every((count) => count === 1),
          saw: wrong.slice(0, 5).join("; ") || `counts ${[...new Set(counts)].join(", ")}`,
        },
      ],
      raw: { firstMs: first.stopMs, secondMs: second.stopMs },
      notes: [`The host's deadline is ${DRAIN_MS} ms; the route's 9,500 ms, then 202.`],
    };
  } finally {
    await fleet.stop();
  }
}

/**
 * Adds a host, sends each agent one slow webhook, and stops the host that was there before when all
 * are on their way. One agent alone is chosen so that the host that is stopped runs it.
 */
async function stopWithin(
  fleet: Fleet,
  {
    agents,
    jobs,
    slowMs,
  }: { readonly agents: number; readonly jobs: number; readonly slowMs: number },
) {
  const old = fleet.hosts[0]!;
  await fleet.addHost();
  await fleet.fair();
  const owners = await fleet.owners();
  const id = old.lines.find(({ message }) => message === "host started")?.["host"];
  const onOld = (name: string): boolean =>
    owners.get(`shard.${shardOf(agentId("Member", name), fleet.shards)}`) === id;
  const names = Array.from({ length: 20 * agents }, (_, n) => `slow-${slowMs}-${n}`)
    .filter(onOld)
    .slice(0, agents);
  for (const name of jobs > 0 ? names : []) {
    const client = openClient(fleet.url, name);
    await client.call("enqueue", [jobs, JOB_MS]);
    client.close();
  }
  const webhooks = new Webhooks({
    url: fleet.url,
    agents: names,
    perSecond: PER_SECOND,
    input: { slowMs },
    count: names.length,
  });
  await webhooks.allBegun();
  const stopMs = await fleet.stopMember(old);
  await webhooks.stop();
  return { stopMs, webhooks, names };
}
