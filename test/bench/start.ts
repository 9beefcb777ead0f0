/**
 * Start-up times: from spawning `agents dev` in an empty folder (with its own broker), and in the
 * folder that the last one left, to an agent's first answer, compared with a Node process that only
 * answers HTTP; and from a host's death by SIGKILL until each of its agents answers at the other
 * host.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import type { Bench, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { ServerProcess } from "./rig/ServerProcess.ts";
import { COMMAND, serverVersion } from "./rig/startAgents.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/memoryAgents.ts", import.meta.url));
/** Fewer say little of something that happens once. */
const REPEATS_MIN = 5;
const WANTED_START_MS = 1_500;
const LEASE_TTL_MS = 2_000;
/** Past the TTL. */
const WANTED_PAST_TTL_MS = 500;
const SHARDS = 16;
/** Enough that some are at each host. */
const AGENTS = 32;
/** A look costs a request; steps of it are the resolution. */
const LOOK_MS = 10;
const ANSWER_TIMEOUT_MS = 30_000;
/** A call that had begun at the host that died is not answered: it is asked again. */
const ASK_TIMEOUT_MS = 1_000;
const BARE = `require("node:http").createServer((_, out) => out.end("OK")).listen(Number(process.argv[1]), "127.0.0.1")`;

export const start: Bench = {
  name: "start",
  about: "agents dev to its first answer; a killed host's agents to their first answer elsewhere",
  run: async (options) => {
    const repeats = Math.max(REPEATS_MIN, options.rounds);
    const found = new Map<string, number[]>(
      ["bare Node", "empty folder", "folder of the last", "take-over"].map((name) => [name, []]),
    );
    const note = (name: string, ms: number): void => {
      options.say(`  ${name}: ${Math.round(ms)} ms`);
      found.get(name)!.push(ms);
    };
    for (let n = 0; n < repeats; n += 1) {
      const folder = tempFolder("bench-start");
      const dev = (port: number): string[] => [
        COMMAND, "dev", MODULE, "--data", join(folder.path, "data"), "--hostname", "127.0.0.1",
        "--port", String(port), "--log-level", "warn",
      ]; // prettier-ignore
      note("bare Node", await answered(folder.path, (port) => ["-e", BARE, String(port)]));
      note("empty folder", await answered(folder.path, dev));
      note("folder of the last", await answered(folder.path, dev));
      folder.remove();
    }
    const server = await takeOver(repeats, (ms) => note("take-over", ms));
    return {
      title: `from spawn, or from SIGKILL, to an agent's answer; ${repeats} repeats`,
      server,
      durability: durabilityOf(options),
      rows: [...found].map(([name, ms]) => row(name, ms, found.get("bare Node")!)),
      raw: Object.fromEntries(found),
      notes: [
        `take-over: lease TTL ${LEASE_TTL_MS} ms; until each of ${AGENTS} agents, the killed host's among them, has answered.`,
      ],
    };
  },
};

async function answered(cwd: string, args: (port: number) => string[]): Promise<number> {
  const port = await pickPort();
  const startMs = performance.now();
  const server = new ServerProcess({ name: "what starts", cwd, args: args(port) });
  try {
    await pollUntil("it answers", () => answers(`http://127.0.0.1:${port}`, "first"), {
      timeoutMs: ANSWER_TIMEOUT_MS,
      intervalMs: LOOK_MS,
    });
    return performance.now() - startMs;
  } finally {
    await server.stop();
  }
}

async function answers(url: string, name: string): Promise<boolean> {
  const signal = AbortSignal.timeout(ASK_TIMEOUT_MS);
  const response = await fetch(`${url}/agents/plain/${name}`, { signal });
  return (await response.text()) === "OK";
}

/** Returns the broker's version. */
async function takeOver(repeats: number, note: (ms: number) => void): Promise<string> {
  const installation = await Installation.start({
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    module: MODULE,
  });
  try {
    let [victim, other] = [await installation.startHost("0"), await installation.startHost("1")];
    const all = (): Promise<unknown> =>
      Promise.all(
        Array.from({ length: AGENTS }, (_, n) =>
          pollUntil(`agent ${n} answers`, () => answers(installation.gateway.url, `a${n}`), {
            timeoutMs: ANSWER_TIMEOUT_MS,
            intervalMs: LOOK_MS,
          }),
        ),
      );
    for (let n = 0; n < repeats; n += 1) {
      await installation.shared(2, ANSWER_TIMEOUT_MS);
      await all();
      const killedMs = performance.now();
      await victim.kill();
      await all();
      note(performance.now() - killedMs);
      // The next victim is the host that took over.
      [victim, other] = [other, await installation.startHost(String(n % 2))];
    }
    return await serverVersion(installation.nats.url);
  } finally {
    await installation.stop();
  }
}

function row(name: string, ms: ReadonlyArray<number>, bare: ReadonlyArray<number>): BenchRow {
  const isTakeOver = name === "take-over";
  return {
    name,
    values: {
      "p50 ms": median(ms),
      "most ms": Math.max(...ms),
      ...(name === "bare Node"
        ? {}
        : isTakeOver
          ? { wanted: LEASE_TTL_MS + WANTED_PAST_TTL_MS }
          : { ratio: median(ms) / median(bare), wanted: WANTED_START_MS }),
    },
  };
}
