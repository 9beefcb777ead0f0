/**
 * Signed webhooks against several subjects in one run. All of them stay up; rounds take them in
 * turn, forwards and backwards, so that other load on the machine affects each alike. The others
 * are compared with the first subject.
 */
import { connect } from "@nats-io/transport-node";
import { tempFolder } from "../../kit/tempFolder.ts";
import type { BenchOptions, BenchResult, BenchRow } from "../Bench.ts";
import { runWrk, type WrkRun } from "./runWrk.ts";
import type { FloorFiles } from "./findFloor.ts";
import { median } from "./statistics.ts";
import type { Subject } from "./Subject.ts";

/** Agents come to life, code gets compiled. */
const WARM_UP_SECONDS = 4;

interface Measured extends WrkRun {
  readonly subject: string;
  /** Microseconds of processor time a webhook, in the Node processes and in nats-server. */
  readonly nodeUs: number;
  readonly brokerUs: number;
}

export interface WebhookLoad {
  readonly files: FloorFiles;
  /** Started one after another; the first is the base. */
  readonly subjects: ReadonlyArray<() => Promise<Subject>>;
  /** Warmed up with the first. */
  readonly connections: ReadonlyArray<number>;
  /** Rejects if a subject did not count what was sent to it. Not called for the base. */
  readonly check: (subject: Subject, runs: ReadonlyArray<WrkRun>) => Promise<void>;
}

export async function measureWebhooks(
  options: BenchOptions,
  load: WebhookLoad,
): Promise<Pick<BenchResult, "server" | "durability" | "rows" | "raw">> {
  const folder = tempFolder("bench-load");
  const subjects: Subject[] = [];
  const runs = new Map<Subject, WrkRun[]>();
  const measured: Measured[] = [];
  let tags = 0;
  const measure = async (
    subject: Subject,
    connections: number,
    seconds: number,
  ): Promise<Measured> => {
    const tag = `${Date.now().toString(36)}-${(tags += 1)}`;
    const before = subject.cpuSeconds();
    const { files } = load;
    const run = await runWrk(subject, { files, folder: folder.path, tag, seconds, connections });
    const after = subject.cpuSeconds();
    runs.set(subject, [...(runs.get(subject) ?? []), run]);
    const us = (cpuSeconds: number): number => (cpuSeconds * 1e6) / run.answered;
    options.say(
      `  ${subject.name}, ${connections} connections: ${Math.round(run.perSecond)}/s, p50 ${run.p50Ms} ms, p99 ${run.p99Ms} ms`,
    );
    return {
      ...run,
      subject: subject.name,
      nodeUs: us(after.node - before.node),
      brokerUs: us(after.broker - before.broker),
    };
  };
  try {
    options.say("starting, then warming up");
    for (const start of load.subjects) subjects.push(await start());
    const server = await serverVersion(subjects[0]!.broker);
    for (const subject of subjects) await measure(subject, load.connections[0]!, WARM_UP_SECONDS);
    for (const connections of load.connections)
      for (let round = 0; round < options.rounds; round += 1)
        for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
          measured.push(await measure(subject, connections, options.seconds));
    for (const subject of subjects.slice(1)) await load.check(subject, runs.get(subject) ?? []);
    const base = subjects[0]!.name;
    return {
      server,
      durability: options.syncAlways
        ? "each message fsynced before its ack (sync_interval: always)"
        : "acked when written, fsynced every 2 minutes (nats-server's default)",
      rows: subjects.flatMap(({ name }) =>
        load.connections.map((connections) => row(name, base, measured, connections)),
      ),
      raw: measured,
    };
  } finally {
    for (const subject of subjects) await subject.stop();
    folder.remove();
  }
}

function row(
  subject: string,
  base: string,
  all: ReadonlyArray<Measured>,
  connections: number,
): BenchRow {
  const of = (name: string, value: (run: Measured) => number): number =>
    median(all.filter((run) => run.subject === name && run.connections === connections).map(value));
  const rate = of(subject, (run) => run.perSecond);
  return {
    name: `${subject}, ${connections} connections`,
    values: {
      "webhooks/s": rate,
      ratio: rate / of(base, (run) => run.perSecond),
      "p50 ms": of(subject, (run) => run.p50Ms),
      "p50 ratio": of(subject, (run) => run.p50Ms) / of(base, (run) => run.p50Ms),
      "p99 ms": of(subject, (run) => run.p99Ms),
      "p99 ratio": of(subject, (run) => run.p99Ms) / of(base, (run) => run.p99Ms),
      "node CPU": of(subject, (run) => run.nodeUs),
      "nats CPU": of(subject, (run) => run.brokerUs),
    },
  };
}

export async function serverVersion(url: string): Promise<string> {
  const client = await connect({ servers: url.replace("nats://", "") });
  const version = client.info?.version ?? "of an unknown version";
  await client.close();
  return version;
}
