/** The process that trims is killed around each step of a trim: no event is lost. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type AgentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { startS3 } from "../kit/s3Server.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import type { DiePoint } from "./keptAheadModule.ts";

const MODULE = fileURLToPath(new URL("./keptAheadModule.ts", import.meta.url));
const EVENTS = 12;
/** What the class keeps. */
const KEPT = 3;
const folder = tempFolder("archive");
const archive = pathToFileURL(folder.path).href;
/** What a process leaves that dies there. */
interface Left {
  /** An index whose segment is not stored. */
  readonly half: boolean;
  readonly bases: number;
  readonly events: number;
}
const left = (half: boolean, bases: number, events = EVENTS): Left => ({ half, bases, events });
const POINTS: Readonly<Record<DiePoint, Left>> = {
  "before index": left(false, 0),
  "after index": left(true, 0),
  "before segment": left(true, 0),
  "after segment": left(false, 0),
  "before first base": left(false, 0),
  "after first base": left(false, 1),
  "before second base": left(false, 1),
  "after second base": left(false, 2),
  "before trim": left(false, 2),
  "after trim": left(false, 2, KEPT),
};
const points = Object.entries(POINTS).map(([point, leaves], n) => ({
  point,
  leaves,
  id: agentId("Kept", `agent-${n}`),
}));
const ids = points.map(({ id }) => id);
const frames = new Map<string, Uint8Array[]>();
let installation: Installation;
let ports: Installation["ports"];

async function store(id: AgentId): Promise<void> {
  let after = 0 as Sequence;
  frames.set(id.name, []);
  for (let n = 1; n <= EVENTS; n++) {
    const data = encodeEvent({
      id: `${id.name}-${n}`, agent: [id.class, id.name], kind: "turns", host: "h", epoch: 0 as Epoch, time: Date.now(), after,
      turns: [{ cause: { kind: "rpc" }, state: { set: { n, of: id.name } }, done: [`key-${n}`] }],
    }); // prettier-ignore
    const signal = AbortSignal.timeout(20_000);
    const stored = await ports.journal.append(id, data, { expectedSeq: after, signal });
    if (stored._tag !== "Stored") throw new Error(stored._tag);
    after = stored.seq;
    frames.get(id.name)!.push(data);
  }
}

async function untrimmed(): Promise<number> {
  let count = 0;
  for await (const { events } of ports.journal.list("Kept")) if (events > KEPT) count++;
  return count;
}

async function countOf(id: AgentId): Promise<number> {
  for await (const entry of ports.journal.list(id.class))
    if (entry.id.name === id.name) return entry.events;
  return 0;
}

/** Whether a segment with a part of the agent has its index stored, and not itself. */
function isHalfArchived({ name: agent }: AgentId): boolean {
  const files = readdirSync(folder.path, { recursive: true, encoding: "utf8" });
  const names = new Set(files);
  return files.some((name) => {
    if (!name.endsWith(".index.json") || names.has(name.replace(".index.json", ".jsonl.gz")))
      return false;
    const index = JSON.parse(readFileSync(join(folder.path, name), "utf8")) as {
      readonly parts: ReadonlyArray<{ readonly name: string }>;
    };
    return index.parts.some((part) => part.name === agent);
  });
}

/** Resolves to what it said, when it has ended. */
async function diesAt(point: string, name: string): Promise<string> {
  const env = { DIE_AT: point, DIE_OF: name };
  try {
    const running = await installation.startRetention({ args: ["--archive", archive], env });
    await pollUntil(
      `it dies ${point}`,
      () => running.exitCode !== undefined || { done: false, saw: running.told() },
    );
    return running.told();
  } catch (error) {
    return String(error); // it died before it said that it serves
  }
}

beforeAll(async () => {
  installation = await Installation.start({
    shards: 4, leaseTtlMs: 1_000, module: MODULE, gateway: false, archive,
  }); // prettier-ignore
  ({ ports } = installation);
});
afterAll(async () => {
  await installation?.kill();
  folder.remove();
});

test("a walk that is killed before or after any step loses nothing, and the next one continues", async () => {
  for (const { point, id, leaves } of points) {
    await store(id);
    expect(await diesAt(point, id.name)).toContain(`dies ${point} of ${id.name}`);
    const bases = (await ports.snapshots.bases(id))?.copies.length ?? 0;
    // The walk goes on with other agents meanwhile, whose segments may be half stored.
    const half = isHalfArchived(id);
    expect({ point, half, bases, events: await countOf(id) }).toEqual({ point, ...leaves });
  }
  const last = await installation.startRetention({ args: ["--archive", archive] });
  await pollUntil("all are trimmed", async () => (await untrimmed()) === 0, { timeoutMs: 60_000 });
  await last.stop();
  for (const id of ids) {
    const whole: Uint8Array[] = [];
    for await (const { data } of ports.journal.read(id, { fromSeq: 1 as Sequence }))
      whole.push(data);
    expect([id.name, whole.length]).toEqual([id.name, EVENTS]);
    for (const [n, frame] of frames.get(id.name)!.entries())
      expect(Buffer.compare(whole[n]!, frame)).toBe(0);
    const { image, state, database } = await rebuildAgent(id, ports);
    database.close();
    expect(state).toEqual({ n: EVENTS, of: id.name });
    expect(image.done.size).toBe(EVENTS);
  }
});

test("an archive in a bucket works the same: if missing it stops trimming, and commands read the right one", async () => {
  const s3 = await startS3();
  const id = agentId("Kept", "in-a-bucket");
  const running = (bucket: string) =>
    installation.startRetention({ args: ["--archive", `s3://${bucket}/agents`], env: s3.env });
  try {
    await store(id);
    const wrong = await running("another");
    await pollUntil("it says why", async () => {
      const saw = await (await wrong.admin("/readyz")).text();
      return /NoSuchBucket \(404\).*Create the bucket another/.test(saw) || { done: false, saw };
    });
    await wrong.stop();
    expect(await countOf(id)).toBe(EVENTS);
    const right = await running(s3.bucket);
    await pollUntil("it is trimmed", async () => (await countOf(id)) === KEPT, {
      timeoutMs: 60_000,
    });
    await right.stop();
    const history = await runAgents(
      ["history", "Kept", id.name, "--json", "--archive", `s3://${s3.bucket}/agents`],
      { NATS_URL: installation.nats.url, ...s3.env },
    );
    expect(history).toMatchObject({ code: 0 });
    expect(history.out.trim().split("\n")).toHaveLength(EVENTS);
  } finally {
    await s3.stop();
  }
});
