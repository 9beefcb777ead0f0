/** Stream groups on three servers: each leads its own shards, and a lost server stops no others. */
import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { deployNats, type Deployed } from "../deploy/DeployedNats.ts";
import { withStreamGroups } from "../deploy/withStreamGroups.ts";
import { Senders } from "../faults/Senders.ts";
import { checkEpochs, checkExactlyOnce, checkOrder, historyOf, type History } from "../kit/checkers.ts"; // prettier-ignore
import { Installation, SECRET } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const AGENTS = 24;
const WEBHOOKS = 240;
/** Longer than an election: the route holds its webhooks. */
const DEADLINE_MS = 9_500;
/** An election on two busy cores. */
const ELECTION_TIMEOUT_MS = 60_000;
const ENDS = ["", "_1", "_2", "_3"];
const STREAMS = ["INBOX", "JOURNAL", "SNAPSHOTS"].flatMap((name) =>
  ENDS.map((end) => `agents_${name}${end}`),
);

interface StreamInfo {
  readonly config: { readonly num_replicas: number };
  readonly state: { readonly messages: number };
  readonly cluster: { readonly leader?: string };
}

let nats: Deployed;
let installation: Installation;
let operator: NatsConnection;
let provisioned = "";
const placed = new Set<string>();
const copies: number[] = [];
const wanted: Array<readonly [stream: string, server: string]> = [];
const leaders: string[] = [];
const histories: History[] = [];
let senders: Senders;

const ask = async <A>(verb: string, body: object | "" = ""): Promise<A> => {
  const data = body === "" ? body : JSON.stringify(body);
  return (await operator.request(`$JS.API.${verb}`, data, { timeout: 5_000 })).json<A>();
};
const infoOf = (stream: string) => ask<StreamInfo>(`STREAM.INFO.${stream}`);

/** Asks the leader to hand over to a server until that one leads: it refuses one that lags. */
const lead = (stream: string, server: string): Promise<unknown> =>
  pollUntil(
    `${server} leads ${stream}`,
    async () => {
      const { leader } = (await infoOf(stream)).cluster;
      if (leader === server) return true;
      await ask(`STREAM.LEADER.STEPDOWN.${stream}`, { placement: { preferred: server } });
      return { done: false, saw: leader };
    },
    { timeoutMs: ELECTION_TIMEOUT_MS, intervalMs: 250 },
  );

beforeAll(async () => {
  nats = await deployNats({ config: "cluster.conf", edit: withStreamGroups });
  operator = await nats.connect("operator", { maxReconnectAttempts: -1, reconnectTimeWait: 200 });
  installation = await Installation.start({
    broker: nats,
    shards: 8,
    leaseTtlMs,
    streamGroups: 4,
    provision: ["--placement-tag", "zone:nats-2"],
    gateway: false,
    args: ["--require-durable"],
    env: { DEADLINE_MS: `${DEADLINE_MS}` },
  });
  for (const stream of STREAMS) placed.add((await infoOf(stream)).cluster.leader ?? "none");
  const copied = ["--replicas", "3", "--placement-tag", "agents"];
  const { code, out, err } = await installation.agents("provision", ...copied);
  expect(code, err).toBe(0);
  provisioned = out;
  const servers = nats.servers.map(({ name }) => name);
  for (const stream of STREAMS) copies.push((await infoOf(stream)).config.num_replicas);
  for (const [group, end] of ENDS.entries())
    for (const name of ["INBOX", "JOURNAL"])
      wanted.push([`agents_${name}${end}`, servers[group % servers.length]!] as const);
  await Promise.all(wanted.map(([stream, server]) => lead(stream, server)));
  for (const [stream] of wanted) leaders.push((await infoOf(stream)).cluster.leader ?? "none");

  const gateway = await installation.startGateway();
  await installation.startHost("host");
  await gateway.ready();
  senders = new Senders({
    url: gateway.url,
    secret: SECRET,
    deliveries: Array.from({ length: WEBHOOKS }, (_, n) => ({
      agent: `agent-${n % AGENTS}`,
      id: `delivery-${n}`,
    })),
    concurrency: 8,
    paceMs: 20,
    heldBack: 100,
  });
  await senders.more(80);
  await nats.servers[0]!.kill();
  senders.release();
  await senders.finished;
  await pollUntil(
    "the inboxes are empty",
    async () => {
      const infos = await Promise.all(ENDS.map((end) => infoOf(`agents_INBOX${end}`)));
      const left = infos.map(({ state }) => state.messages);
      return left.every((count) => count === 0) || { done: false, saw: left };
    },
    { timeoutMs: ELECTION_TIMEOUT_MS, intervalMs: 100 },
  );
  for (let n = 0; n < AGENTS; n++)
    histories.push(await historyOf(installation.ports.journal, agentId("Ledger", `agent-${n}`)));
});

afterAll(async () => {
  await operator?.close();
  await installation?.kill();
});

describe("stream groups on a cluster", () => {
  test("have their placement and replicas, and all of them are changed later", () => {
    expect([...placed]).toEqual(["nats-2"]);
    expect(provisioned).toContain("8 shards in 4 stream groups");
    expect(provisioned).toContain("acknowledged is on disk (3 copies)");
    expect(copies).toEqual(STREAMS.map(() => 3));
  });

  test("have leaders on different servers", () => {
    expect(leaders).toEqual(wanted.map(([, server]) => server));
    expect(new Set(leaders).size).toBe(3);
  });

  test("process every acknowledged webhook once, in order, though a server that leads some of them is killed", () => {
    expect(checkExactlyOnce(senders.sent, histories)).toEqual([]);
    expect(histories.flatMap(checkOrder)).toEqual([]);
    expect(histories.flatMap(checkEpochs)).toEqual([]);
    expect(senders.sent).toHaveLength(WEBHOOKS);
  });
});
