/**
 * `npm run bench [-- name …] [options]`: runs benches one after another and prints each result as a
 * table and as JSON. What each measures is in the file of its name.
 */
import { appendFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { activation } from "./activation.ts";
import { backup } from "./backup.ts";
import { BenchFailed, type Bench, type BenchOptions } from "./Bench.ts";
import { describeMachine } from "./rig/describeMachine.ts";
import { peers } from "./peers.ts";
import { printResult } from "./printResult.ts";
import { consoleBench } from "./console.ts";
import { crowd } from "./crowd.ts";
import { flood } from "./flood.ts";
import { growth } from "./growth.ts";
import { hold } from "./hold.ts";
import { hot } from "./hot.ts";
import { memory } from "./memory.ts";
import { query } from "./query.ts";
import { replay } from "./replay.ts";
import { requests } from "./requests.ts";
import { rpc } from "./rpc.ts";
import { rare } from "./rare.ts";
import { schedules } from "./schedules.ts";
import { slowQuery } from "./slowQuery.ts";
import { sockets } from "./sockets.ts";
import { start } from "./start.ts";
import { steps } from "./steps.ts";
import { webhooks } from "./webhooks.ts";

const BENCHES: ReadonlyArray<Bench> = [
  webhooks,
  hot,
  activation,
  replay,
  sockets,
  rpc,
  requests,
  steps,
  rare,
  schedules,
  crowd,
  flood,
  hold,
  memory,
  start,
  growth,
  query,
  slowQuery,
  consoleBench,
  backup,
];

/** Run only when named: they need packages and servers of others. */
const ON_DEMAND: ReadonlyArray<Bench> = [peers];

const HELP = `npm run bench [-- name …] [options]

${[...BENCHES, ...ON_DEMAND].map((bench) => `  ${bench.name.padEnd(12)}${bench.about}`).join("\n")}

  --rounds <n>        interleaved repeats (default 3)
  --seconds <n>       of one measurement (default 6)
  --form <name>       only this form of a bench; may be repeated
  --sync-always       the broker fsyncs each message before its ack
  --stream-groups <n> streams each of inbox, journal and snapshots (default 1; webhooks, hot)
  --agents <n>        how many (default 10,000; query)
  --profile <folder>  CPU profiles of our processes
  --json <file>       append each result's JSON there too`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "6" },
    form: { type: "string", multiple: true, default: [] },
    "sync-always": { type: "boolean", default: false },
    "stream-groups": { type: "string", default: "1" },
    agents: { type: "string" },
    profile: { type: "string" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

const options: BenchOptions = {
  rounds: positive("rounds", values.rounds),
  seconds: positive("seconds", values.seconds),
  syncAlways: values["sync-always"],
  streamGroups: positive("stream-groups", values["stream-groups"]),
  forms: values.form,
  agents: values.agents === undefined ? undefined : positive("agents", values.agents),
  profile: values.profile,
  say: (line) => void process.stderr.write(`${line}\n`),
};

function positive(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new BenchFailed(`--${name} ${text}: give a whole number above 0`);
}

async function runAll(): Promise<void> {
  if (values.help) return console.log(HELP);
  const unknown = positionals.filter(
    (name) => ![...BENCHES, ...ON_DEMAND].some((bench) => bench.name === name),
  );
  if (unknown.length > 0) throw new BenchFailed(`no bench "${unknown.join(", ")}".\n\n${HELP}`);
  const chosen = [...BENCHES, ...ON_DEMAND].filter((bench) => positionals.includes(bench.name));
  for (const bench of positionals.length > 0 ? chosen : BENCHES) {
    const machine = describeMachine();
    const result = await bench.run(options);
    printResult(bench.name, machine, result, console.log);
    if (values.json !== undefined)
      appendFileSync(values.json, `${JSON.stringify({ bench: bench.name, machine, ...result })}\n`);
  }
}

try {
  await runAll();
} catch (error) {
  console.error(error instanceof BenchFailed ? error.message : error);
  process.exitCode = 1;
}
