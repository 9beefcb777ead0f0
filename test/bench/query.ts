/**
 * SQL over all agents (`agents query`): how long the first view takes, how long one that is brought
 * up to date, and how long a statement over it; and what questions cost an installation that takes
 * webhooks meanwhile.
 */
import { execFile } from "node:child_process";
import { statSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { View } from "../../core/query/View.ts";
import { NAMESPACE_DEFAULT } from "../../schemas/Subjects.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { BenchFailed, type Bench, type BenchOptions, type BenchRow } from "./Bench.ts";
import { durabilityOf, openBenchHost, type BenchHost } from "./rig/BenchHost.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import { storeAgents, storeTurn, STORING_AT_ONCE } from "./rig/storeAgents.ts";
import { findFloor, ROOT } from "./rig/findFloor.ts";
import { runWrk, type WrkRun } from "./rig/runWrk.ts";
import { startOurs } from "./rig/startOurs.ts";
import { median } from "./rig/statistics.ts";
import { serverVersion } from "./rig/webhookLoad.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const COMMAND = join(ROOT, "dist/services/cli/main.js");
const AGENTS_DEFAULT = 10_000;
/** Of each agent: the first sets its state, the others change it. */
const EVENTS_EACH = 2;
/** Written between two questions, for the second to bring up to date. */
const EVENTS_NEW = 1_000;
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 4;
/** Between two questions under load: as an operator who looks all the time. */
const PAUSE_MS = 1_000;
/** Of each statement, for each round asked for. */
const REPEATS = 10;

const STATEMENTS: Readonly<Record<string, string>> = {
  filtered: "SELECT name, state->>'plan' AS plan FROM BenchAgent WHERE state->>'stars' > 990",
  counted: "SELECT state->>'plan' AS plan, count(*) AS n FROM BenchAgent GROUP BY plan",
  named: "SELECT state FROM BenchAgent WHERE name = 'agent-77'",
};

export const query: Bench = {
  name: "query",
  about:
    'SQL over all agents: the view made, brought up to date, queried; under webhooks (--agents; --form "agents", "load")',
  run: async (options) => {
    const rows: BenchRow[] = [];
    let server = "";
    const { forms } = options;
    if (forms.length === 0 || forms.includes("agents"))
      ({ server } = await overAgents(options, rows));
    if (forms.length === 0 || forms.includes("load")) server = await underLoad(options, rows);
    return {
      title: `agents query; states of some 400 B, ${EVENTS_EACH} events an agent; medians`,
      server,
      durability: durabilityOf(options),
      rows,
      raw: rows,
      notes: [
        "seconds: of the whole command, from its start; CPU: its processor seconds. p50 and CPU ms: of the SQL alone, over the same view.",
        "An answer has everything that was stored before the command began: it is not behind.",
      ],
    };
  },
};

interface Asked {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly rows: ReadonlyArray<Record<string, unknown>>;
}

/** Runs the command. */
async function ask(nats: string, data: string, sql: string, ...args: string[]): Promise<Asked> {
  const startMs = performance.now();
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--import", MEASURE, COMMAND, "query", sql, "--json", "--data", data, ...args],
    { env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats }, maxBuffer: 2 ** 28 },
  );
  const seconds = (performance.now() - startMs) / 1_000;
  const found = /measured (\S+)/.exec(stderr);
  if (found === null) throw new BenchFailed(`the command measured nothing: ${stderr}`);
  return {
    seconds,
    cpuSeconds: Number(found[1]),
    rows: JSON.parse(stdout) as Record<string, unknown>[],
  };
}

/** In the command's process: tells its processor time at its end. */
const MEASURE = `data:text/javascript,${encodeURIComponent(`
  process.once("exit", () => {
    const { user, system } = process.cpuUsage();
    process.stderr.write("measured " + (user + system) / 1e6 + "\\n");
  });
`)}`;

/** How long the statements take over the view that the commands have left. */
async function timeStatements(folder: string, repeats: number): Promise<ReadonlyArray<BenchRow>> {
  const opened = await openSqliteDatabases({ folder: join(folder, "view") });
  try {
    const view = new View(opened.databases, NAMESPACE_DEFAULT);
    const rows = Object.entries(STATEMENTS).map(([name, sql]) => {
      const took = Array.from({ length: repeats }, () => {
        const startMs = performance.now();
        const startCpu = process.cpuUsage();
        view.read(sql, { rowsMax: 1_000, timeMsMax: 60_000 });
        const { user, system } = process.cpuUsage(startCpu);
        return { ms: performance.now() - startMs, cpuMs: (user + system) / 1_000 };
      });
      const values = {
        "p50 ms": median(took.map(({ ms }) => ms)),
        "CPU ms": median(took.map(({ cpuMs }) => cpuMs)),
      };
      return { name: `statement: ${name}`, values };
    });
    view.close();
    return rows;
  } finally {
    opened.close();
  }
}

async function overAgents(
  options: BenchOptions,
  rows: BenchRow[],
): Promise<{ readonly server: string }> {
  const agents = options.agents ?? AGENTS_DEFAULT;
  const host = await openBenchHost(options);
  const folder = tempFolder("bench-view");
  const row = (name: string, asked: ReadonlyArray<Asked>): void => {
    const of = (pick: (one: Asked) => number): number => median(asked.map(pick));
    const values = {
      seconds: of(({ seconds }) => seconds),
      CPU: of(({ cpuSeconds }) => cpuSeconds),
    };
    options.say(`  ${name}: ${JSON.stringify(values)}`);
    rows.push({ name, values });
  };
  try {
    options.say(`storing ${agents} agents`);
    const seqs = await storeAgents(host, agents, EVENTS_EACH);
    const filtered = STATEMENTS["filtered"]!;
    const first: Asked[] = [];
    for (let round = 0; round < options.rounds; round++)
      first.push(await ask(host.url, folder.path, "SELECT count(*) AS n FROM BenchAgent", "--rebuild")); // prettier-ignore
    if (first.some(({ rows: [found] }) => found?.["n"] !== agents))
      throw new BenchFailed(`not ${agents} agents: ${JSON.stringify(first[0]?.rows)}`);
    row(`${agents.toLocaleString("en")} agents: made anew`, first);
    const later: Asked[] = [];
    for (let round = 0; round < options.rounds; round++) {
      await touch(host, seqs, EVENTS_NEW, round);
      later.push(await ask(host.url, folder.path, filtered));
    }
    row(`${EVENTS_NEW.toLocaleString("en")} events later, filtered`, later);
    for (const [name, sql] of Object.entries(STATEMENTS)) {
      const asked: Asked[] = [];
      for (let round = 0; round < options.rounds; round++)
        asked.push(await ask(host.url, folder.path, sql));
      row(`nothing new, ${name}`, asked);
    }
    rows.push(...(await timeStatements(folder.path, options.rounds * REPEATS)));
    const file = readdirSync(folder.path, { recursive: true, encoding: "utf8" }).find((path) =>
      path.endsWith(".image"),
    )!;
    rows.push({
      name: "the view's file",
      values: { MiB: statSync(join(folder.path, file)).size / 2 ** 20 },
    });
    return { server: host.serverVersion };
  } finally {
    await host.close();
    folder.remove();
  }
}

async function touch(host: BenchHost, seqs: number[], events: number, turn: number): Promise<void> {
  const few = Array.from({ length: Math.min(events, seqs.length) }, (_, n) => n);
  await inParallel(few, STORING_AT_ONCE, async (n) => {
    seqs[n] = await storeTurn(host, n, EVENTS_EACH + turn, seqs[n]!);
  });
}

/** Webhooks with and without questions, in turn. */
async function underLoad(options: BenchOptions, rows: BenchRow[]): Promise<string> {
  const files = findFloor();
  const folder = tempFolder("bench-view");
  const subject = await startOurs("one process", options);
  let tags = 0;
  const load = async (seconds: number): Promise<WrkRun & { readonly nodeUs: number }> => {
    const before = subject.cpuSeconds();
    const tag = `${Date.now().toString(36)}-${(tags += 1)}`;
    const run = await runWrk(subject, { files, folder: folder.path, tag, seconds, connections: CONNECTIONS }); // prettier-ignore
    return { ...run, nodeUs: ((subject.cpuSeconds().node - before.node) * 1e6) / run.answered };
  };
  const asked: Asked[] = [];
  const quiet: Array<Awaited<ReturnType<typeof load>>> = [];
  const busy: Array<Awaited<ReturnType<typeof load>>> = [];
  const sql = "SELECT sum(state->>'count') AS n FROM CountingAgent";
  try {
    await load(WARM_UP_SECONDS);
    await ask(subject.broker, folder.path, sql);
    for (let round = 0; round < options.rounds; round++) {
      quiet.push(await load(options.seconds));
      let isOver = false;
      const questions = (async () => {
        while (!isOver) {
          asked.push(await ask(subject.broker, folder.path, sql));
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        }
      })();
      busy.push(await load(options.seconds));
      isOver = true;
      await questions;
    }
    const answered = (await ask(subject.broker, folder.path, sql)).rows[0]?.["n"];
    const counts = await subject.answers();
    if (answered !== counts?.get(200))
      throw new BenchFailed(`the view counts ${String(answered)}, the gateway ${counts?.get(200)}`);
    const of = (runs: typeof quiet) => ({
      "webhooks/s": median(runs.map(({ perSecond }) => perSecond)),
      "node CPU µs": median(runs.map(({ nodeUs }) => nodeUs)),
    });
    rows.push({ name: "webhooks, nobody asks", values: of(quiet) });
    rows.push({
      name: "webhooks, a question after another",
      values: {
        ...of(busy),
        seconds: median(asked.map(({ seconds }) => seconds)),
        CPU: median(asked.map(({ cpuSeconds }) => cpuSeconds)),
      },
    });
    return await serverVersion(subject.broker);
  } finally {
    await subject.stop();
    folder.remove();
  }
}
