/**
 * One agent is flooded, in eight ways: what unrelated neighbours wait for their answers meanwhile,
 * compared with what they wait in the same minutes without a flood. A bounded flood leaves the
 * process most of its time. An unbounded one goes on as fast as it is answered.
 */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import type { FloodPlan } from "./agents/floodAgents.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { startFlood, type FloodOptions } from "./rig/FloodSender.ts";
import { SocketLoad } from "./rig/SocketLoad.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/floodAgents.ts", import.meta.url));
const NEIGHBOURS = 40;
const PROBE_EVERY_MS = 5;
/** Quiet and flooded in turn, so that both are measured on the same machine. */
const WINDOW_MS = 1_000;
/** A flood is at its full size by then. */
const RISE_MS = 200;
const CONNECTIONS = 64;
const LISTENERS = 20;
/** The frames that a new socket of an agent without a state is sent. */
const READY_FRAMES = 2;

/** `perSecond`: the bounded rate, about a quarter of what one thread can do. */
const KINDS = {
  http: { perSecond: 500 },
  rpc: { perSecond: 500 },
  stub: { perSecond: 500 },
  read: { perSecond: 500 },
  new: { perSecond: 50 },
  queue: { perSecond: 500 },
  schedule: { perSecond: 200 },
  broadcast: { perSecond: 200 },
} as const;
type Kind = keyof typeof KINDS;
const FORMS = ["bounded", "unbounded"] as const;
type Form = (typeof FORMS)[number];

interface Measured {
  readonly kind: Kind;
  readonly form: Form;
  readonly quietMs: number[];
  readonly floodMs: number[];
  /** What the flood did, a second. */
  done: number;
  seconds: number;
}

/** Begins a flood of `ms`; resolves, when that has ended, to how often it was answered. */
type StartFlood = (ms: number) => Promise<number>;

export const flood: Bench = {
  name: "flood",
  about: 'one flooded agent: what its neighbours wait (--form http, --form "rpc unbounded", …)',
  run: async (options) => {
    const { forms, syncAlways, profile, rounds, seconds, say } = options;
    const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
    const listeners = new SocketLoad();
    try {
      await listeners.open({
        port: agents.port,
        paths: ["/agents/flooder/broadcast"],
        socketsEach: LISTENERS,
        readyFrames: READY_FRAMES,
      });
      const found: Measured[] = (Object.keys(KINDS) as Kind[])
        .flatMap((kind) => FORMS.map((form) => ({ kind, form })))
        .filter(({ kind, form }) =>
          forms.length === 0 ? true : forms.includes(kind) || forms.includes(`${kind} ${form}`),
        )
        .map((one) => ({ ...one, quietMs: [], floodMs: [], done: 0, seconds: 0 }));
      // Activates all agents, and lets V8 compile the measured code.
      for (const one of found) await measure(agents, { ...one, quietMs: [], floodMs: [] });
      for (let round = 0; round < rounds * seconds; round += 1)
        for (const one of round % 2 === 0 ? found : found.toReversed()) {
          await measure(agents, one);
          const { name, values } = row(one);
          if ((round + 1) % seconds === 0)
            say(`  ${name}: ${values["quiet p99 ms"]?.toFixed(1)} ${values["flood p99 ms"]?.toFixed(1)}`); // prettier-ignore
        }
      return {
        title: `${rounds} × ${seconds} × ${WINDOW_MS / 1000} s each; ${NEIGHBOURS} neighbours, a state write each ${PROBE_EVERY_MS} ms`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: found.map(row),
        raw: [],
        notes: ["The sender and the broker share the cores with what is measured."],
      };
    } finally {
      await listeners.stop();
      await agents.stop();
    }
  },
};

/** A quiet window and a flooded one. */
async function measure(agents: RunningAgents, into: Measured): Promise<void> {
  into.quietMs.push(...(await probe(agents, WINDOW_MS)));
  const start = floodOf(agents, into);
  const flooding = start(RISE_MS + WINDOW_MS);
  await sleep(RISE_MS);
  into.floodMs.push(...(await probe(agents, WINDOW_MS)));
  into.done += await flooding;
  into.seconds += (RISE_MS + WINDOW_MS) / 1000;
}

function floodOf(
  agents: RunningAgents,
  { kind, form }: Pick<Measured, "kind" | "form">,
): StartFlood {
  const { port } = agents;
  const perSecond = form === "bounded" ? KINDS[kind].perSecond : 0;
  if (kind === "http")
    return fromOutside({ port, perSecond, request: httpRequest(port, pathOf("flooded")) });
  if (kind === "rpc") return fromOutside({ port, perSecond, request: RPC, handshake: HANDSHAKE });
  return async (ms) => {
    const plan: FloodPlan = { kind, perSecond, ms, round: Date.now() };
    const url = `${agents.url}/agents/flooder/${kind}`;
    const response = await fetch(url, { method: "POST", body: JSON.stringify(plan) });
    const text = await response.text();
    if (!response.ok) throw new BenchFailed(`the flooder was answered ${response.status}: ${text}`);
    return Number(text);
  };
}

interface OutsideFlood extends Pick<FloodOptions, "port" | "handshake"> {
  readonly perSecond: number;
  readonly request: Uint8Array;
}

const fromOutside =
  ({ perSecond, request, ...to }: OutsideFlood): StartFlood =>
  async (ms) => {
    const requestsPerSecond = perSecond === 0 ? Infinity : perSecond;
    const stop = await startFlood({
      ...to, connections: CONNECTIONS, requestsPerSecond, requests: [request],
    }); // prettier-ignore
    await sleep(ms);
    const answers = await stop();
    const other = Object.keys(answers).find(
      (status) => !["0", "101", "200", "429"].includes(status),
    );
    if (other !== undefined) throw new BenchFailed(`the flood was answered ${other}`);
    return (answers["101"] ?? 0) + (answers["200"] ?? 0);
  };

const pathOf = (name: string): string => `/agents/counter/${name}`;

const httpRequest = (port: number, path: string): Uint8Array =>
  Buffer.from(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: 0\r\n\r\n`);

const HANDSHAKE =
  "GET /agents/called/flooded HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n" +
  `sec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\nsec-websocket-version: 13\r\n\r\n`;

const RPC = maskedText(JSON.stringify({ type: "rpc", id: "1", method: "add", args: [] }));

/** Masked with zeros, as a client's frames must be. */
function maskedText(text: string): Uint8Array {
  return Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]);
}

/** How long each neighbour in turn waited for its answer. */
async function probe(agents: RunningAgents, ms: number): Promise<number[]> {
  const endMs = performance.now() + ms;
  const waits: number[] = [];
  for (let n = 0; performance.now() < endMs; n = (n + 1) % NEIGHBOURS) {
    const startMs = performance.now();
    const response = await fetch(`${agents.url}${pathOf(`neighbour-${n}`)}`, { method: "POST" });
    await response.arrayBuffer();
    if (response.status !== 200)
      throw new BenchFailed(`a neighbour was answered ${response.status}`);
    waits.push(performance.now() - startMs);
    await sleep(PROBE_EVERY_MS);
  }
  return waits;
}

function row({ kind, form, quietMs, floodMs, done, seconds }: Measured): BenchRow {
  const [quiet, flooded] = [percentile(quietMs, 99), percentile(floodMs, 99)];
  return {
    name: `${kind}, ${form}`,
    values: {
      "flood/s": done / seconds,
      "flood/wait": (done / seconds) * (percentile(floodMs, 50) / 1000),
      "quiet p50 ms": percentile(quietMs, 50),
      "flood p50 ms": percentile(floodMs, 50),
      "quiet p99 ms": quiet,
      "flood p99 ms": flooded,
      "p99 ratio": flooded / quiet,
    },
  };
}
