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
import { median, percentile } from "./rig/statistics.ts";
import type { Subject } from "./rig/Subject.ts";
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
/** Twice as long as a record of a delivery waits for its batch (`RecordBuffer`). */
const LAST_RECORDS_MS = 500;
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
 * Webhooks with and without questions, and with and without the delivery log, in turn, and in one
 * process: two starts of one build differ by more than what is measured. Processor time is that of
 * all processes, questions included: on a machine that others use, too, it says more than the rate.
 */
async function underLoad(
  form: "load" | "together",
  options: BenchOptions,
  rows: BenchRow[],
): Promise<string> {
  const files = findFloor();
  const folder = tempFolder("bench-view");
  const subject = await startOurs("one process", options, { deliveryLogSwitch: true });
  const sql = "SELECT sum(state->>'count') AS n FROM CountingAgent";
  const get = async (search: string): Promise<void> => {
    const response = await fetch(`${subject.url}/?${search}`);
    if (!response.ok) throw new BenchFailed(`${response.status} ${await response.text()}`);
    await response.arrayBuffer();
  };
  const inCode = async (statement: string): Promise<Pick<Asked, "seconds" | "cpuSeconds">> => {
    const startMs = performance.now();
    await get(`sql=${encodeURIComponent(statement)}`);
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
          { ...eachSecond, name: "query() each second", deliveryLog: false },
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
    await get(`deliveryLog=${asking.deliveryLog === false ? "off" : "on"}`);
    // What earlier windows have left to read is not this one's.
    if (asking.ask !== undefined) await inCode(sql);
    const askAll = async (): Promise<void> => {
      while (asking.ask !== undefined && !isOver) {
        if (asking.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, asking.pauseMs));
        const one = await asking.ask(sql);
        asked.push(one.seconds);
        asksCpu += one.cpuSeconds;
      }
    };
    let before = subject.cpuSeconds();
    let questions = Promise.resolve();
    const onBegin = (): void => {
      before = subject.cpuSeconds();
      questions = askAll();
    };
    const run = await runWrk(subject, { files, folder: folder.path, tag, seconds, connections: CONNECTIONS, onBegin }); // prettier-ignore
    isOver = true;
    await questions;
    await new Promise((resolve) => setTimeout(resolve, LAST_RECORDS_MS));
    const { node, broker } = subject.cpuSeconds();
    const us = (cpuSeconds: number): number => (cpuSeconds * 1e6) / run.answered;
    const nodeUs = us(node - before.node + asksCpu);
    return { perSecond: run.perSecond, nodeUs, brokerUs: us(broker - before.broker), asked };
  };
  try {
    for (const asking of askings) await load(asking, WARM_UP_SECONDS);
    for (let round = 0; round < options.rounds; round++)
      for (const { asking, loads } of round % 2 === 0 ? runs : runs.toReversed()) {
        const one = await load(asking, options.seconds);
        loads.push(one);
        const asked = one.asked.length;
        options.say(`  ${asking.name}: ${JSON.stringify({ ...one, asked })}`);
      }
    await checkSwitch(subject, folder.path);
    const answered = (await ask(subject.broker, folder.path, sql)).rows[0]?.["n"];
    const counts = await subject.answers();
    // On a busy machine some are stored before an agent answers.
    const accepted = [200, 202].reduce((sum, status) => sum + (counts?.get(status) ?? 0), 0);
    if (answered !== accepted)
      throw new BenchFailed(`the view counts ${String(answered)}, the gateway ${accepted}`);
    const quiet = runs[0]!.loads;
    for (const { asking, loads } of runs) {
      const asked = loads.flatMap((one) => one.asked);
      const ratios = loads.map((one, n) => cpuOf(one) / cpuOf(quiet[n]!));
      rows.push({
        name: `webhooks, ${asking.name}`,
        values: {
          "webhooks/s": median(loads.map(({ perSecond }) => perSecond)),
          "rate ratio": median(loads.map(({ perSecond }, n) => perSecond / quiet[n]!.perSecond)),
          "node µs": median(loads.map(({ nodeUs }) => nodeUs)),
          "nats µs": median(loads.map(({ brokerUs }) => brokerUs)),
          // Compared within a round, because other load on the machine slows both.
          "CPU ratio": median(ratios),
          "25 %": percentile(ratios, 25),
          "75 %": percentile(ratios, 75),
          "ratio of leasts": leastOf(loads) / leastOf(quiet),
          questions: asked.length,
          seconds: asked.length === 0 ? undefined : median(asked),
        },
      });
    }
    return await serverVersion(subject.broker);
  } finally {
    await subject.stop();
    folder.remove();
  }
}

interface Loaded {
  readonly perSecond: number;
  /** Processor time of a webhook, of all processes of ours and of nats-server. */
  readonly nodeUs: number;
  readonly brokerUs: number;
  /** Seconds of each question. */
  readonly asked: ReadonlyArray<number>;
}

const cpuOf = ({ nodeUs, brokerUs }: Loaded): number => nodeUs + brokerUs;
const leastOf = (loads: ReadonlyArray<Loaded>): number => Math.min(...loads.map(cpuOf));

/** A delivery is in the log while it is on, and is not while it is off. */
async function checkSwitch(subject: Subject, data: string): Promise<void> {
  const records = async (log: "on" | "off"): Promise<number> => {
    const before = await recordsOf(subject.broker, data);
    await fetch(`${subject.url}/?deliveryLog=${log}`);
    // Refused, for its signature.
    await fetch(`${subject.url}/webhooks/github`, { method: "POST", body: "{}" });
    await new Promise((resolve) => setTimeout(resolve, LAST_RECORDS_MS));
    return (await recordsOf(subject.broker, data)) - before;
  };
  const [on, off] = [await records("on"), await records("off")];
  if (on !== 1 || off !== 0)
    throw new BenchFailed(
      `the delivery log has ${on} records where it is on, and ${off} where off`,
    );
}

/** How many refused requests the delivery log has. */
async function recordsOf(nats: string, data: string): Promise<number> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [COMMAND, "deliveries", "--status", "refused", "--json", "--data", data],
    { env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats }, maxBuffer: 2 ** 28 },
  );
  return stdout.split("\n").filter((line) => line !== "").length;
}
