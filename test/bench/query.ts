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
import { runWrk } from "./rig/runWrk.ts";
import { startOurs } from "./rig/startOurs.ts";
import { median } from "./rig/statistics.ts";
import { serverVersion } from "./rig/webhookLoad.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const COMMAND = join(ROOT, "dist/services/cli/main.js");
const AGENTS_DEFAULT = 10_000;
/** Events of each agent: the first sets its state, the others change it. */
const EVENTS_EACH = 2;
/** Events written between two questions, so that the second has to update the view. */
const EVENTS_NEW = 1_000;
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 10;
/** Between two questions under load: the answer that is shown is then a second old at most. */
const PAUSE_MS = 1_000;
/** Runs of each statement, for each round asked for. */
const REPEATS = 10;

const STATEMENTS: Readonly<Record<string, string>> = {
  filtered: "SELECT name, state->>'plan' AS plan FROM BenchAgent WHERE state->>'stars' > 990",
  counted: "SELECT state->>'plan' AS plan, count(*) AS n FROM BenchAgent GROUP BY plan",
  named: "SELECT state FROM BenchAgent WHERE name = 'agent-77'",
};

export const query: Bench = {
  name: "query",
  about:
    'SQL over all agents: the view made, brought up to date, queried; under webhooks (--agents; --form "agents", "load", "together": with the delivery log, and without both)',
  run: async (options) => {
    const rows: BenchRow[] = [];
    let server = "";
    const { forms } = options;
    if (forms.length === 0 || forms.includes("agents"))
      ({ server } = await overAgents(options, rows));
    for (const form of ["load", "together"] as const)
      if (forms.length === 0 || forms.includes(form)) server = await underLoad(form, options, rows);
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

/** In the command's process: reports its processor time when it ends. */
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

/** What is asked while webhooks arrive. */
interface Asking {
  readonly name: string;
  /** Default true. */
  readonly deliveryLog?: boolean;
  /** Undefined: nobody asks. */
  readonly ask?: (
    sql: string,
  ) => Promise<{ readonly seconds: number; readonly cpuSeconds: number }>;
  /** From the end of one question to the next. */
  readonly pauseMs: number;
}

/**
 * Webhooks with and without questions, and with and without the delivery log, in turn. Processor
 * time is that of all processes, questions
 * included: on a machine that others use, too, it says more than the rate.
 */
async function underLoad(
  form: "load" | "together",
  options: BenchOptions,
  rows: BenchRow[],
): Promise<string> {
  const files = findFloor();
  const folder = tempFolder("bench-view");
  const subject = await startOurs("one process", options);
  const bare = await startOurs("one process", options, { deliveryLog: false });
  const sql = "SELECT sum(state->>'count') AS n FROM CountingAgent";
  const inCode: Asking["ask"] = async (statement) => {
    const startMs = performance.now();
    const response = await fetch(`${subject.url}/?sql=${encodeURIComponent(statement)}`);
    if (!response.ok) throw new BenchFailed(`${response.status} ${await response.text()}`);
    await response.arrayBuffer();
    // Its processor time is the subject's.
    return { seconds: (performance.now() - startMs) / 1_000, cpuSeconds: 0 };
  };
  const eachSecond = { name: "query() each second", ask: inCode, pauseMs: PAUSE_MS };
  const byCommand: Asking["ask"] = (text) => ask(subject.broker, folder.path, text);
  const askings: ReadonlyArray<Asking> =
    form === "together"
      ? [
          { name: "no delivery log, nobody asks", deliveryLog: false, pauseMs: 0 },
          { name: "delivery log", pauseMs: 0 },
          { ...eachSecond, name: "delivery log, query() each second" },
        ]
      : [
          { name: "nobody asks", pauseMs: 0 },
          eachSecond,
          { name: "query() without pause", ask: inCode, pauseMs: 0 },
          { name: "agents query without pause", ask: byCommand, pauseMs: 0 },
        ];
  const runs = askings.map((asking) => ({ asking, loads: [] as Loaded[] }));
  let tags = 0;
  const load = async (asking: Asking, seconds: number): Promise<Loaded> => {
    const tag = `${Date.now().toString(36)}-${(tags += 1)}`;
    const asked: number[] = [];
    let asksCpu = 0;
    let isOver = false;
    const questions = (async () => {
      while (asking.ask !== undefined && !isOver) {
        const one = await asking.ask(sql);
        asked.push(one.seconds);
        asksCpu += one.cpuSeconds;
        if (asking.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, asking.pauseMs));
      }
    })();
    const loaded = asking.deliveryLog === false ? bare : subject;
    const before = loaded.cpuSeconds();
    const run = await runWrk(loaded, { files, folder: folder.path, tag, seconds, connections: CONNECTIONS }); // prettier-ignore
    isOver = true;
    await questions;
    const { node, broker } = loaded.cpuSeconds();
    const cpuSeconds = node - before.node + (broker - before.broker) + asksCpu;
    return { perSecond: run.perSecond, cpuUs: (cpuSeconds * 1e6) / run.answered, asked };
  };
  try {
    for (const asking of askings) await load(asking, WARM_UP_SECONDS);
    for (let round = 0; round < options.rounds; round++)
      for (const { asking, loads } of runs) {
        const one = await load(asking, options.seconds);
        loads.push(one);
        const asked = one.asked.length;
        options.say(`  ${asking.name}: ${JSON.stringify({ ...one, asked })}`);
      }
    const [logged, unlogged] = await Promise.all(
      [subject, bare].map(async ({ broker }) => recordsOf(broker, folder.path)),
    );
    if (logged === 0 || unlogged !== 0)
      throw new BenchFailed(`the delivery logs have ${logged} and ${unlogged} records`);
    const answered = (await ask(subject.broker, folder.path, sql)).rows[0]?.["n"];
    const counts = await subject.answers();
    if (answered !== counts?.get(200))
      throw new BenchFailed(`the view counts ${String(answered)}, the gateway ${counts?.get(200)}`);
    const quiet = runs[0]!.loads;
    for (const { asking, loads } of runs) {
      const asked = loads.flatMap((one) => one.asked);
      rows.push({
        name: `webhooks, ${asking.name}`,
        values: {
          "webhooks/s": median(loads.map(({ perSecond }) => perSecond)),
          "rate ratio": median(loads.map(({ perSecond }, n) => perSecond / quiet[n]!.perSecond)),
          "CPU µs": median(loads.map(({ cpuUs }) => cpuUs)),
          // Compared within a round, because other load on the machine slows both.
          "CPU ratio": median(loads.map(({ cpuUs }, n) => cpuUs / quiet[n]!.cpuUs)),
          questions: asked.length,
          seconds: asked.length === 0 ? undefined : median(asked),
        },
      });
    }
    return await serverVersion(subject.broker);
  } finally {
    await Promise.all([subject.stop(), bare.stop()]);
    folder.remove();
  }
}

/** How many records the newest page of the delivery log has. */
async function recordsOf(nats: string, data: string): Promise<number> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [COMMAND, "deliveries", "--json", "--data", data],
    { env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats }, maxBuffer: 2 ** 28 },
  );
  return stdout.split("\n").filter((line) => line !== "").length;
}

interface Loaded {
  readonly perSecond: number;
  /** A webhook, of all processes. */
  readonly cpuUs: number;
  /** Seconds of each question. */
  readonly asked: ReadonlyArray<number>;
}
