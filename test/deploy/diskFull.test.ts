/** A full disk at the broker: acknowledged data stays, and all continues once there is room. */
import { afterAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";
import { deployNats } from "./DeployedNats.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const NOISE_BYTES = 300_000;
/** Each leaves its body in the journal: the broker's 8 MB are full before. */
const WEBHOOKS_MAX = 60;
const UNSTORED = "the broker has not stored an event of agents_JOURNAL for ";

let installation: Installation;
afterAll(() => installation?.stop());

const send = (url: string, id: string, noise: number): Promise<number> =>
  postLedger(url, { agent: "one", id, noise: "x".repeat(noise) });

test("a broker whose disk is full refuses, loses nothing, and continues when there is room", async () => {
  const nats = await deployNats({ config: "single.conf", variables: { NATS_MAX_FILE: "1GB" } });
  installation = await Installation.start({
    broker: nats,
    shards: 2,
    leaseTtlMs,
    gateway: false,
    env: { DEADLINE_MS: "1500" },
  });
  // A broker of this size refuses to make the delivery log's streams, which reserve their limits.
  const [server] = nats.servers;
  await server!.stop();
  server!.edit((text) => text.replaceAll("1GB", "8MB"));
  await server!.start();
  await nats.healthy();
  const gateway = await installation.startGateway();
  const host = await installation.startHost("host");
  await gateway.ready();
  const accepted: string[] = [];
  let refused = 0;
  for (let n = 0; n < WEBHOOKS_MAX && refused === 0; n++) {
    const status = await send(gateway.url, `w${n}`, NOISE_BYTES);
    if (status === 200 || status === 202) accepted.push(`w${n}`);
    else {
      expect(status).toBe(503);
      refused++;
    }
  }
  expect(refused).toBe(1);
  expect(accepted.length).toBeGreaterThan(5);
  await pollUntil("the host is not ready, and says why", async () => {
    const answer = await host.admin("/readyz");
    const saw = await answer.text();
    return (answer.status === 503 && saw.includes(UNSTORED)) || { done: false, saw };
  });
  expect(await host.metric("agents_unstored_seconds")).toBeGreaterThan(0);

  await server!.stop();
  server!.edit((text) => text.replaceAll("8MB", "1GB"));
  await server!.start();
  await nats.healthy();
  await pollUntil("webhooks are done again", async () => {
    const status = await send(gateway.url, "after", 0);
    return status === 200 || { done: false, saw: status };
  });
  expect(await host.metric("agents_unstored_seconds")).toBe(0);
  const answer = await fetch(`${gateway.url}/agents/ledger/one`);
  const { ids } = (await answer.json()) as { ids: ReadonlyArray<string> };
  // The refused one may have been stored all the same, after its answer: once.
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toEqual(expect.arrayContaining([...accepted, "after"]));
});
