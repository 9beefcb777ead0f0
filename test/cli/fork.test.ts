/** `agents fork`, as people run it: a second agent of a point in history, on its own from then. */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { copyAgent } from "../../services/cli/agents/copyAgent.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./keeperModule.ts", import.meta.url));
/** Larger than a message of this test's broker, so that the event is in the blob store. */
const LARGE_BYTES = 600_000;

let installation: Installation;
let ports: Installation["ports"];
let call: ReturnType<Installation["caller"]>;
const agents = (...args: string[]) => installation.agents(...args);
interface Kept {
  readonly state: { readonly notes: number; readonly rung: string[] };
  readonly notes: string[];
  readonly schedules: ReadonlyArray<{ readonly payload: string }>;
}
/** What its journal holds, by those who read it. */
async function seqNow(name: string): Promise<number> {
  return (await ports.journal.last(agentId("Keeper", name)))!.seq;
}

beforeAll(async () => {
  installation = await Installation.start({
    shards: 4, module: MODULE, gateway: false, maxPayload: 256 * 1024,
  }); // prettier-ignore
  ({ ports } = installation);
  call = installation.caller("Keeper");
  // One agent below looks at the classes; the others do not see a difference.
  const args = ["--fetch-classes", "platform"];
  await (await installation.startHost("host", { args })).ready();
});
afterAll(() => installation?.kill());

test("--fetch-classes platform leaves the platform's own classes in place", async () => {
  expect(await call("looks", "hasPlatformClasses")).toBe(true);
});

test("a fork, an export and an import name the sub-agents that they leave out", async () => {
  await call("parent", "note", "one");
  const before = await seqNow("parent");
  await call("parent", "adopt", "k1");
  await call("parent", "adopt", "k2");
  const named =
    "Not copied with it: 2 sub-agents (Kid//Keeper/parent/k1, Kid//Keeper/parent/k2). Copy each by itself.\n";
  const exported = await agents("export", "keeper", "parent");
  expect(exported.err).toContain(named);
  const file = installation.pathOf("parent.jsonl");
  writeFileSync(file, exported.out);
  const imported = await agents("import", file, "--as", "parent4");
  expect([imported.code, imported.err]).toEqual([
    0,
    "Not imported with it: 2 sub-agents (Kid//Keeper/parent/k1, Kid//Keeper/parent/k2). Import each by itself.\n",
  ]);
  expect((await agents("fork", "keeper", "parent", "parent2")).err).toBe(named);
  const early = await agents("fork", "keeper", "parent", "parent3", "--at", String(before));
  expect(early).toMatchObject({ code: 0, err: "" });
});

test("a fork equals the original at that point, and the two then diverge", async () => {
  await call("first", "note", "one");
  await call("first", "noteLong", LARGE_BYTES);
  await call("first", "plan", 3_600, "later");
  const then = await call<Kept>("first", "all");
  const seq = await seqNow("first");
  await call("first", "note", "three");
  await call("first", "plan", 7_200, "much later");

  const forked = await agents("fork", "keeper", "first", "second", "--at", String(seq), "--json");
  expect(forked).toMatchObject({ code: 0, err: "" });
  expect(JSON.parse(forked.out)).toMatchObject({ class: "Keeper", name: "second", seq, timers: 1 });
  expect(await call<Kept>("second", "all")).toEqual(then);
  expect(await call("second", "note", "of the second")).toBe(3);
  expect((await call<Kept>("second", "all")).notes.at(-1)).toBe("of the second");
  expect((await call<Kept>("first", "all")).notes.at(-1)).toBe("three");

  const now = await agents("fork", "Keeper", "first", "third");
  expect(now.out).toMatch(/^Keeper\/third was forked from Keeper\/first at sequence \d+: \d+ events, 2 timers armed\.\n$/); // prettier-ignore
  expect(await call<Kept>("third", "all")).toEqual(await call<Kept>("first", "all"));
});

test("a fork's schedules run without a call", async () => {
  await call("bell", "plan", 3, "soon");
  expect(await agents("fork", "Keeper", "bell", "its fork")).toMatchObject({ code: 0 });
  for (const name of ["bell", "its fork"])
    await pollUntil(
      `${name} has rung`,
      async () => {
        const looked = await agents("state", "Keeper", name, "--json");
        const { state } = JSON.parse(looked.out) as Kept;
        return state.rung.join() === "soon" || { done: false, saw: state };
      },
      { intervalMs: 250 },
    );
});

test("a copy of an agent that is erased meanwhile is called incomplete", async () => {
  for (const text of ["one", "two", "three"]) await call("leaving", "note", text);
  const [from, to] = [agentId("Keeper", "leaving"), agentId("Keeper", "half of it")];
  const journal: ReadPorts["journal"] = {
    ...ports.journal,
    read: async function* (id, range) {
      for await (const event of ports.journal.read(id, range)) {
        yield event;
        await agents("erase", "Keeper", "leaving", "--yes");
        return;
      }
    },
  };
  const toSeq = (await seqNow("leaving")) as Sequence;
  const copying = copyAgent({ ...ports, journal }, ports, machineTime, {
    from,
    to,
    toSeq,
    advice: "",
  });
  await expect(copying).rejects.toThrow(
    "The history of Keeper/leaving was removed while it was copied: Keeper/half of it has only a part of it. Erase Keeper/half of it (agents erase).",
  );
});

test("an impossible fork is refused, and writes nothing", async () => {
  await call("here", "note", "one");
  await call("taken", "note", "mine");
  const seq = await seqNow("taken");
  const cases: ReadonlyArray<readonly [string[], number, string]> = [
    [["here", "taken"], 1, "exists here"],
    [["here", "here"], 2, "needs a name of its own"],
    [["here", "new", "--at", "2001-01-01"], 3, "had no event at 2001"],
    [["here", "new", "--at", "yesterday"], 2, "a journal sequence"],
    [["nobody", "new"], 3, "nobody"],
  ];
  for (const [args, code, why] of cases) {
    const refused = await agents("fork", "Keeper", ...args);
    expect(refused).toMatchObject({ code, out: "" });
    expect(refused.err).toContain(why);
  }
  expect(await seqNow("taken")).toBe(seq);
  expect(await ports.journal.last(agentId("Keeper", "new"))).toBeUndefined();

  expect(await agents("erase", "Keeper", "here", "--yes")).toMatchObject({ code: 0 });
  const gone = await agents("fork", "Keeper", "here", "new");
  expect(gone.code).toBe(3);
  // An erased agent has no past either, and its name can be used again.
  expect(await agents("fork", "Keeper", "taken", "here")).toMatchObject({ code: 0 });
  expect((await call<Kept>("here", "all")).notes).toEqual(["mine"]);
});
