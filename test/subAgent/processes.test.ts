/** Sub-agents on killed hosts and for the command line, in processes on a real nats-server. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./family.ts", import.meta.url));
const RUNNERS = 12;
/** Those that write, and so leave something; the others are only asked. */
const WRITERS = 3;

let installation: Installation;
let first: AgentsProcess;
let url = "";

const agents = (...args: string[]) => installation.agents(...args);
const call = async (...args: string[]): Promise<unknown> => {
  const { code, out, err } = await agents("call", ...args);
  if (code !== 0) throw new Error(err);
  return out === "" ? undefined : (JSON.parse(out) as unknown);
};

beforeAll(async () => {
  installation = await Installation.start({ shards: 4, leaseTtlMs: 1_500, module: MODULE });
  first = await installation.startHost("one");
  await first.ready();
  await (await installation.startHost("two")).ready();
  await installation.gateway.ready();
  ({ url } = installation.gateway);
});

afterAll(() => installation?.stop());

test("sub-agents' messages survive their hosts, and their schedules run on the next", async () => {
  const runners = Array.from({ length: RUNNERS }, (_, n) => `r${n}`);
  for (const runner of runners) {
    const path = `${url}/agents/supervisor/s/sub/runner/${runner}`;
    expect((await fetch(`${path}?MARKER`)).status).toBe(200);
  }
  for (const runner of runners.slice(0, WRITERS))
    await call("Supervisor", "s", "tell", `"${runner}"`, '"kept"');
  await call("Runner", "/Supervisor/s/r0", "later", "2", '"planned"');
  await first.kill();
  await pollUntil(
    "its schedule has run, on the other host",
    async () => {
      const notes = await call("Supervisor", "s", "notesOf", '"r0"').catch(String);
      const done = JSON.stringify(notes) === '["kept","planned"]';
      return { done, value: notes, saw: notes };
    },
    { intervalMs: 500 },
  );
  expect(await call("Supervisor", "s", "list")).toEqual(runners.map((name) => `Runner ${name}`));
});

test("the command line addresses sub-agents, and erases them with their parent", async () => {
  const listed = await agents("list", "Runner", "--json");
  // Their parent knows the others, the broker does not.
  expect(listed.out.trim().split("\n")).toHaveLength(WRITERS);
  expect(listed.out).toContain('"name":"/Supervisor/s/r0"');
  const state = await agents("state", "Runner", "/Supervisor/s/r0");
  expect(JSON.parse(state.out)).toEqual({ count: 2 });
  const asked = await agents("erase", "Supervisor", "s");
  expect([asked.code, asked.err]).toMatchObject([2, expect.stringContaining("and its 3 sub-agents")]); // prettier-ignore
  const erased = await agents("erase", "Supervisor", "s", "--yes");
  expect([erased.code, erased.out.match(/is erased/g)]).toMatchObject([0, { length: WRITERS + 1 }]);
  expect(await call("Supervisor", "s", "list")).toEqual([]);
  expect(await call("Supervisor", "s", "notesOf", '"r0"')).toEqual([]);
});
