/**
 * A change of an agent's state until every client has it: one agent with 10,000 clients, and 1,000
 * agents with 10 clients each, the state 1 KB. Compared with uWebSockets' own publish, which stores
 * nothing, to as many sockets of the same clients. One change of an agent at a time.
 */
import { fileURLToPath } from "node:url";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import type { Bench, BenchOptions, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { ROOT } from "./rig/findFloor.ts";
import { RUN_SOURCE, ServerProcess } from "./rig/ServerProcess.ts";
import { SocketLoad, type LoadRun } from "./rig/SocketLoad.ts";
import { startAgents } from "./rig/startAgents.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/socketAgents.ts", import.meta.url));
const FLOOR = fileURLToPath(new URL("./rig/socketFloor.ts", import.meta.url));
const STATE_BYTES = 1000;
/** The frames that we send to a new socket: identity, state, MCP servers. */
const OUR_FRAMES = 3;
const WARM_UP_SECONDS = 3;

/** Groups under way: all of one agent's, or enough of 1,000 that every step is busy. */
const FORMS = [
  { form: "1 × 10,000", agents: 1, clientsEach: 10_000, atOnce: 1 },
  { form: "1,000 × 10", agents: 1_000, clientsEach: 10, atOnce: 64 },
] as const;

interface Side {
  readonly name: string;
  readonly load: SocketLoad;
  readonly serverSeconds: () => number;
  readonly stop: () => Promise<void>;
}

interface Measured extends LoadRun {
  readonly name: string;
  /** Microseconds of processor time of the servers for each frame. */
  readonly serverUs: number;
}

export const sockets: Bench = {
  name: "sockets",
  about:
    'a state of 1 KB to 10,000 clients, beside uWebSockets\' publish (--form "1 × 10,000", "1,000 × 10")',
  run: async (options) => {
    const rows: BenchRow[] = [];
    const raw: Measured[] = [];
    let server = "";
    for (const form of FORMS) {
      if (options.forms.length > 0 && !options.forms.includes(form.form)) continue;
      options.say(`opening 2 × ${form.agents * form.clientsEach} sockets`);
      const sides: Side[] = [];
      try {
        sides.push(await startPublish(form));
        const ours = await startBoards(form, options);
        server = ours.server;
        sides.push(ours);
        const found = await measure(sides, form, options);
        raw.push(...found);
        rows.push(...sides.map((side) => row(form, side.name, found)));
      } finally {
        for (const side of sides) await side.stop();
      }
    }
    return {
      title: `a change of 1 KB until every client has it; ${options.rounds} × ${options.seconds} s each, medians`,
      server,
      durability: durabilityOf(options),
      rows,
      raw,
      notes: [
        "ratio: of frames/s, to uWebSockets' publish. CPU: µs a frame of the servers, nats-server included.",
        "Ours stores each change before anyone sees it; publish stores nothing.",
      ],
    };
  },
};

type Form = (typeof FORMS)[number];

const pathsOf = ({ agents }: Form): string[] =>
  Array.from({ length: agents }, (_, n) => `/agents/board/board-${n}`);

async function startPublish(form: Form): Promise<Side> {
  const port = await pickPort();
  const server = new ServerProcess({
    name: "uWebSockets",
    cwd: ROOT,
    args: [...RUN_SOURCE, FLOOR, "publish", String(port)],
  });
  const load = new SocketLoad();
  const stop = async (): Promise<void> => {
    await load.stop();
    await server.stop();
  };
  try {
    await server.ready((output) => output.includes("listening"));
    await load.open({ port, paths: pathsOf(form), socketsEach: form.clientsEach, readyFrames: 1 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { name: "publish", load, serverSeconds: () => server.cpuSeconds ?? NaN, stop };
}

async function startBoards(
  form: Form,
  { syncAlways, profile, say }: BenchOptions,
): Promise<Side & { readonly server: string }> {
  const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
  const load = new SocketLoad();
  const stop = async (): Promise<void> => {
    await load.stop();
    await agents.stop();
  };
  try {
    const startMs = performance.now();
    const paths = pathsOf(form);
    await load.open({
      port: agents.port,
      paths,
      socketsEach: form.clientsEach,
      readyFrames: OUR_FRAMES,
    });
    say(`  ours opened in ${Math.round(performance.now() - startMs)} ms`);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name: "ours",
    load,
    server: agents.serverVersion,
    serverSeconds: () => agents.nodeSeconds() + agents.brokerSeconds(),
    stop,
  };
}

async function measure(
  sides: ReadonlyArray<Side>,
  form: Form,
  { rounds, seconds, say }: BenchOptions,
): Promise<Measured[]> {
  const load = async (side: Side, forSeconds: number): Promise<Measured> => {
    const before = side.serverSeconds();
    const run = await side.load.run({
      seconds: forSeconds,
      message: "change",
      depth: 1,
      groupsAtOnce: form.atOnce,
      bytesMin: STATE_BYTES,
    });
    const serverUs = ((side.serverSeconds() - before) * 1e6) / run.frames;
    say(
      `  ${form.form}, ${side.name}: ${Math.round(run.perSecond)} changes/s, p50 ${run.p50Ms.toFixed(1)} ms`,
    );
    return { ...run, name: side.name, serverUs };
  };
  for (const side of sides) await load(side, WARM_UP_SECONDS);
  const found: Measured[] = [];
  for (let round = 0; round < rounds; round += 1)
    for (const side of round % 2 === 0 ? sides : sides.toReversed())
      found.push(await load(side, seconds));
  return found;
}

function row({ form, clientsEach }: Form, name: string, all: ReadonlyArray<Measured>): BenchRow {
  const of = (side: string, value: (run: Measured) => number): number =>
    median(all.filter((run) => run.name === side).map(value));
  const rate = of(name, (run) => run.perSecond);
  return {
    name: `${form}, ${name}`,
    values: {
      "changes/s": rate,
      "frames/s": rate * clientsEach,
      ratio: rate / of("publish", (run) => run.perSecond),
      "p50 ms": of(name, (run) => run.p50Ms),
      "p99 ms": of(name, (run) => run.p99Ms),
      "most ms": of(name, (run) => run.mostMs),
      CPU: of(name, (run) => run.serverUs),
    },
  };
}
