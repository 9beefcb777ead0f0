/**
 * The cost of a step in a webhook's turn, compared with a plain await; and of `this.fetch`,
 * compared with `fetch` of the same server. Each turn writes its state after its call. Each
 * connection sends the kinds in turn, one request after the other, so that all of them have the
 * same machine.
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
const CONNECTIONS = 4;
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
      await measure(agents.port, WARM_UP_SECONDS);
      const found: Measured[] = [];
      for (let round = 0; round < options.rounds; round += 1) {
        const measured = await measure(agents.port, options.seconds);
        options.say(measured.map(({ how, p50Ms }) => `  ${how}: p50 ${p50Ms.toFixed(2)} ms`).join("\n")); // prettier-ignore
        found.push(...measured);
      }
      return {
        title: `webhooks at ${CONNECTIONS} connections, ${AGENTS} agents each, a state write after the call; ${options.rounds} × ${options.seconds} s each, medians`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: CALLS.map((call) => row(call, found)),
        raw: found,
        notes: [
          "ratio: of the p50, to that of the plain await, or of fetch.",
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

async function measure(port: number, seconds: number): Promise<Measured[]> {
  const lanes = Array.from({ length: CONNECTIONS }, async (_, lane) => {
    let sent = 0;
    const next = (): string => {
      const { how } = CALLS[sent++ % CALLS.length]!;
      const body = JSON.stringify({ agent: `caller-${lane}-${sent % AGENTS}`, how });
      return `POST /webhooks/calls HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    };
    // On one connection answers come in the order of the requests.
    return (await runHttp({ port, connections: 1, next, seconds })).tookMs;
  });
  const all = await Promise.all(lanes);
  return CALLS.map(({ how }, n) => ({
    how,
    p50Ms: median(all.flatMap((tookMs) => tookMs.filter((_, at) => at % CALLS.length === n))),
  }));
}

function row({ how, beside }: Call, all: ReadonlyArray<Measured>): BenchRow {
  const of = (call: string): number =>
    median(all.filter((one) => one.how === call).map(({ p50Ms }) => p50Ms));
  return {
    name: how,
    values: { "p50 ms": of(how), ratio: of(how) / of(beside), "more ms": of(how) - of(beside) },
  };
}
