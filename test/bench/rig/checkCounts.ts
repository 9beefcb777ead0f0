/**
 * Checks that the agents counted what was sent and answered, since a fast answer to a webhook that
 * was lost or applied twice is worth nothing.
 *
 * 1. Every answer of the gateway was 200, and as many were counted by all agents together, in state
 *    and in SQL. The gateway counts answers to callers that had hung up too, so this is exact.
 * 2. No agent counted more than can have been sent to it: deliveries go round the agents in order,
 *    so with `answered + connections` at most, each agent's share is known to one.
 */
import { pollUntil } from "../../kit/poll.ts";
import { BenchFailed } from "../Bench.ts";
import { AGENTS, type WrkRun } from "./runWrk.ts";
import type { Subject } from "./Subject.ts";

/** Agents asked at once. */
const ASKED_AT_ONCE = 50;

interface Counted {
  readonly count: number;
  readonly rows: number;
}

export async function checkCounts(subject: Subject, runs: ReadonlyArray<WrkRun>): Promise<void> {
  const seen = runs.reduce((sum, run) => sum + run.answered, 0);
  const counted = await pollUntil<ReadonlyArray<Counted> | Map<number, number>>(
    `${subject.name}: answers and agents agree`,
    async () => {
      const answers = new Map(await subject.answers());
      if ([...answers.keys()].some((status) => status !== 200))
        return { done: true, value: answers };
      const agents = await askAll(subject);
      const total = agents.reduce((sum, { count }) => sum + count, 0);
      const agrees = total === answers.get(200) && total >= seen;
      return agrees
        ? { done: true, value: agents }
        : { done: false, saw: `${total} counted, ${show(answers)} answered, wrk saw ${seen}` };
    },
  );
  if (counted instanceof Map)
    throw new BenchFailed(`${subject.name}: not every answer was 200: ${show(counted)}`);
  counted.forEach(({ count, rows }, agent) => {
    // Rule 2; wrk's first request of a run is the second delivery, its first is only a trial.
    const most = runs.reduce((sum, run) => sum + share(run.answered + run.connections, agent), 0);
    if (count !== rows || count > most)
      throw new BenchFailed(
        `${subject.name}: agent ${agent} counted ${count} and has ${rows} rows; ${most} deliveries at most were for it`,
      );
  });
}

/** How many of the deliveries 1 … `sent` are for the agent. */
const share = (sent: number, agent: number): number =>
  Math.floor((sent - agent) / AGENTS) + (agent === 0 ? 0 : 1);

async function askAll(subject: Subject): Promise<ReadonlyArray<Counted>> {
  const all: Counted[] = [];
  for (let from = 0; from < AGENTS; from += ASKED_AT_ONCE)
    all.push(
      ...(await Promise.all(
        Array.from({ length: ASKED_AT_ONCE }, async (_, i) => {
          const url = `${subject.url}/agents/counting-agent/acme-r-${from + i}`;
          const response = await fetch(url);
          if (response.status !== 200) throw new BenchFailed(`${url}: ${response.status}`);
          return (await response.json()) as Counted;
        }),
      )),
    );
  return all;
}

const show = (answers: ReadonlyMap<number, number>): string =>
  JSON.stringify(Object.fromEntries(answers));
