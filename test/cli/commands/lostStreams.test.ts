/** Streams that the broker has lost while agents sleep: `agents provision` makes them whole. */
import { fileURLToPath } from "node:url";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../../services/nats/setup/provision.ts";
import type { AgentsProcess } from "../../kit/AgentsProcess.ts";
import { Installation } from "../../kit/Installation.ts";
import { pollUntil } from "../../kit/poll.ts";

const MODULE = fileURLToPath(new URL("../keeperModule.ts", import.meta.url));
/** Long enough to lose and make the stream meanwhile, on a machine that is busy. */
const DUE_IN_SECONDS = 15;

let installation: Installation;
let host: AgentsProcess;

beforeAll(async () => {
  installation = await Installation.start({
    shards: 2,
    leaseTtlMs,
    module: MODULE,
    gateway: false,
  });
  host = await installation.startHost("host");
  await host.ready();
});
afterAll(() => installation?.kill());

async function lose(stream: string): Promise<void> {
  const client = await connect({ servers: installation.nats.url });
  await client.request(`$JS.API.STREAM.DELETE.${stream}`);
  await client.close();
}

/** What a sleeping agent has done, read from its journal: a call would wake it. */
async function rungOf(name: string): Promise<ReadonlyArray<string>> {
  const { out } = await installation.agents("state", "Keeper", name, "--json");
  return (JSON.parse(out) as { state: { rung?: ReadonlyArray<string> } }).state?.rung ?? [];
}

test("schedules of sleeping agents run after their timers were lost", async () => {
  const call = installation.caller("Keeper");
  await call("slept", "plan", DUE_IN_SECONDS, "alarm");
  await host.stop(); // the agent is in no memory
  await lose("agents_TIMERS");
  // It would create the stream and sleep on, and nobody would know.
  await expect(installation.startHost("host")).rejects.toThrow(
    /agents_TIMERS is missing, although others .* run \\?"agents provision/,
  );
  const again = await installation.agents("provision", "--json");
  expect(again).toMatchObject({
    code: 0,
    err: "agents_TIMERS was missing. It exists again, without what it held.\n",
  });
  expect(JSON.parse(again.out)).toMatchObject({ lost: ["agents_TIMERS"], timers: 1, woken: 0 });
  host = await installation.startHost("host");
  await pollUntil("the schedule has run", async () => {
    const saw = await rungOf("slept");
    return saw.length > 0 || { done: false, saw };
  });
});

test("queue items of sleeping agents run after their triggers were lost", async () => {
  await host.stop();
  host = await installation.startHost("host", { env: { HOLD: "1" } });
  await installation.caller("Keeper")("queued", "enqueueSlow", "item");
  await host.kill();
  await lose("agents_INBOX");
  const again = await installation.agents("provision");
  expect(again.out).toContain("1 agent with queue items woken");
  host = await installation.startHost("host");
  await pollUntil("the item has run", async () => {
    const saw = await rungOf("queued");
    return saw.length > 0 || { done: false, saw };
  });
});

test.each([
  ["agents_TIMERS", "not stored the consumer of due timers of agents_TIMERS"],
  ["agents_INBOX", "not stored the consumer of shard"],
])("a host that needs a lost %s says so", async (stream, reason) => {
  await host.ready();
  const call = installation.caller("Keeper");
  await lose(stream);
  const planned = call("waits", "plan", 3_600, "later").catch(() => undefined);
  await pollUntil("the host is not ready, with the reason", async () => {
    const answer = await host.admin("/readyz");
    const saw = await answer.text();
    return (
      (answer.status === 503 && saw.includes(reason)) || {
        done: false,
        saw,
      }
    );
  });
  expect(await installation.agents("provision")).toMatchObject({ code: 0 });
  await planned;
  await host.ready();
});

test("timers of a stream that was emptied are armed on request", async () => {
  const client = await connect({ servers: installation.nats.url });
  await client.request("$JS.API.STREAM.PURGE.agents_TIMERS");
  await client.close();
  expect((await installation.agents("provision")).out).not.toContain("armed");
  const armed = await installation.agents("provision", "--arm", "--json");
  expect(JSON.parse(armed.out)).toMatchObject({ lost: [], timers: 2, woken: 0 });
});

test("a command that reads a lost journal names it", async () => {
  await lose("agents_JOURNAL");
  expect(await installation.agents("list")).toMatchObject({
    code: 1,
    err: 'agents: At the broker, the stream agents_JOURNAL is missing: "agents provision" creates it again\n',
  });
});
