/**
 * Fair shares within one shard: a host with one shard, twenty agents at a steady rate each, alone,
 * together with one hot agent with ten times the rate of one, and together with one whose inputs
 * are all poison. Compares the latency of their neighbours' webhooks.
 */
import { Fleet } from "./Fleet.ts";
import type { Part, PartResult } from "./Part.ts";
import { latencies, Webhooks, explain, type WebhooksOptions } from "./Webhooks.ts";

const NEIGHBOURS = 20;
const PER_SECOND_EACH = 2;
const HOT_FACTOR = 10;
/** I8 of `docs/evidence/reliability.md`, for poison: how much the others' p99 may move. */
const P99_MOVES_MAX = 0.1;
const ROUNDS = 3;

type Beside = "alone" | "hot" | "poison";

export const hot: Part = {
  name: "hot",
  about: "neighbours in one shard of a hot agent and of a poisoned one: their latencies",
  run: ({ say }) => measureHot({ seconds: 10, rounds: ROUNDS, say }),
};

export interface HotOptions {
  readonly seconds: number;
  readonly rounds: number;
  readonly say: (line: string) => void;
}

export async function measureHot({ seconds, rounds, say }: HotOptions): Promise<PartResult> {
  const fleet = await Fleet.start({ shards: 1, leaseTtlMs: 5_000, gateways: 1 });
  try {
    await fleet.addHost();
    await fleet.fair();
    const found = new Map<Beside, Array<{ readonly ms: number }>>();
    const failed: Webhooks["failed"][number][] = [];
    const names = Array.from({ length: NEIGHBOURS }, (_, n) => `neighbour-${n}`);
    const steady: WebhooksOptions = {
      url: fleet.url,
      agents: names,
      perSecond: NEIGHBOURS * PER_SECOND_EACH,
    };
    const others: Readonly<Record<Beside, Partial<WebhooksOptions> | undefined>> = {
      alone: undefined,
      hot: { agents: ["hot"] },
      poison: { agents: ["poison"], input: { fail: true } },
    };
    // Interleaved, so that the load of the machine falls on all alike; the first warms up.
    for (let round = 0; round <= rounds; round++)
      for (const beside of ["alone", "hot", "poison"] as const) {
        const webhooks = new Webhooks(steady);
        const other = others[beside];
        const load = other && new Webhooks({ ...steady, perSecond: PER_SECOND_EACH * HOT_FACTOR, ...other }); // prettier-ignore
        await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
        // A poisoned one is answered after its last attempt: it is not waited for.
        await webhooks.stop();
        void load?.stop();
        failed.push(...webhooks.failed);
        if (round === 0) continue;
        found.set(beside, [...(found.get(beside) ?? []), ...webhooks.sent]);
        say(`${beside}: p99 ${Math.round(latencies(webhooks.sent)["p99 ms"])} ms`);
      }
    const p99 = (beside: Beside): number => latencies(found.get(beside)!)["p99 ms"];
    const change = (beside: Beside): number => p99(beside) / p99("alone") - 1;
    return {
      title: `${NEIGHBOURS} neighbours at ${PER_SECOND_EACH}/s each in one shard, beside one at ${HOT_FACTOR} × that`,
      rows: [...found].map(([beside, sent]) => ({
        name: `neighbours, ${beside === "alone" ? "alone" : `beside a ${beside} agent`}`,
        values: {
          webhooks: sent.length,
          ...latencies(sent),
          "p99 change %": change(beside) * 100,
        },
      })),
      rules: [
        { rule: "no neighbour's webhook fails", holds: failed.length === 0, saw: explain(failed) },
        {
          rule: `beside poison the neighbours' p99 moves by less than ${P99_MOVES_MAX * 100} % (I8)`,
          holds: change("poison") < P99_MOVES_MAX,
          saw: `${Math.round(change("poison") * 100)} %; beside a hot agent ${Math.round(change("hot") * 100)} %, for which there is no rule`,
        },
      ],
      raw: [...found],
      notes: [`${rounds} interleaved rounds of ${seconds} s each; on a loaded machine p99 moves by more between rounds.`],
    }; // prettier-ignore
  } finally {
    await fleet.stop();
  }
}
