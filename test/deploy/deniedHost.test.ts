/** A host whose login lacks a right that its agents need: it is not ready, and names the right. */
import { afterAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";
import { deployNats } from "./DeployedNats.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

let installation: Installation;
afterAll(() => installation?.kill());

test("a host that may not write journals is not ready", async () => {
  const broker = await deployNats({
    config: "single.conf",
    edit: (text) => text.replace('"agents.journal.>", "agents.snapshot.>"', '"agents.snapshot.>"'),
  });
  installation = await Installation.start({
    broker,
    shards: 2,
    leaseTtlMs,
    env: { DEADLINE_MS: "2500" },
  });
  const host = await installation.startHost("host");
  await installation.gateway.ready();
  expect(await postLedger(installation.gateway.url, { agent: "one", id: "w1" })).toBe(202);
  await pollUntil("the host is not ready, and names the right", async () => {
    const answer = await host.admin("/readyz");
    const saw = await answer.text();
    const named =
      "an event of agents_JOURNAL for \\d+ s: the login may not use agents.journal.Ledger.one";
    return (answer.status === 503 && new RegExp(named).test(saw)) || { done: false, saw };
  });
  expect(await host.metric("agents_unstored_seconds")).toBeGreaterThan(0);
});
