/** `agents export` and `agents import`, as people run them: the agent stays the same one. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("./keeperModule.ts", import.meta.url));
/** Past it: events lie in the blob store. */
const PAYLOAD_BYTES_MAX = 256 * 1024;
const LARGE_BYTES = 2 * PAYLOAD_BYTES_MAX;
/** Later than the copy is made, soon enough to be waited for. */
const SOON_SECONDS = 20;

let file: string;
let source: Installation;
let target: Installation;
/** The source's, when the copy was made. */
let before: Kept;
let soonMs: number;

interface Kept {
  readonly state: { readonly notes: number; readonly last: string; readonly rung: string[] };
  readonly notes: ReadonlyArray<string>;
  readonly schedules: ReadonlyArray<{ readonly payload: string; readonly time: number }>;
}

const agents = (installation: Installation, ...args: string[]) => installation.agents(...args);

const install = (options: { readonly shards: number; readonly streamGroups?: number }) =>
  Installation.start({
    leaseTtlMs, module: MODULE, gateway: false, maxPayload: PAYLOAD_BYTES_MAX, ...options,
  }); // prettier-ignore

async function startHost(installation: Installation, env: Record<string, string> = {}) {
  const host = await installation.startHost("host", { env });
  await host.ready();
  return host;
}

const call = (installation: Installation, name: string, method: string, ...args: unknown[]) =>
  installation.call(agentId("Keeper", name), method, ...args);
const inboxDepth = ({ ports }: Installation): Promise<number> => ports.inbox.depth();
const all = async (installation: Installation, name: string): Promise<Kept> =>
  (await call(installation, name, "all")) as Kept;
const without = ({ schedules, ...kept }: Kept, payload: string) => ({
  ...kept,
  schedules: schedules.filter((schedule) => schedule.payload !== payload),
});

beforeAll(async () => {
  [source, target] = await Promise.all([
    install({ shards: 2 }),
    install({ shards: 8, streamGroups: 4 }),
  ]);
  file = source.pathOf("agent.jsonl");
  const host = await startHost(source, { HOLD: "1" });
  for (let n = 0; n < 40; n++) await call(source, "first", "note", `note ${n} 🦉`);
  await source.publish(agentId("Keeper", "first"), { key: "hook:1" }, "y".repeat(LARGE_BYTES));
  await call(source, "first", "enqueue", "dies");
  await call(source, "first", "plan", 3_600, "later");
  await pollUntil("the webhook is done", async () => {
    const { state } = await all(source, "first");
    return state.notes === 41 || { done: false, saw: state.notes };
  });
  await call(source, "first", "enqueueSlow", "queued one");
  await call(source, "first", "enqueueSlow", "queued two");
  await call(source, "first", "plan", SOON_SECONDS, "soon");
  soonMs = Date.now() + SOON_SECONDS * 1_000;
  before = await all(source, "first");
  // So the source never does what waits: only the copy can.
  await host.kill();
  const exported = await agents(source, "export", "keeper", "first");
  expect(exported.err).toMatch(/^Keeper\/first: \d+ events\n$/);
  expect(exported.code).toBe(0);
  writeFileSync(file, exported.out);
});

afterAll(async () => {
  await source?.kill();
  await target?.kill();
});

describe("agents export and import", () => {
  it("refuse a file that is damaged or cut off, and write nothing", async () => {
    const text = readFileSync(file, "utf8");
    const bad = target.pathOf("bad.jsonl");
    const lines = text.trimEnd().split("\n");
    const at = text.indexOf('"event":"') + 400;
    const flipped = text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
    const cases: ReadonlyArray<readonly [string, string]> = [
      [flipped, "checksum"],
      [lines.slice(0, -1).join("\n"), "cut off"],
      [[...lines.slice(0, 3), ...lines.slice(4)].join("\n"), "events"],
      [[lines[0], lines[2], lines[1], ...lines.slice(3)].join("\n"), "after event"],
      [text.replace('"v":1', '"v":2'), "version 2"],
      [text.replace('"formats":1', '"formats":2'), "of a newer release"],
      [text.replace('"formats":1', '"formats":{"toString":0}'), '"formats" is not a whole number'],
      ["", "empty"],
    ];
    for (const [content, why] of cases) {
      writeFileSync(bad, content);
      const refused = await agents(target, "import", bad);
      expect(refused.code).toBe(1);
      expect(refused.err).toContain("nothing was written");
      expect(refused.err).toContain(why);
    }
    expect((await agents(target, "import", target.pathOf("none"))).err).toContain("none");
    expect((await agents(target, "list")).out).toBe("");
  });

  it("carry an agent to another installation with the same state, SQL, history and schedules", async () => {
    const imported = await agents(target, "import", file, "--json");
    expect(imported).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(imported.out)).toMatchObject({ class: "Keeper", name: "first", timers: 2 });
    for (const looking of [
      ["state", "Keeper", "first", "--json"],
      ["sql", "Keeper", "first", "SELECT * FROM notes", "--json"],
      ["sql", "Keeper", "first", "SELECT name, sql FROM sqlite_master", "--json"],
      ["schedules", "Keeper", "first", "--json"],
    ]) {
      const [there, here] = await Promise.all([source, target].map((i) => agents(i, ...looking)));
      expect(here!.code).toBe(0);
      // `seq` counts anew in another stream.
      expect(here!.out.replace(/"seq":\d+/g, "")).toBe(there!.out.replace(/"seq":\d+/g, ""));
    }
    const [there, here] = await Promise.all(
      [source, target].map((i) => agents(i, "history", "Keeper", "first", "--json")),
    );
    const causes = (text: string) =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => (JSON.parse(line) as { cause: { kind: string } }).cause.kind);
    expect(causes(here!.out)).toEqual(causes(there!.out));
  });

  it("refuse to overwrite an existing agent, and leave it unchanged", async () => {
    const again = await agents(target, "import", file);
    expect(again.code).toBe(1);
    expect(again.err).toContain("exists here");
    expect(again.err).toContain("--as");
  });

  it("carry its queue and schedules, which run once there is a host, without a call", async () => {
    await startHost(target);
    await pollUntil(
      "the queue is done and the schedule has rung",
      async () => {
        const looked = await agents(target, "state", "Keeper", "first", "--json");
        const { state } = JSON.parse(looked.out) as { state: Kept["state"] };
        return state.rung.length === 3 || { done: false, saw: state };
      },
      { intervalMs: 250 },
    );
    expect(Date.now()).toBeGreaterThan(soonMs);
    const kept = await all(target, "first");
    expect(kept.state.rung.toSorted()).toEqual(["queued one", "queued two", "soon"]);
    expect(without(kept, "soon")).toEqual({
      ...without(before, "soon"),
      state: { ...before.state, rung: kept.state.rung },
    });
    expect(kept.schedules.map(({ payload }) => payload)).toEqual(["later"]);
    await pollUntil("its inbox is empty", async () => {
      const depth = await inboxDepth(target);
      return depth === 0 || { done: false, saw: depth };
    });
    expect(await call(target, "first", "note", "lives on")).toBe(42);
  });

  it("carry the processed webhooks: a redelivery is a duplicate", async () => {
    await target.publish(agentId("Keeper", "first"), { key: "hook:1" }, "again");
    await pollUntil("it is taken", async () => (await inboxDepth(target)) === 0);
    expect((await all(target, "first")).state.notes).toBe(42);
  });

  it("make a copy under another name, and restore an erased agent", async () => {
    const copied = await agents(target, "import", file, "--as", "a copy / of it");
    expect(copied).toMatchObject({ code: 0 });
    expect(without(await all(target, "a copy / of it"), "soon").notes).toEqual(before.notes);
    expect(await agents(target, "erase", "Keeper", "first", "--yes")).toMatchObject({ code: 0 });
    expect(await agents(target, "import", file)).toMatchObject({ code: 0 });
    expect((await all(target, "first")).notes).toEqual(before.notes);
    expect(await call(target, "first", "note", "lives again")).toBe(42);
  });

  it("exit with 3 for an unknown agent", async () => {
    expect(await agents(target, "export", "Keeper", "nobody")).toMatchObject({ code: 3, out: "" });
  });
});
