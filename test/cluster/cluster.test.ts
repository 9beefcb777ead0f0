/** Three nats-servers by `deploy/nats/cluster.conf`: servers die, leaders move, nothing is lost. */
import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { deployNats, type Deployed, type DeployedServer } from "../deploy/DeployedNats.ts";
import { Senders } from "../faults/Senders.ts";
import { checkEpochs, checkExactlyOnce, checkOrder, historyOf, type History } from "../kit/checkers.ts"; // prettier-ignore
import { Installation, SECRET } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const AGENTS = 40;
const WEBHOOKS = 1_200;
const SHARDS = 8;
/** An election takes 4 to 9 s, or longer without a core: webhooks are held as long as that. */
const DEADLINE_MS = 60_000;
const DURABILITY = "durability of the broker";
const STREAMS = [
  "agents_INBOX", "agents_JOURNAL", "agents_SNAPSHOTS", "agents_DEAD", "KV_agents_LEASES", "KV_agents_GATEWAYS", "OBJ_agents_BLOBS", "agents_TIMERS", "agents_BODIES",
]; // prettier-ignore

interface StreamInfo {
  readonly config: { readonly num_replicas: number };
  readonly cluster: {
    readonly leader?: string;
    readonly replicas?: ReadonlyArray<{ readonly name: string; readonly current: boolean }>;
  };
}

let nats: Deployed;
let installation: Installation;
let operator: NatsConnection;
const said: string[] = [];
const placed: string[] = [];
const copies: number[] = [];
const histories: History[] = [];
const figures: Record<string, number> = {};
let sent: Senders["sent"] = [];
const statuses = new Map<number, number>();
let readiness = "";
/** What a gateway that started while one server was down logged about the broker's durability. */
let withoutOne = "";

const provision = async (...args: string[]): Promise<void> => {
  const { code, out, err } = await installation.agents("provision", ...args);
  expect(code, err).toBe(0);
  said.push(out);
};

const ask = async <A>(verb: string, body = ""): Promise<A> =>
  (await operator.request(`$JS.API.${verb}`, body, { timeout: 5_000 })).json<A>();

/** Resolves when every stream has a leader and this many replicas, all of them current. */
const settled = (replicas: number): Promise<unknown> =>
  pollUntil(
    `each stream has ${replicas} current copies`,
    async () => {
      const infos = await Promise.all(STREAMS.map((s) => ask<StreamInfo>(`STREAM.INFO.${s}`)));
      const bad = infos.filter(
        ({ config, cluster }) =>
          config.num_replicas !== replicas ||
          cluster.leader === undefined ||
          (cluster.replicas ?? []).filter(({ current }) => current).length !== replicas - 1,
      );
      return bad.length === 0 || { done: false, saw: bad.map(({ cluster }) => cluster) };
    },
    { intervalMs: 100 },
  );

const leaderOf = async (stream: string): Promise<DeployedServer> => {
  const name = await pollUntil(
    `${stream} has a leader`,
    async () => (await ask<StreamInfo>(`STREAM.INFO.${stream}`)).cluster.leader,
  );
  return nats.servers.find((server) => server.name === name)!;
};

/** Kills the server that leads `stream`, continues without it, and starts it again. */
async function loseLeader(stream: string, senders: ReadonlyArray<Senders>): Promise<void> {
  const server = await leaderOf(stream);
  const startMs = performance.now();
  await server.kill();
  await Promise.all(senders.map((each) => each.more(60)));
  figures[`leader of ${stream} killed: 120 webhooks later, ms`] = performance.now() - startMs;
  const late = await installation.startGateway();
  withoutOne = String(late.lines.find(({ message }) => message === DURABILITY)?.["durability"]);
  await late.stop();
  installation.processes.delete(late);
  const startedMs = performance.now();
  await server.start();
  await nats.healthy();
  figures[`it is back and healthy, ms`] = performance.now() - startedMs;
}

beforeAll(async () => {
  const beginMs = performance.now();
  nats = await deployNats({ config: "cluster.conf" });
  operator = await nats.connect("operator", { maxReconnectAttempts: -1, reconnectTimeWait: 200 });
  installation = await Installation.start({
    broker: nats,
    shards: SHARDS,
    leaseTtlMs,
    provision: ["--placement-tag", "zone:nats-2"],
    gateway: false,
    args: ["--require-durable"],
    env: { DEADLINE_MS: `${DEADLINE_MS}` },
  });
  said.push(installation.provisioned);
  for (const stream of STREAMS) placed.push((await leaderOf(stream)).name);
  await provision("--replicas", "3", "--placement-tag", "agents");
  await settled(3);
  await provision();
  for (const stream of STREAMS)
    copies.push((await ask<StreamInfo>(`STREAM.INFO.${stream}`)).config.num_replicas);

  const [one, two] = await Promise.all([
    installation.startGateway(),
    installation.startGateway(),
    installation.startHost("host-1"),
    installation.startHost("host-2"),
  ]);
  await Promise.all([...installation.processes].map((each) => each.ready()));
  readiness = await (await one.admin("/readyz")).text();
  const senders = [one, two].map(
    ({ url }, g) =>
      new Senders({
        url,
        secret: SECRET,
        deliveries: Array.from({ length: WEBHOOKS / 2 }, (_, n) => ({
          agent: `agent-${n % AGENTS}`,
          id: `delivery-${g}-${n}`,
        })),
        concurrency: 8,
        paceMs: 60,
        heldBack: 100,
        timeoutMs: 2 * DEADLINE_MS,
      }),
  );
  await Promise.all(senders.map((each) => each.more(50)));
  figures["start, ms"] = performance.now() - beginMs;
  for (const stream of ["agents_INBOX", "KV_agents_LEASES", "agents_JOURNAL"]) {
    const startMs = performance.now();
    await ask(`STREAM.LEADER.STEPDOWN.${stream}`);
    await Promise.all(senders.map((each) => each.more(20)));
    figures[`leader of ${stream} moved: 40 webhooks later, ms`] = performance.now() - startMs;
  }
  await loseLeader("agents_INBOX", senders);
  for (const each of senders) each.release();
  await Promise.all(senders.map(({ finished }) => finished));
  figures["all answered, ms"] = performance.now() - beginMs;
  sent = senders.flatMap((each) => each.sent);
  for (const { byStatus } of senders)
    for (const [status, count] of byStatus)
      statuses.set(status, (statuses.get(status) ?? 0) + count);
  figures["slowest answer, ms"] = Math.max(...senders.map(({ slowestMs }) => slowestMs));

  await pollUntil("the inbox is empty", async () => {
    const info = await ask<{ state: { messages: number } }>("STREAM.INFO.agents_INBOX");
    return info.state.messages === 0 || { done: false, saw: info.state };
  });
  for (let n = 0; n < AGENTS; n++)
    histories.push(await historyOf(installation.ports.journal, agentId("Ledger", `agent-${n}`)));
});

afterAll(async () => {
  const running = [...(installation?.processes ?? [])];
  const late = await Promise.all(running.map((each) => each.stopInTime()));
  await operator?.close();
  await installation?.stop();
  expect(late.filter((told) => told !== undefined)).toEqual([]);
  console.info("cluster:", Object.fromEntries(statuses), figures);
});

describe("provisioning on a cluster", () => {
  test("puts the streams on servers with the tag, with one copy by default", () => {
    expect(placed).toEqual(STREAMS.map(() => "nats-2"));
    expect(said[0]).toContain("1 copy: lost with its disk");
  });

  test("changes copies and placement later, and keeps both without options", () => {
    expect(said[2]).toContain("acknowledged is on disk (3 copies)");
    expect(copies).toEqual(STREAMS.map(() => 3));
  });
});

describe("servers die and leaders move under load", () => {
  test("a process reports the servers' own durability settings", () => {
    expect(readiness).toMatch(/^ready\ndurability: acknowledged is on disk \(3 copies\)\n/);
  });

  test("a process that requires durability starts while one of three servers is down, and names it", () => {
    expect(withoutOne).toMatch(
      /^acknowledged is on disk \(3 copies; without nats-\d, which did not answer or stores nothing\)$/,
    );
  });

  test("every acknowledged webhook is done exactly once, in order, by one owner at a time", () => {
    expect(checkExactlyOnce(sent, histories)).toEqual([]);
    expect(histories.flatMap(checkOrder)).toEqual([]);
    expect(histories.flatMap(checkEpochs)).toEqual([]);
  });

  test("every webhook is held until it is stored, and none is refused", () => {
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 202)).toEqual([]);
    expect([...statuses.values()].reduce((sum, count) => sum + count, 0)).toBe(WEBHOOKS);
  });

  test("no process exits or gives up", () => {
    for (const { exitCode } of installation.processes) expect(exitCode).toBeUndefined();
  });
});
