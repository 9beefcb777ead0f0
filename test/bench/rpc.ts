/**
 * Round trips of RPC over a WebSocket: one socket with one call at a time, one socket with 16 calls
 * ahead, 100 sockets (an agent each) with one call at a time. Compared with an echo through
 * uWebSockets and a core NATS request, in as many processes. Neither stores anything, since the
 * call changes nothing.
 */
import { fileURLToPath } from "node:url";
import type { Bench, BenchOptions, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { SocketLoad, type LoadRun } from "./rig/SocketLoad.ts";
import { measureForms } from "./rig/measureForms.ts";
import { startAgents } from "./rig/startAgents.ts";
import { startEcho } from "./rig/startEcho.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/socketAgents.ts", import.meta.url));
const SOCKETS = 100;
/** The frames that we send to a new socket of an agent without a state: identity, MCP servers. */
const OUR_FRAMES = 2;
const WARM_UP_SECONDS = 2;
const CALL = JSON.stringify({ type: "rpc", id: "1", method: "echo", args: ["x".repeat(100)] });
/** Length of the echoed text: a refusal is shorter. */
const REPLY_BYTES = 100;

const LOADS = [
  { load: "1 socket", atOnce: 1, depth: 1 },
  { load: "1 socket, 16 ahead", atOnce: 1, depth: 16 },
  { load: "100 sockets", atOnce: SOCKETS, depth: 1 },
] as const;
const FORMS = ["one process", "two processes"] as const;
type Form = (typeof FORMS)[number];

interface Side {
  readonly name: string;
  readonly form: Form;
  /** One socket, and 100 others: a run takes all the groups that its process has open. */
  readonly one: SocketLoad;
  readonly many: SocketLoad;
  readonly stop: () => Promise<void>;
}

interface Measured extends LoadRun {
  readonly side: string;
  readonly form: Form;
  readonly load: string;
}

export const rpc: Bench = {
  name: "rpc",
  about:
    'round trips over sockets, beside an echo through core NATS (--form "one process", "two processes")',
  run: async (options) => {
    const { sides, found, server } = await measureForms(options, {
      forms: FORMS,
      startFloor: startEchoSide,
      startOurs: (form) => startOurEcho(form, options),
      loads: LOADS,
      warmUpSeconds: WARM_UP_SECONDS,
      run: runOn,
      tell: ({ load, form, side, perSecond, p50Ms }) =>
        `${load}, ${form}, ${side}: ${Math.round(perSecond)}/s, p50 ${p50Ms.toFixed(2)} ms`,
    });
    return {
      title: `a call of 100 B and its reply; ${options.rounds} × ${options.seconds} s each, medians`,
      server,
      durability: durabilityOf(options),
      rows: LOADS.flatMap(({ load }) => sides.map((side) => row(side, load, found))),
      raw: found,
      notes: ["ratio: of calls/s, to the echo in as many processes."],
    };
  },
};

type Load = (typeof LOADS)[number];

async function runOn(
  side: Side,
  { load, atOnce, depth }: Load,
  seconds: number,
): Promise<Measured> {
  const clients = atOnce === 1 ? side.one : side.many;
  const how = { seconds, message: CALL, depth, groupsAtOnce: atOnce, bytesMin: REPLY_BYTES };
  return { ...(await clients.run(how)), side: side.name, form: side.form, load };
}

async function openClients(port: number, readyFrames: number): Promise<Pick<Side, "one" | "many">> {
  const paths = Array.from({ length: SOCKETS }, (_, n) => `/agents/echo/echo-${n}`);
  const [one, many] = [new SocketLoad(), new SocketLoad()];
  await one.open({ port, paths: ["/agents/echo/alone"], socketsEach: 1, readyFrames });
  await many.open({ port, paths, socketsEach: 1, readyFrames });
  return { one, many };
}

async function startEchoSide(form: Form): Promise<Side> {
  const echo = await startEcho(form);
  const clients = await openClients(echo.port, 1);
  const stop = async (): Promise<void> => {
    await Promise.all([clients.one.stop(), clients.many.stop()]);
    await echo.stop();
  };
  return { name: "echo", form, ...clients, stop };
}

async function startOurEcho(
  form: Form,
  { syncAlways, profile }: BenchOptions,
): Promise<{ readonly side: Side; readonly server: string }> {
  const hosts = form === "one process" ? 0 : 1;
  const agents = await startAgents({ module: MODULE, hosts, syncAlways, profile });
  const clients = await openClients(agents.port, OUR_FRAMES);
  const stop = async (): Promise<void> => {
    await Promise.all([clients.one.stop(), clients.many.stop()]);
    await agents.stop();
  };
  return { side: { name: "ours", form, ...clients, stop }, server: agents.serverVersion };
}

function row({ name, form }: Side, load: string, all: ReadonlyArray<Measured>): BenchRow {
  const of = (side: string, value: (run: Measured) => number): number =>
    median(
      all.filter((run) => run.side === side && run.form === form && run.load === load).map(value),
    );
  const rate = of(name, (run) => run.perSecond);
  return {
    name: `${load}, ${form}, ${name}`,
    values: {
      "calls/s": rate,
      ratio: rate / of("echo", (run) => run.perSecond),
      "p50 ms": of(name, (run) => run.p50Ms),
      "p99 ms": of(name, (run) => run.p99Ms),
    },
  };
}
