/** Processes whose login lacks a right that they need: they end or are not ready, and name it. */
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";
import { deployNats, type Deployed } from "./DeployedNats.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("../cli/keeperModule.ts", import.meta.url));

/** The broker takes 1 MB in one. */
const PAST_ONE_MESSAGE = 2_000_000;

let installation: Installation;
afterEach(() => installation?.kill());

/** A broker whose user lacks the right. */
const deployWithout = (
  right: string,
  user = "host",
  operation: "publish" | "subscribe" = "publish",
): Promise<Deployed> =>
  deployNats({
    config: "single.conf",
    edit: (text) => {
      const at = text.indexOf(`${operation}:`, text.indexOf(`${user}_may {`));
      return text.slice(0, at) + text.slice(at).replace(`"${right}"`, `"none"`);
    },
  });

const isNotReady = (host: AgentsProcess, reason: RegExp): Promise<unknown> =>
  pollUntil("the host is not ready, and names the right", async () => {
    const answer = await host.admin("/readyz");
    const saw = await answer.text();
    return (answer.status === 503 && reason.test(saw)) || { done: false, saw };
  });

test.each([
  ["agents.journal.>", "an event of agents_JOURNAL", "agents\\.journal\\.Keeper\\.one"],
  ["agents.timer.>", "a timer of agents_TIMERS", "agents\\.timer\\.\\d\\.Keeper\\.one\\."],
])("a host that may not publish to %s is not ready", async (right, what, named) => {
  const broker = await deployWithout(right);
  installation = await Installation.start({
    broker,
    shards: 2,
    leaseTtlMs,
    gateway: false,
    module: MODULE,
  });
  const host = await installation.startHost("host");
  await host.ready();
  const asked = installation.agents("call", "Keeper", "one", "plan", "3600", '"later"');
  await isNotReady(
    host,
    new RegExp(`not stored ${what} for \\d+ s: the login may not use ${named}`),
  );
  expect(await host.metric("agents_unstored_seconds")).toBeGreaterThan(0);
  expect((await asked).code).toBe(1);
});

test("a host that can't read an input's body, for which its shard waits, is not ready", async () => {
  const right = "$JS.API.STREAM.MSG.GET.agents_BODIES";
  installation = await Installation.start({
    broker: await deployWithout(right),
    shards: 1,
    leaseTtlMs,
    env: { DEADLINE_MS: "1500" },
  });
  const host = await installation.startHost("host");
  const { gateway } = installation;
  await gateway.ready();
  const large = { agent: "one", id: "w1", noise: "x".repeat(PAST_ONE_MESSAGE) };
  expect(await postLedger(gateway.url, large)).toBe(202);
  await isNotReady(
    host,
    /not returned the body of an input of agents_INBOX for \d+ s: the login may not use \$JS\.API\.STREAM\.MSG\.GET\.agents_BODIES/,
  );
});

test.each(["gateway", "host"] as const)("a %s that may not watch leases ends", async (user) => {
  const right = "$JS.API.CONSUMER.CREATE.KV_agents_LEASES";
  const broker = await deployWithout(right, user);
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs, gateway: false });
  const started = user === "host" ? installation.startHost("host") : installation.startGateway();
  await expect(started).rejects.toThrow(
    `agents: The broker refuses it: the login may not use ${right}. Is it the login for this`,
  );
});

test("a host that may not receive calls is not ready, or ends, and names the right", async () => {
  const broker = await deployWithout("agents.call.>", "host", "subscribe");
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs, gateway: false });
  const told = await installation.startHost("host").then(
    async (host) => {
      await isNotReady(host, /not delivered agents\.call\.0\.> for \d+ s: .*restart this process/);
      return "the login may not use agents.call.0.>";
    },
    (error: Error) => error.message,
  );
  expect(told).toContain("the login may not use agents.call.0.>");
});

test("a gateway that may not receive frames for its sockets ends", async () => {
  const broker = await deployWithout("agents.gateway.*.*", "gateway", "subscribe");
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs, gateway: false });
  await expect(installation.startGateway()).rejects.toThrow(
    /agents: The broker refuses it: the login may not use agents\.gateway\.[^ ]+\. Is it the login/,
  );
});

test("a host that may not answer calls is not ready once it has tried", async () => {
  const broker = await deployWithout("agents.answer.>");
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs });
  const host = await installation.startHost("host");
  const { gateway } = installation;
  await gateway.ready();
  void fetch(`${gateway.url}/agents/ledger/one`).catch(() => undefined); // ended with the gateway
  await isNotReady(
    host,
    /not accepted an answer, a pull or an ack for \d+ s: the login may not use agents\.answer\.gateway\./,
  );
});

test("a host that can't start its shards says which right is missing", async () => {
  const broker = await deployWithout("$JS.API.CONSUMER.CREATE.agents_INBOX.>");
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs, gateway: false });
  const host = await installation.startHost("host");
  await isNotReady(
    host,
    /shards .*; the login may not use \$JS\.API\.CONSUMER\.CREATE\.agents_INBOX\./,
  );
});

test.each(["INBOX", "TIMERS"])("a host that may not pull from %s is not ready", async (kind) => {
  const broker = await deployWithout(`$JS.API.CONSUMER.MSG.NEXT.agents_${kind}.*`);
  installation = await Installation.start({ broker, shards: 1, leaseTtlMs, gateway: false });
  const host = await installation.startHost("host");
  await isNotReady(
    host,
    new RegExp(`the login may not use \\$JS\\.API\\.CONSUMER\\.MSG\\.NEXT\\.agents_${kind}\\.`),
  );
});
