/** A host passes its own events to its view: the view requests none of them from the broker. */
import { fileURLToPath } from "node:url";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";

const MODULE = fileURLToPath(new URL("./shopModule.ts", import.meta.url));
const SHOPS = 40;
/** A host that loses its shard on a busy machine drops calls that have begun. */
const LEASE_TTL_MS = 30_000;
/** The filter of a request for the events of all agents (`services/nats/readStored`). */
const ALL_AGENTS = ">";

let installation: Installation;
let client: NatsConnection;
/** How many events of all agents were requested since the last `requested()`. */
let events = 0;

async function requested(): Promise<number> {
  // The server has passed on all requests that it received before this.
  await client.flush();
  const counted = events;
  events = 0;
  return counted;
}

async function sold(): Promise<unknown> {
  const sql = encodeURIComponent("SELECT count(*) AS shops, sum(state->>'sold') AS sold FROM Shop");
  const response = await fetch(`${installation.gateway.url}/?sql=${sql}`);
  return response.json();
}

const sellAll = (): Promise<unknown> => {
  const call = installation.caller("Shop");
  return Promise.all(Array.from({ length: SHOPS }, (_, n) => call(`shop-${n}`, "sell", 1)));
};

beforeAll(async () => {
  installation = await Installation.start({ shards: 1, module: MODULE, leaseTtlMs: LEASE_TTL_MS });
  client = await connect({ servers: installation.nats.url });
  client.subscribe("$JS.API.DIRECT.GET.agents_JOURNAL", {
    callback: (_, message) => {
      const query = message.json<{ readonly next_by_subj?: string; readonly batch?: number }>();
      if (query.next_by_subj === ALL_AGENTS) events += query.batch ?? 1;
    },
  });
  await (await installation.startHost("host")).ready();
  await installation.gateway.ready();
});
afterAll(async () => {
  await client?.close();
  await installation?.kill();
});

test("a host's view requests what was stored before its first query, and no event that its host stores later", async () => {
  await sellAll();
  expect(await sold()).toEqual([{ shops: SHOPS, sold: SHOPS }]);
  expect(await requested()).toBeGreaterThanOrEqual(SHOPS);
  for (const times of [2, 3]) {
    await sellAll();
    expect(await sold()).toEqual([{ shops: SHOPS, sold: SHOPS * times }]);
    expect(await requested()).toBe(0);
  }
});
