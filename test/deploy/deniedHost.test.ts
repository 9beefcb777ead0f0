/** A host whose login lacks a right that its agents need: it is not ready, and names the right. */
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { deployNats } from "./DeployedNats.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("../cli/keeperModule.ts", import.meta.url));

let installation: Installation;
afterEach(() => installation?.kill());

test.each([
  ["agents.journal.>", "an event of agents_JOURNAL", "agents\\.journal\\.Keeper\\.one"],
  ["agents.timer.>", "a timer of agents_TIMERS", "agents\\.timer\\.\\d\\.Keeper\\.one\\."],
])("a host that may not publish to %s is not ready", async (right, what, named) => {
  const broker = await deployNats({
    config: "single.conf",
    edit: (text) => {
      const at = text.indexOf("host_may {");
      return text.slice(0, at) + text.slice(at).replace(`"${right}"`, `"none"`);
    },
  });
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
  await pollUntil("the host is not ready, and names the right", async () => {
    const answer = await host.admin("/readyz");
    const saw = await answer.text();
    const reason = new RegExp(`not stored ${what} for \\d+ s: the login may not use ${named}`);
    return (answer.status === 503 && reason.test(saw)) || { done: false, saw };
  });
  expect(await host.metric("agents_unstored_seconds")).toBeGreaterThan(0);
  expect((await asked).code).toBe(1);
});
