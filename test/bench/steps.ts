/**
 * What a step costs a webhook's turn, beside a plain await; and what `this.fetch` costs, beside
 * `fetch` of the same server. Each turn writes its state after its call. One load at a time:
 * interleaved by round.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { Bench, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { runHttp } from "./rig/HttpLoad.ts";
import { startAgents } from "./rig/startAgents.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/stepAgents.ts", import.meta.url));
const AGENTS = 100;
const CONNECTIONS = 16;
const WARM_UP_SECONDS = 2;
const ANSWER = "y".repeat(100);

/** How a turn calls, and what that is compared with. */
const CALLS = [
  { how: "await", beside: "await" },
  { how: "step", beside: "await" },
  { how: "three steps", beside: "await" },
  { how: "fetch", beside: "fetch" },
  { how: "this.fetch", beside: "fetch" },
  { how: "this.fetch, recorded", beside: "fetch" },
] as const;
type Call = (typeof CALLS)[number];

interface Measured {
  readonly how: string;
  readonly perSecond: number;
  readonly p50Ms: number;
}

export const steps: Bench = {
  name: "steps",
  about: "webhooks whose turn calls in a step, or by this.fetch, beside a plain await and fetch",
  run: async (options) => {
    const world = createServer((request, response) => {
      request.resume();
      request.once("end", () => response.end(ANSWER));
    });
    await new Promise<void>((resolve) => world.listen(0, "127.0.0.1", resolve));
    const WORLD = `http://127.0.0.1:${(world.address() as AddressInfo).port}/call`;
    const { syncAlways, profile } = options;
    const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile, env: { WORLD } }); // prettier-ignore
    try {
      for (const { how } of CALLS) await measure(agents.port, how, WARM_UP_SECONDS);
      const found: Measured[] = [];
      for (let round = 0; round < options.rounds; round += 1)
        for (const { how } of round % 2 === 0 ? CALLS : CALLS.toReversed()) {
          const measured = await measure(agents.port, how, options.seconds);
          options.say(`  ${how}: ${Math.round(measured.perSecond)}/s, p50 ${measured.p50Ms.toFixed(2)} ms`); // prettier-ignore
          found.push(measured);
        }
      return {
        title: `webhooks of ${AGENTS} agents at ${CONNECTIONS} connections, a state write each; ${options.rounds} × ${options.seconds} s each, medians`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: CALLS.map((call) => row(call, found)),
        raw: found,
        notes: [
          "ratio: of webhooks/s, to the plain await, or to fetch.",
          "The sender, the broker and the server that is called share the cores with what is measured.",
        ],
      };
    } finally {
      await agents.stop();
      world.closeAllConnections();
      world.close();
    }
  },
};

async function measure(port: number, how: string, seconds: number): Promise<Measured> {
  let sent = 0;
  const next = (): string => {
    const body = JSON.stringify({ agent: `caller-${sent++ % AGENTS}`, how });
    return `POST /webhooks/calls HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  };
  const run = await runHttp({ port, connections: CONNECTIONS, next, seconds });
  return { how, perSecond: run.perSecond, p50Ms: median(run.tookMs) };
}

function row({ how, beside }: Call, all: ReadonlyArray<Measured>): BenchRow {
  const of = (call: string, value: (one: Measured) => number): number =>
    median(all.filter((one) => one.how === call).map(value));
  const rate = of(how, ({ perSecond }) => perSecond);
  const p50 = of(how, ({ p50Ms }) => p50Ms);
  return {
    name: how,
    values: {
      "webhooks/s": rate,
      ratio: rate / of(beside, ({ perSecond }) => perSecond),
      "p50 ms": p50,
      "p50 more ms": p50 - of(beside, ({ p50Ms }) => p50Ms),
    },
  };
}
