/**
 * HTTP requests to agents in memory by `routeAgentRequest`: a GET, and a POST of 300 B that is
 * read. Nothing is stored. Compared with an HTTP server of uWebSockets that asks a responder by
 * core NATS, in as many processes.
 */
import { fileURLToPath } from "node:url";
import type { Bench, BenchOptions, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { runHttp, type HttpRun } from "./rig/HttpLoad.ts";
import { measureForms } from "./rig/measureForms.ts";
import { startAgents } from "./rig/startAgents.ts";
import { startEcho, type Echo } from "./rig/startEcho.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/socketAgents.ts", import.meta.url));
/** All in memory; enough that no mailbox is a queue. */
const AGENTS = 100;
/** Enough to keep two cores busy. */
const CONNECTIONS = 32;
/** By then, every agent is active, and V8 has compiled the hot code. */
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
    const { sides, found, server } = await measureForms<Form, Side, Method, Measured>(options, {
      forms: FORMS,
      startFloor: async (form) => ({ name: "echo", form, ...(await startEcho(form)) }),
      startOurs: (form) => startOurs(form, options),
      loads: METHODS,
      warmUpSeconds: WARM_UP_SECONDS,
      run: load,
      tell: ({ method, form, side, perSecond, tookMs }) =>
        `${method}, ${form}, ${side}: ${Math.round(perSecond)}/s, p50 ${percentile(tookMs, 50).toFixed(2)} ms`,
    });
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

async function load(
  { name: side, form, port }: Side,
  method: Method,
  seconds: number,
): Promise<Measured> {
  let n = 0;
  const next = (): string => {
    const head = `${method} /agents/echo/echo-${(n += 1) % AGENTS} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
    return method === "GET"
      ? `${head}\r\n`
      : `${head}Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
  };
  const run = await runHttp({ port, connections: CONNECTIONS, next, seconds });
  return { ...run, side, form, method };
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
