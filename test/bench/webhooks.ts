/**
 * The main job, end to end: a signed webhook of about 300 bytes to one of 1,000 agents, stored,
 * run (state and one SQL insert), journaled, and answered 200 by the agent. Beside the floor: the least
 * that any system of this shape must do. All of them stay up; rounds take them in turn, forwards and
 * backwards, so that whatever else the machine does meets each alike.
 */
import { connect } from "@nats-io/transport-node";
import { tempFolder } from "../kit/tempFolder.ts";
import type { Bench, BenchOptions, BenchRow } from "./Bench.ts";
import { checkCounts } from "./checkCounts.ts";
import { findFloor } from "./findFloor.ts";
import { runWrk, type WrkRun } from "./runWrk.ts";
import { startFloor } from "./startFloor.ts";
import { startOurs, type Form } from "./startOurs.ts";
import { median } from "./statistics.ts";
import type { Subject } from "./Subject.ts";

/** Enough that every step is busy, as the floor's own figures have it. */
const CONNECTIONS = 64;
/** For latency: nothing queues. */
const CONNECTIONS_FEW = 4;
/** Agents come to life, code gets compiled. */
const WARM_UP_SECONDS = 4;

interface Measured extends WrkRun {
  readonly subject: string;
  /** Microseconds of processor time a webhook, in the Node processes and in nats-server. */
  readonly nodeUs: number;
  readonly brokerUs: number;
}

export const webhooks: Bench = {
  name: "webhooks",
  about: 'signed webhooks end to end beside the floor (--form "one process", "two processes")',
  run: async (options) => {
    const files = findFloor();
    const folder = tempFolder("bench-load");
    const subjects: Subject[] = [];
    const runs = new Map<Subject, WrkRun[]>();
    const measured: Measured[] = [];
    let tags = 0;
    const load = async (subject: Subject, connections: number, seconds: number) => {
      const tag = `${Date.now().toString(36)}-${(tags += 1)}`;
      const before = subject.cpuSeconds();
      const run = await runWrk(subject, { files, folder: folder.path, tag, seconds, connections });
      const after = subject.cpuSeconds();
      runs.set(subject, [...(runs.get(subject) ?? []), run]);
      const us = (cpuSeconds: number): number => (cpuSeconds * 1e6) / run.answered;
      const found = {
        ...run,
        subject: subject.name,
        nodeUs: us(after.node - before.node),
        brokerUs: us(after.broker - before.broker),
      };
      options.say(
        `  ${subject.name}, ${connections} connections: ${Math.round(run.perSecond)}/s, p50 ${run.p50Ms} ms, p99 ${run.p99Ms} ms`,
      );
      return found;
    };
    try {
      options.say("starting, then warming up");
      subjects.push(await startFloor(files.floor, options));
      for (const form of formsOf(options)) subjects.push(await startOurs(form, options));
      const server = await serverVersion(subjects[0]!.broker);
      for (const subject of subjects) await load(subject, CONNECTIONS, WARM_UP_SECONDS);
      for (const connections of [CONNECTIONS, CONNECTIONS_FEW])
        for (let round = 0; round < options.rounds; round += 1)
          for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
            measured.push(await load(subject, connections, options.seconds));
      for (const subject of subjects.slice(1)) await checkCounts(subject, runs.get(subject) ?? []);
      return {
        title: `signed, 300 B, 1,000 agents; ${options.rounds} × ${options.seconds} s each, medians`,
        server,
        durability: options.syncAlways
          ? "each message fsynced before its ack (sync_interval: always)"
          : "acked when written, fsynced every 2 minutes (nats-server's default)",
        rows: subjects.flatMap((subject) => [
          row(subject, measured, CONNECTIONS),
          row(subject, measured, CONNECTIONS_FEW),
        ]),
        raw: measured,
        notes: [
          "ratio: to the floor at as many connections, of medians. CPU: µs a webhook, of our Node processes and of nats-server.",
          "Checked: every answer was 200, and each agent counted its deliveries exactly once, in state and in SQL.",
          ...(options.profile === undefined ? [] : ["Profiled: ours is slower than it would be."]),
        ],
      };
    } finally {
      for (const subject of subjects) await subject.stop();
      folder.remove();
    }
  },
};

const formsOf = ({ forms }: BenchOptions): ReadonlyArray<Form> =>
  (["one process", "two processes"] as const).filter(
    (form) => forms.length === 0 || forms.includes(form),
  );

function row(subject: Subject, all: ReadonlyArray<Measured>, connections: number): BenchRow {
  const of = (name: string, value: (run: Measured) => number): number =>
    median(all.filter((run) => run.subject === name && run.connections === connections).map(value));
  const rate = of(subject.name, (run) => run.perSecond);
  return {
    name: `${subject.name}, ${connections} connections`,
    values: {
      "webhooks/s": rate,
      ratio: rate / of("floor", (run) => run.perSecond),
      "p50 ms": of(subject.name, (run) => run.p50Ms),
      "p50 ratio": of(subject.name, (run) => run.p50Ms) / of("floor", (run) => run.p50Ms),
      "p99 ms": of(subject.name, (run) => run.p99Ms),
      "p99 ratio": of(subject.name, (run) => run.p99Ms) / of("floor", (run) => run.p99Ms),
      "node CPU": of(subject.name, (run) => run.nodeUs),
      "nats CPU": of(subject.name, (run) => run.brokerUs),
    },
  };
}

async function serverVersion(url: string): Promise<string> {
  const client = await connect({ servers: url.replace("nats://", "") });
  const version = client.info?.version ?? "of an unknown version";
  await client.close();
  return version;
}
