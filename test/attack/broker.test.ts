/** A stolen broker login and acknowledged data. Its subjects are `test/deploy/permissions`. */
import { headers as newHeaders } from "@nats-io/nats-core";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { bodyStore } from "../../services/nats/layout/blobStores.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import {
  openConnection,
  type NatsConnectionShape,
} from "../../services/nats/client/NatsConnection.ts";
import { deployNats, passwordOf, type Deployed, type User } from "../deploy/DeployedNats.ts";
import { pollUntil } from "../kit/poll.ts";

const SHARDS = 4;
/** Belongs to no shard, so that nobody consumes it. */
const INPUT = "agents.inbox.99.Ledger.victim";
const VICTIM_BODY = "inbox/Ledger/victim/1";
const BYTES = 300_000;
/** Longer than the server takes, shorter than a test: a refused request has no answer at all. */
const ANSWER_MS = 300;
/** Longer than the test: nobody renews. */
const LEASE_TTL_MS = 120_000;
const OWNED = ["shard.1", "shard.2", "host.h1"];
type Edge = "gateway" | "mail";
const EDGE: ReadonlyArray<Edge> = ["gateway", "mail"];

let deployed: Deployed;
let connection: NatsConnectionShape;
/** The operator's. */
let nats: NatsShape;
const clients = new Map<User, NatsConnection>();

beforeAll(async () => {
  deployed = await deployNats({ config: "single.conf" });
  connection = await openConnection(
    {
      servers: deployed.url("operator"),
      inboxPrefix: "_INBOX.agents.provision",
      answerPrefix: "agents.answer.provision",
    },
    () => undefined,
  );
  nats = await openNats(connection, new Subjects(), {
    provision: { shards: SHARDS, leaseTtlMs: LEASE_TTL_MS },
  });
  for (const user of [...EDGE, "host", "reader"] as const)
    clients.set(
      user,
      await connect({
        servers: `127.0.0.1:${deployed.servers[0]!.port}`,
        user,
        pass: passwordOf(user),
        inboxPrefix: `_INBOX.agents.${user === "reader" ? "cli" : user}`,
      }),
    );
  await makeNatsBlobs(nats).put(VICTIM_BODY, new Uint8Array(BYTES));
  for (const key of OWNED) await makeNatsLeases(nats).claim(key, "owner");
});

afterAll(async () => {
  for (const client of clients.values()) await client.close();
  await connection?.close();
  await deployed?.stop();
});

/** The broker's answer; undefined when the server does not let the request through. */
async function tell(
  user: User,
  subject: string,
  body: string | Uint8Array,
  lines: Readonly<Record<string, string>> = {},
): Promise<{ readonly error?: { readonly description: string } } | undefined> {
  const headers = newHeaders();
  for (const [name, value] of Object.entries(lines)) headers.set(name, value);
  try {
    return (
      await clients.get(user)!.request(subject, body, { timeout: ANSWER_MS, headers })
    ).json();
  } catch {
    return undefined;
  }
}
const messagesOf = async (stream: string): Promise<number> =>
  (await nats.api.call<{ state: { messages: number } }>(`STREAM.INFO.${stream}`)).state.messages;

describe.each(EDGE)("the user %s", (user) => {
  let inputs: number;
  beforeEach(async () => {
    await nats.publisher.publish(INPUT, new Uint8Array(1));
    inputs = await messagesOf("agents_INBOX");
  });

  it.each(["all", "sub"])("can't empty the inbox with a rollup of %s", async (rollup) => {
    const answer = await tell(user, INPUT, "x", { "Nats-Rollup": rollup });
    expect(answer?.error?.description).toContain("rollup");
    expect(await messagesOf("agents_INBOX")).toBe(inputs);
  });

  it("can't make the broker publish where the user may not, now or later", async () => {
    const now = new Date(Date.now() - 1_000).toISOString();
    for (const target of [INPUT, "agents.journal.Ledger.victim", "agents.due.1.Ledger.victim"]) {
      const lines = { "Nats-Schedule": `@at ${now}`, "Nats-Schedule-Target": target };
      const answer = await tell(user, "agents.inbox.99.Ledger.other", "x", lines);
      expect(answer?.error?.description).toContain("schedule");
      expect(await tell(user, "agents.timer.99.Ledger.other.t", "x", lines)).toBeUndefined();
    }
    expect(await messagesOf("agents_TIMERS")).toBe(0);
    expect(await messagesOf("agents_JOURNAL")).toBe(0);
    expect(await messagesOf("agents_INBOX")).toBe(inputs);
  });

  it("can't make an input vanish by a TTL, or by a batch that is never committed", async () => {
    expect((await tell(user, INPUT, "x", { "Nats-TTL": "1s" }))?.error).toBeDefined();
    expect(await messagesOf("agents_INBOX")).toBe(inputs);
    await tell(user, INPUT, "x", { "Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "1" });
    expect(await messagesOf("agents_INBOX")).toBe(inputs);
  });

  it("can't remove or replace an input's body, or what hosts have stored", async () => {
    const blobs = makeNatsBlobs(nats);
    await blobs.put("journal/Ledger/victim/1", new Uint8Array(BYTES));
    const store = bodyStore(nats.subjects);
    const id = store.newId(VICTIM_BODY);
    const subjects = [store.entryOf(VICTIM_BODY), store.chunkOf(id, 0), "agents.body.more"];
    for (const subject of subjects)
      for (const rollup of ["all", "sub"])
        expect((await tell(user, subject, "x", { "Nats-Rollup": rollup }))?.error).toBeDefined();
    for (const subject of subjects.slice(0, 2))
      expect((await tell(user, subject, "x"))?.error?.description).toContain("maximum messages");
    const [stream, objects] = ["agents_BODIES", "OBJ_agents_BLOBS"];
    for (const verb of ["STREAM.PURGE", "STREAM.MSG.DELETE", "STREAM.DELETE"])
      for (const name of [stream, objects, "agents_INBOX", "agents_JOURNAL"])
        expect(await tell(user, `$JS.API.${verb}.${name}`, '{"seq":1}')).toBeUndefined();
    expect(await tell(user, "$O.agents_BLOBS.M.x", "x", { "Nats-Rollup": "all" })).toBeUndefined();
    for (const name of [VICTIM_BODY, "journal/Ledger/victim/1"])
      expect(await blobs.get(name)).toHaveLength(BYTES);
  });

  it("can't make the broker write the user's bytes into a journal", async () => {
    const client = clients.get(user)!;
    const event = "what could be read as an event";
    await tell(user, "agents.body.forged", event);
    const query = '{"last_by_subj":"agents.body.forged"}';
    const reply = "agents.journal.Ledger.victim";
    for (const verb of ["DIRECT.GET", "STREAM.MSG.GET"])
      client.publish(`$JS.API.${verb}.agents_BODIES`, query, { reply });
    await client.flush();
    await connection.client.flush();
    for await (const { data } of nats.reader.messages("agents_JOURNAL", reply, { fromSeq: 1 }))
      // The leader's answer still is stored there: JSON, which no agent takes for an event
      // (docs/operations/install.md).
      expect(Buffer.from(data).toString()).not.toContain(event);
    await nats.api.call("STREAM.PURGE.agents_JOURNAL");
  });

  it("can't take a shard's lease, or any lease but a gateway's", async () => {
    for (const key of ["shard.1", "host.h1", "gateway", "gateway.g1"])
      expect(await tell(user, `$KV.agents_LEASES.${key}`, "thief")).toBeUndefined();
    for (const key of ["shard.1", "host.h1", "gateway"])
      expect(await tell(user, `$KV.agents_GATEWAYS.${key}`, "thief")).toBeUndefined();
  });

  it.each(["all", "sub"])(
    "can't remove a lease of a shard or a host with a rollup of %s",
    async (rollup) => {
      const lines = { "Nats-Rollup": rollup };
      for (const bucket of ["agents_LEASES", "agents_GATEWAYS"])
        await tell(user, `$KV.${bucket}.gateway.thief`, "thief", lines);
      // A consumer could carry the message, headers and all: the server does not deliver to a
      // stream.
      for (const deliver_subject of [
        "$KV.agents_LEASES.gateway.thief",
        "$KV.agents_LEASES.shard.1",
      ])
        await tell(
          user,
          "$JS.API.CONSUMER.CREATE.KV_agents_GATEWAYS",
          JSON.stringify({ stream_name: "KV_agents_GATEWAYS", config: { deliver_subject } }),
        );
      await connection.client.flush();
      const leases = await makeNatsLeases(nats).list("");
      const owned = leases.filter(({ key }) => !key.startsWith("gateway."));
      expect(owned.map(({ key, value }) => [key, value])).toEqual(
        OWNED.map((key) => [key, "owner"]),
      );
    },
  );

  it("can forge answers only to hosts, and no acks", async () => {
    const host = clients.get("host")!;
    const heard: string[] = [];
    for (const subject of ["_INBOX.agents.host.>", "agents.answer.host.>"])
      host.subscribe(subject, { callback: (_error, message) => void heard.push(message.subject) });
    await host.flush();
    const client = clients.get(user)!;
    for (const subject of [
      "_INBOX.agents.host.token.1",
      "agents.answer.gateway.token.1",
      "agents.answer.mail.token.1",
      "agents.answer.cli.token.1",
      "agents.answer.host.token.1",
    ])
      client.publish(subject, "forged");
    await client.flush();
    await pollUntil("what is allowed arrives", () => heard.length > 0);
    expect(new Set(heard)).toEqual(new Set(["agents.answer.host.token.1"]));
  });
});

describe("the bucket of gateways' leases", () => {
  it("holds only gateways' leases", async () => {
    await nats.publisher.publish("$KV.agents_GATEWAYS.shard.3", Buffer.from("thief"));
    await makeNatsLeases(nats).claim("gateway.honest", "honest");
    const hosts = await openConnection(
      {
        servers: deployed.url("host"),
        inboxPrefix: "_INBOX.agents.host",
        answerPrefix: "agents.answer.host",
      },
      () => undefined,
    );
    const leases = makeNatsLeases(await openNats(hosts, new Subjects()));
    const over = new AbortController();
    const seen: string[] = [];
    await leases.watch(({ key }) => void seen.push(key), over.signal);
    over.abort();
    const listed = (await leases.list("")).map(({ key }) => key);
    expect(await leases.list("shard.3")).toEqual([]);
    await hosts.close();
    for (const keys of [seen, listed]) {
      expect(keys).toEqual(expect.arrayContaining([...OWNED, "gateway.honest"]));
      expect(keys).not.toContain("shard.3");
    }
  });

  it("is read together with the older bucket, where gateways of an older release keep theirs", async () => {
    await nats.publisher.publish("$KV.agents_LEASES.gateway.older", Buffer.from("older"));
    expect((await makeNatsLeases(nats).list("gateway.o")).map(({ key }) => key)).toEqual([
      "gateway.older",
    ]);
  });
});

describe("reply subjects", () => {
  it("carry an unguessable token, different for each", () => {
    const tokens = Array.from({ length: 100 }, () => connection.newInbox().split(".").at(-1)!);
    expect(new Set(tokens.map((token) => token.slice(0, 8))).size).toBe(tokens.length);
    for (const token of tokens) expect(Buffer.from(token, "base64url")).toHaveLength(18);
    const [broker, processes] = [nats.replies.address, nats.answers.address];
    expect(broker).toMatch(/^_INBOX\.agents\.provision\.[\w-]{24}$/);
    expect(processes).toMatch(/^agents\.answer\.provision\.[\w-]{24}$/);
    expect(broker.split(".").at(-1)).not.toBe(processes.split(".").at(-1));
  });
});
