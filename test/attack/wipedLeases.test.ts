/** Leases that the broker wipes: each shard has an owner again, and webhooks are done once. */
import { headers } from "@nats-io/nats-core";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import { Senders } from "../faults/Senders.ts";
import { checkEpochs, checkExactlyOnce, historyOf } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";

const SHARDS = 8;
const AGENTS = 16;
const LEASE_TTL_MS = 2_000;
/** How often all leases of shards, hosts and the gateway are wiped. */
const ROUNDS = 3;

let installation: Installation;
let client: NatsConnection;

beforeAll(async () => {
  installation = await Installation.start({ shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
  await Promise.all([installation.startHost("a"), installation.startHost("b")]);
  await installation.shared(2);
  client = await connect({ servers: installation.nats.url });
});

afterAll(async () => {
  await client?.close();
  await installation?.stop();
});

/** As in nats-server's `handleRemovalOrSdm`: the rollup removes what is there. */
async function wipe(key: string): Promise<void> {
  const marker = headers();
  marker.set("Nats-Rollup", "sub");
  marker.set("KV-Operation", "PURGE");
  const bucket = key.startsWith("gateway.") ? "agents_GATEWAYS" : "agents_LEASES";
  await client.request(`$KV.${bucket}.${key}`, "", { headers: marker, timeout: 5_000 });
}

const leases = async () =>
  new Map((await installation.ports.leases.list("")).map(({ key, epoch }) => [key, Number(epoch)]));

test("every wiped lease is claimed again by one host, and no webhook is lost or repeated", async () => {
  const senders = new Senders({
    url: installation.gateway.url,
    secret: SECRET,
    deliveries: Array.from({ length: 400 }, (_, n) => ({
      agent: `agent-${n % AGENTS}`,
      id: `delivery-${n}`,
    })),
    concurrency: 8,
    paceMs: 60,
    heldBack: 100,
  });
  await senders.more(50);
  for (let round = 0; round < ROUNDS; round++) {
    const before = await leases();
    await Promise.all([...before.keys()].map(wipe));
    await pollUntil(
      "every lease is held again, under a later epoch",
      async () => {
        const now = await leases();
        const missing = [...before].filter(([key, epoch]) => (now.get(key) ?? 0) <= epoch);
        return missing.length === 0 || { done: false, saw: missing };
      },
      { timeoutMs: 5 * LEASE_TTL_MS },
    );
    await senders.more(50);
  }
  senders.release();
  await senders.finished;
  expect(await installation.gateway.metric("agents_shards_without_host")).toBe(0);
  const histories = [];
  for (let n = 0; n < AGENTS; n++)
    histories.push(await historyOf(installation.ports.journal, agentId("Ledger", `agent-${n}`)));
  expect(checkExactlyOnce(senders.sent, histories)).toEqual([]);
  expect(histories.flatMap(checkEpochs)).toEqual([]);
});
