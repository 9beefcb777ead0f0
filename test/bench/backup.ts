/**
 * Saves, verifies and restores a whole installation (`agents backup`, `verify`, `restore`) with the
 * load of an hour. Agents are copies of one that has run real turns, so that events have the size
 * and the page deltas of a small webhook.
 */
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { transplant } from "../../core/journal/transplant.ts";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { BenchFailed, type Bench, type BenchOptions, type BenchRow } from "./Bench.ts";
import { agentNamed, durabilityOf, openBenchHost, type BenchHost } from "./rig/BenchHost.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import { ROOT } from "./rig/findFloor.ts";
import { median } from "./rig/statistics.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MAIN = join(ROOT, "dist/services/cli/main.js");
const AGENTS_DEFAULT = 10_000;
const EVENTS_EACH = 20;
const STORING_AT_ONCE = 256; // as many as keep the broker busy
const S_PER_HOUR = 3_600;
const JOBS = [1, 2] as const;

export const backup: Bench = {
  name: "backup",
  about: "all agents saved, verified and restored: what a second and an hour carry (--agents)",
  run: async (options) => {
    const agents = options.agents ?? AGENTS_DEFAULT;
    const host = await openBenchHost(options);
    const folder = tempFolder("bench-backup");
    try {
      options.say(`storing ${agents} agents with ${EVENTS_EACH} events each`);
      const bytes = await store(host, agents);
      const rows = await measure(host, { folder: folder.path, agents, bytes, options });
      return {
        title: `${agents} agents, ${EVENTS_EACH} events each, ${(bytes / 1e6).toFixed(0)} MB of frames; medians`,
        server: host.serverVersion,
        durability: durabilityOf(options),
        rows,
        raw: rows,
        notes: [
          "seconds: of the whole command, from its start. CPU: processor seconds of the command and the processes that it starts, without the broker's.",
          "MB: of frames as the journals have them. Per CPU second: what one processor carries that does nothing else.",
        ],
      };
    } finally {
      await host.close();
      folder.remove();
    }
  },
};

interface Took {
  readonly seconds: number;
  readonly cpu: number;
}

/** Measured by bash, which includes the child processes of a command. */
async function run(url: string, namespace: string, ...args: string[]): Promise<Took> {
  const script = 'TIMEFORMAT="measured %R %U %S"; time "$@"';
  const { stderr } = await promisify(execFile)(
    "bash",
    ["-c", script, "bash", process.execPath, MAIN, ...args],
    { env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C", NATS_URL: url, AGENTS_NAMESPACE: namespace } }, // prettier-ignore
  );
  const [, seconds, user, system] = /measured (\S+) (\S+) (\S+)/.exec(stderr) ?? [];
  if (system === undefined) throw new BenchFailed(`${args[0]} measured nothing: ${stderr}`);
  return { seconds: Number(seconds), cpu: Number(user) + Number(system) };
}

interface Measured {
  readonly folder: string;
  readonly agents: number;
  readonly bytes: number;
  readonly options: BenchOptions;
}

async function measure(host: BenchHost, measured: Measured): Promise<ReadonlyArray<BenchRow>> {
  const { folder, agents, bytes, options } = measured;
  const took = new Map<string, Took[]>();
  const note = (name: string, one: Took): void => {
    took.set(name, [...(took.get(name) ?? []), one]);
    options.say(`  ${name}: ${one.seconds} s, ${one.cpu.toFixed(2)} s of processor time`);
  };
  for (let round = 0; round < options.rounds; round++) {
    const saved = join(folder, `${round}`);
    note("backup", await run(host.url, "agents", "backup", saved));
    for (const jobs of JOBS) {
      const args = ["verify", saved, "--jobs", `${jobs}`];
      note(`verify --jobs ${jobs}`, await run(host.url, "agents", ...args));
    }
    const namespace = `restored-${round}`;
    await run(host.url, namespace, "provision");
    note("restore", await run(host.url, namespace, "restore", saved));
  }
  const rows = [...took].map(([name, all]): BenchRow => {
    const seconds = median(all.map((one) => one.seconds));
    const cpu = median(all.map((one) => one.cpu));
    const events = agents * EVENTS_EACH;
    return {
      name,
      values: {
        seconds,
        CPU: cpu,
        "agents/s": agents / seconds,
        "events/s": events / seconds,
        "MB/s": bytes / seconds / 1e6,
        "events/CPU s": events / cpu,
        "MB/CPU s": bytes / cpu / 1e6,
        "GB/h": (bytes / seconds / 1e9) * S_PER_HOUR,
      },
    };
  });
  const last = join(folder, `${options.rounds - 1}`);
  const files = readdirSync(last).map((name) => statSync(join(last, name)).size);
  const size = files.reduce((sum, one) => sum + one, 0);
  return [...rows, { name: "the folder", values: { MB: size / 1e6, files: files.length } }];
}

/** Returns the bytes of all frames. */
async function store(host: BenchHost, agents: number): Promise<number> {
  await host.write("template", EVENTS_EACH);
  const { journal } = host.services;
  const events: Uint8Array[] = [];
  for await (const { data } of journal.read(agentNamed("template"), { fromSeq: 1 as Sequence }))
    events.push(data);
  let bytes = 0;
  const append = async (n: number): Promise<void> => {
    const id = agentId("RecordingAgent", `agent-${n}`);
    let expectedSeq = 0 as Sequence;
    for (const event of events) {
      const data = transplant(event, { id, epoch: 1 as Epoch });
      const signal = AbortSignal.timeout(60_000);
      const stored = await journal.append(id, data, { expectedSeq, signal });
      if (stored._tag !== "Stored") throw new BenchFailed(`${id.name}: ${stored._tag}`);
      expectedSeq = stored.seq;
      bytes += data.length;
    }
  };
  await inParallel(Array(agents).keys(), STORING_AT_ONCE, append);
  return bytes;
}
