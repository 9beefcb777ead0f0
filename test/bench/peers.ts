/**
 * The webhook bench's agent on other systems, on demand (`-- peers`): the reference package on
 * workerd with disk storage, Restate, a handler by hand on Postgres; beside ours as it is and with
 * a broker that fsyncs. Each at its own durable default, rounds interleaved. What can't be started
 * is named and left out.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempFolder } from "../kit/tempFolder.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { findFloor } from "./rig/findFloor.ts";
import { runWrk, type WrkRun } from "./rig/runWrk.ts";
import { serverVersion } from "./rig/startAgents.ts";
import { startOurs } from "./rig/startOurs.ts";
import { installPeers, startPostgres, startReference, startRestate } from "./rig/startPeers.ts";
import { median } from "./rig/statistics.ts";
import type { Subject } from "./rig/Subject.ts";

const LUA = join(fileURLToPath(new URL("./peers/", import.meta.url)), "deliver.lua");
/** As the webhook bench. */
const CONNECTIONS = 64;
/** All 1,000 agents come to life: the reference makes about a hundred a second. */
const WARM_UP_SECONDS = 15;
const OURS = "ours, one process";

interface Measured extends WrkRun {
  readonly subject: string;
}

export const peers: Bench = {
  name: "peers",
  about: "the same agent on the reference package, Restate, Postgres (only when named)",
  run: async (options) => {
    const files = { ...findFloor(), lua: LUA };
    const load = tempFolder("bench-load");
    const notes: string[] = [];
    const subjects: Subject[] = [];
    const measured: Measured[] = [];
    const folder = await installPeers();
    const starts: ReadonlyArray<readonly [string, () => Promise<Subject>]> = [
      [OURS, () => startOurs("one process", { ...options, syncAlways: false })],
      [`${OURS}, fsync`, () => startOurs("one process", { ...options, syncAlways: true })],
      ["reference on workerd", () => startReference(folder)],
      ["Restate", () => startRestate(folder)],
      ["node + Postgres", () => startPostgres(folder, true)],
      ["node + Postgres, fsync off", () => startPostgres(folder, false)],
    ];
    let tags = 0;
    const run = async (subject: Subject, seconds: number): Promise<Measured> => {
      const tag = `${Date.now().toString(36)}-${(tags += 1)}`;
      const how = { files, folder: load.path, tag, seconds, connections: CONNECTIONS };
      const found = { ...(await runWrk(subject, how)), subject: subject.name };
      if (found.answered === 0) throw new BenchFailed(`${subject.name} answered nothing`);
      options.say(`  ${subject.name}: ${Math.round(found.perSecond)}/s, p50 ${found.p50Ms} ms`);
      return found;
    };
    try {
      for (const [name, start] of starts) {
        if (options.forms.length > 0 && !options.forms.includes(name)) continue;
        options.say(`starting ${name}`);
        try {
          const subject = { ...(await start()), name };
          await run(subject, WARM_UP_SECONDS).catch(async (error: unknown) => {
            await subject.stop();
            throw error;
          });
          subjects.push(subject);
        } catch (error) {
          notes.push(`${name} did not run: ${String(error)}`);
          options.say(notes.at(-1)!);
        }
      }
      for (let round = 0; round < options.rounds; round += 1)
        for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
          measured.push(await run(subject, options.seconds));
      const broker = subjects.find((subject) => subject.broker !== "")?.broker;
      return {
        title: `signed, 300 B, 1,000 agents, ${CONNECTIONS} connections; ${options.rounds} × ${options.seconds} s, medians`,
        server: broker === undefined ? "not in this run" : await serverVersion(broker),
        durability: "each at its own default, unless its name says otherwise",
        rows: subjects.map(({ name }) => row(name, measured)),
        raw: measured,
        notes: [
          "ratio: ours to it. Restate's ingress checks no signature; the others check it.",
          ...notes,
        ],
      };
    } finally {
      for (const subject of subjects) await subject.stop();
      load.remove();
      folder.remove();
    }
  },
};

function row(name: string, all: ReadonlyArray<Measured>): BenchRow {
  const of = (subject: string, value: (run: Measured) => number): number =>
    median(all.filter((run) => run.subject === subject).map(value));
  const rate = of(name, (run) => run.perSecond);
  return {
    name,
    values: {
      "webhooks/s": rate,
      "ours is": of(OURS, (run) => run.perSecond) / rate,
      "ours, fsync is": of(`${OURS}, fsync`, (run) => run.perSecond) / rate,
      "p50 ms": of(name, (run) => run.p50Ms),
      "p99 ms": of(name, (run) => run.p99Ms),
    },
  };
}
