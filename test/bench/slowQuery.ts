/** What queries of code wait while an operator's query takes seconds, compared with none. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf, openBenchHost } from "./rig/BenchHost.ts";
import { ROOT } from "./rig/findFloor.ts";
import { ServerProcess } from "./rig/ServerProcess.ts";
import { median, percentile } from "./rig/statistics.ts";
import { storeAgents } from "./rig/storeAgents.ts";

const COMMAND = join(ROOT, "dist/services/cli/main.js");
const MODULE = fileURLToPath(new URL("./agents/countingAgents.ts", import.meta.url));
const AGENTS_DEFAULT = 10_000;
const EVENTS_EACH = 1;
/** In each round, with and without an operator. */
const QUICK_QUERIES = 50;
/** From one to the next, so that they meet each phase of the operator's query. */
const PAUSE_MS = 100;
/** The operator's query has no end: this limit stops it. */
const SLOW_SECONDS = 5;

const QUICK = "SELECT count(*) AS n FROM BenchAgent WHERE name = 'agent-77'";
const ENDLESS =
  "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r";

/** Resolves to the milliseconds of an operator's query, with the command's start. */
function operate(nats: string, data: string): Promise<number> {
  const startMs = performance.now();
  return new Promise((resolve, reject) =>
    execFile(
      process.execPath,
      [COMMAND, "query", ENDLESS, "--seconds", String(SLOW_SECONDS), "--data", data],
      { env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats } },
      (_, out, err) => {
        if (err.includes("was stopped after")) resolve(performance.now() - startMs);
        else reject(new BenchFailed(`the operator's query was not stopped: ${out}${err}`));
      },
    ),
  );
}

export const slowQuery: Bench = {
  name: "slow-query",
  about: "queries of code while an operator's query takes seconds (--agents)",
  run: async (options) => {
    const agents = options.agents ?? AGENTS_DEFAULT;
    const host = await openBenchHost(options);
    const folder = tempFolder("bench-slow-query");
    const [port, admin] = [await pickPort(), await pickPort()];
    const server = new ServerProcess({
      name: "agents dev",
      cwd: folder.path,
      args: [
        COMMAND, "dev", MODULE,
        "--nats", host.url, "--data", join(folder.path, "data"),
        "--port", String(port), "--hostname", "127.0.0.1", "--admin-port", String(admin),
        "--log-level", "warn",
      ], // prettier-ignore
      env: { GITHUB_WEBHOOK_SECRET: "unused" },
    });
    const quickMs = async (): Promise<number> => {
      const startMs = performance.now();
      const response = await fetch(`http://127.0.0.1:${port}/?sql=${encodeURIComponent(QUICK)}`);
      const text = await response.text();
      if (text !== '[{"n":1}]') throw new BenchFailed(`${response.status} ${text}`);
      return performance.now() - startMs;
    };
    const quick = async (): Promise<number[]> => {
      const took: Array<Promise<number>> = [];
      for (let n = 0; n < QUICK_QUERIES; n++) {
        took.push(quickMs());
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
      return Promise.all(took);
    };
    try {
      options.say(`storing ${agents} agents`);
      await storeAgents(host, agents, EVENTS_EACH);
      await server.ready(async () => {
        const answer = await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => undefined);
        return answer?.ok === true;
      });
      options.say(`the first query: ${Math.round(await quickMs())} ms`);
      const alone: number[] = [];
      const beside: number[] = [];
      const operator: number[] = [];
      for (let round = 0; round < options.rounds; round++) {
        alone.push(...(await quick()));
        let isOver = false;
        const asking = (async () => {
          while (!isOver) operator.push(await operate(host.url, folder.path));
        })();
        beside.push(...(await quick()));
        isOver = true;
        await asking;
      }
      const row = (name: string, ms: ReadonlyArray<number>): BenchRow => ({
        name,
        values: {
          queries: ms.length,
          "p50 ms": median(ms),
          "p95 ms": percentile(ms, 95),
          "max ms": Math.max(...ms),
        },
      });
      return {
        title: `queries of code beside slow ones of an operator; ${agents.toLocaleString("en")} agents`,
        server: host.serverVersion,
        durability: durabilityOf(options),
        rows: [
          row("query() alone", alone),
          row("query() beside slow queries of an operator", beside),
          row("the operator's, with the command's start", operator),
        ],
        raw: { alone, beside, operator },
        notes: [],
      };
    } finally {
      await server.stop();
      await host.close();
      folder.remove();
    }
  },
};
