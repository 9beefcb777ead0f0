/**
 * HTTP requests to agents in memory by `routeAgentRequest`: a GET, and a POST of 300 B that is read. Nothing is stored. Beside
 * an HTTP server of uWebSockets that asks a responder by core NATS, in as many processes.
 */
import { fileURLToPath } from "node:url";
import type { Bench, BenchOptions, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./BenchHost.ts";
import { runHttp, type HttpRun } from "./HttpLoad.ts";
import { startAgents } from "./startAgents.ts";
import { startEcho, type Echo } from "./startEcho.ts";
import { median, percentile } from "./statistics.ts";

const MODULE = fileURLToPath(new URL("./socketAgents.ts", import.meta.url));
/** All in memory; enough that no mailbox is a queue. */
const AGENTS = 100;
/** As many as keep two cores busy. */
const CONNECTIONS = 32;
/** Every agent has come to life by then, and V8 has compiled what is hot. */
const WARM_UP_SECONDS = 2;
const BODY = JSON.stringify({ text: "x".repeat(289) });
const FORMS = ["one process", "two processes"] as const;
const METHODS = ["GET", "POST"] as const;
type Form = (typeof FORMS)[number];
type Method = (typeof METHODS)[number];

interface Side extends Echo {
  readonly name: "echo" | "ours";
  readonly form: Form;
}

interface Measured extends HttpRun {
  readonly side: Side["name"];
  readonly form: Form;
  readonly method: Method;
}

export const requests: Bench = {
  name: "requests",
  about:
    'HTTP requests to agents, beside uWebSockets and core NATS (--form "one process", "two processes")',
  run: async (options) => {
    const sides: Side[] = [];
    const found: Measured[] = [];
    let server = "";
    try {
      for (const form of FORMS) {
        if (options.forms.length > 0 && !options.forms.includes(form)) continue;
        options.say(`starting: ${form}`);
        sides.push({ name: "echo", form, ...(await startEcho(form)) });
        const ours = await startOurs(form, options);
        sides.push(ours.side);
        server = ours.server;
      }
      for (const method of METHODS) {
        for (const side of sides) await load(side, method, WARM_UP_SECONDS);
        for (let round = 0; round < options.rounds; round += 1)
          for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
            const run = await load(side, method, options.seconds);
            options.say(
              `  ${method}, ${side.form}, ${side.name}: ${Math.round(run.perSecond)}/s, p50 ${percentile(run.tookMs, 50).toFixed(2)} ms`,
            );
            found.push({ ...run, side: side.name, form: side.form, method });
          }
      }
    } finally {
      for (const side of sides) await side.stop();
    }
    return {
      title: `${AGENTS} agents, ${CONNECTIONS} connections; ${options.rounds} × ${options.seconds} s each, medians`,
      server,
      durability: durabilityOf(options),
      rows: METHODS.flatMap((method) => sides.map((side) => row(side, method, found))),
      raw: found.map(({ side, form, method, perSecond }) => ({ side, form, method, perSecond })),
      notes: [
        "ratio: of requests/s, to the echo in as many processes. The load is a Node process on the same cores.",
      ],
    };
  },
};

function load({ port }: Side, method: Method, seconds: number): Promise<HttpRun> {
  let n = 0;
  const next = (): string => {
    const head = `${method} /agents/echo/echo-${(n += 1) % AGENTS} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
    return method === "GET"
      ? `${head}\r\n`
      : `${head}Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
  };
  return runHttp({ port, connections: CONNECTIONS, next, seconds });
}

async function startOurs(
  form: Form,
  { syncAlways, profile }: BenchOptions,
): Promise<{ readonly side: Side; readonly server: string }> {
  const hosts = form === "one process" ? 0 : 1;
  const { port, stop, serverVersion } = await startAgents({
    module: MODULE,
    hosts,
    syncAlways,
    profile,
  });
  return { side: { name: "ours", form, port, stop }, server: serverVersion };
}

function row({ name, form }: Side, method: Method, all: ReadonlyArray<Measured>): BenchRow {
  const of = (side: Side["name"], value: (run: HttpRun) => number): number =>
    median(
      all
        .filter((run) => run.side === side && run.form === form && run.method === method)
        .map(value),
    );
  const rate = of(name, ({ perSecond }) => perSecond);
  return {
    name: `${method}, ${form}, ${name}`,
    values: {
      "requests/s": rate,
      ratio: rate / of("echo", ({ perSecond }) => perSecond),
      "p50 ms": of(name, ({ tookMs }) => percentile(tookMs, 50)),
      "p99 ms": of(name, ({ tookMs }) => percentile(tookMs, 99)),
    },
  };
}
