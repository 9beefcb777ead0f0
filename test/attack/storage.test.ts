/** Callers who fill an installation: unused names, large states, writes without a pause. */
import { readdirSync } from "node:fs";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, describe, expect, test } from "vitest";
import { Agent, callable, type Connection } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { Subjects } from "../../schemas/Subjects.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestHost, type SystemOptions } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { journalOf, postGithub, read, SECRET, TestSocket, useSystems } from "../system/kit.ts";

const HIBERNATE = { hibernateAfterSeconds: 0.1 };

/** Like most agents: a state, tables, and callers who mostly read. */
class CommonAgent extends Agent<unknown, { readonly n: number }> {
  static override options = HIBERNATE;
  override initialState = { n: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (id TEXT PRIMARY KEY, text TEXT)`;
    this.sql`CREATE INDEX IF NOT EXISTS by_text ON notes (text)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (new URL(request.url).searchParams.has("fail")) this.sql`SELECT * FROM nowhere`;
    if (new URL(request.url).searchParams.has("destroy")) await this.destroy();
    else if (request.method === "PUT") this.sql`INSERT INTO notes VALUES ('a', 'b')`;
    else this.sql`DELETE FROM notes WHERE text = 'too old'`;
    return Response.json({ state: this.state, kept: await this.ctx.storage.get("kept") });
  }

  override onMessage(connection: Connection): void {
    connection.send(JSON.stringify({ notes: this.sql`SELECT * FROM notes`.length }));
  }

  @callable()
  count(): number {
    return this.state.n + this.ctx.storage.transactionSync(() => this.sql`SELECT 1`.length);
  }
}

const MIB = 1024 * 1024;
const JOURNAL_BYTES_PER_MINUTE = 200_000;

class LimitedAgent extends Agent<unknown, { readonly text: string }> {
  static override options = {
    http: "open",
    stateBytesMax: 10_000,
    journalBytesPerMinute: JOURNAL_BYTES_PER_MINUTE,
  };
  override initialState = { text: "" };

  override async onRequest(request: Request): Promise<Response> {
    const text = await request.text();
    if (request.headers.has("x-github-event")) this.setState({ text: "pushed" });
    else if (request.headers.has("x-sql")) {
      this.sql`CREATE TABLE IF NOT EXISTS t (x)`;
      this.sql`INSERT INTO t VALUES (${text})`;
    } else this.setState({ text });
    return new Response("OK");
  }
}

class LargeAgent extends Agent<unknown, { readonly text: string }> {
  static override options = { http: "open", commitBytesMax: MIB };
  override initialState = { text: "" };

  @callable()
  grow(bytes: number): void {
    this.setState({ text: "x".repeat(bytes) });
  }
  @callable()
  fill(bytes: number): number {
    this.sql`CREATE TABLE IF NOT EXISTS t (x)`;
    this.sql`INSERT INTO t VALUES ('small')`;
    try {
      this.sql`INSERT INTO t VALUES (zeroblob(${bytes}))`;
    } catch (error) {
      this.setState({ text: String(error) });
    }
    return this.sql`SELECT * FROM t`.length;
  }
  @callable()
  ping(): string {
    return "pong";
  }
}

const systems = useSystems();
const folders: Array<ReturnType<typeof tempFolder>> = [];
afterAll(() => {
  for (const folder of folders) folder.remove();
});
const newFolder = (): string => {
  const folder = tempFolder("attack-storage");
  folders.push(folder);
  return folder.path;
};

/** Messages by stream, but for those of the leases. */
async function stored({ nats, namespace }: SystemOptions): Promise<Record<string, number>> {
  const client = await connect({ servers: nats.replace("nats://", "") });
  try {
    const found: Record<string, number> = {};
    const { bucket } = new Subjects(namespace);
    for await (const { config, state } of (await jetstreamManager(client)).streams.list())
      if (
        config.name.includes(`${namespace}_`) &&
        !config.name.endsWith(bucket.leases) &&
        !config.name.endsWith(bucket.gateways)
      )
        found[config.name] = state.messages;
    return found;
  } finally {
    await client.close();
  }
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);

let calls = 0;
/** Resolves with the reply's frame. */
async function rpc(socket: TestSocket, method: string, ...args: unknown[]) {
  const id = `call-${++calls}`;
  const find = () => socket.json.find((frame) => (frame as { id?: string }).id === id);
  socket.send({ type: "rpc", id, method, args });
  await socket.until(`${method} answers`, () => find() !== undefined);
  return find() as {
    readonly success: boolean;
    readonly result?: unknown;
    readonly error?: string;
  };
}

describe.each(["uws", "node"] as const)("over the %s adapter", (http) => {
  test("requests for agents that never write leave nothing stored", async () => {
    const folder = newFolder();
    const system = await systems.start({ agents: { CommonAgent } }, { http, folder });
    const at = (n: number) => `${system.url}/agents/common-agent/stranger-${n}`;
    const statuses = new Set<number>();
    for (let n = 0; n < 12; n++) {
      const answers = [
        await fetch(at(n)),
        await fetch(at(n), { method: "POST", body: "no webhook" }),
        await fetch(`${at(n)}?fail=1`),
        await fetch(`${system.url}/agents/common-agent/gone-${n}?destroy=1`),
      ];
      for (const answer of answers) statuses.add((await read(answer)).status);
      const socket = await TestSocket.open(at(n));
      socket.send("hello");
      await socket.until("it is answered", () => socket.frames.includes('{"notes":0}'));
      expect(await rpc(socket, "count")).toMatchObject({ success: true, result: 1 });
      expect(socket.states).toEqual([{ n: 0 }]);
      await socket.close();
    }
    expect(statuses).toEqual(new Set([200, 500]));
    await pollUntil("they have left memory", () => system.host.host.agentsActive === 0);
    // Repeated requests get the same answer.
    expect(await (await fetch(at(3))).json()).toEqual({ state: { n: 0 } });
    await system.stop();
    const counts = await stored(system.options);
    expect(Object.keys(counts).length).toBeGreaterThanOrEqual(4);
    expect(new Set(Object.values(counts))).toEqual(new Set([0]));
    expect(filesIn(folder)).toEqual([]);
  });

  test("past its journal's rate, an agent refuses clients and callers, and still accepts webhooks", async () => {
    const system = await systems.start(
      {
        agents: { LimitedAgent },
        env: { GITHUB_WEBHOOK_SECRET: SECRET },
        webhooks: [
          webhook("/webhooks/github", {
            agent: LimitedAgent,
            verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
            entity: body("name"),
          }),
        ],
      },
      { http },
    );
    const at = `${system.url}/agents/limited-agent/flooded`;
    const startMs = performance.now();
    const socket = await TestSocket.open(at);
    let n = 0;
    await pollUntil("the client is refused", () => {
      for (let i = 0; i < 20; i++)
        socket.send({ type: "cf_agent_state", state: { text: `${++n}`.repeat(400) } });
      return socket.frames.some((frame) => String(frame).includes("State update rejected"));
    });
    for (let i = 0; i < 200; i++)
      socket.send({ type: "cf_agent_state", state: { text: `${++n}`.repeat(400) } });
    const refusals = () =>
      socket.frames.filter((frame) => String(frame).includes("State update rejected")).length;
    await socket.until("they are refused too", () => refusals() >= 100);
    const { log } = system.host;
    expect(JSON.stringify(log.lines)).toContain("journalBytesPerMinute of the class's options");
    for (const headers of [{}, { "x-sql": "1" }]) {
      const refused = await read(await fetch(at, { method: "POST", body: "y", headers }));
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    expect((await read(await fetch(at, { method: "POST", body: "z" }))).status).toBe(429);
    expect((await postGithub(`${system.url}/webhooks/github`, { name: "flooded" })).status).toBe(
      200,
    );
    // A neighbour has its own rate.
    const neighbour = await fetch(`${at}-not`, { method: "POST", body: "y" });
    expect(neighbour.status).toBe(200);
    const minutes = (performance.now() - startMs) / 60_000;
    const events = await journalOf(system.options, "LimitedAgent", "flooded");
    // As text they are longer. Everything that was sent would be three times as much.
    const most = 2 * JOURNAL_BYTES_PER_MINUTE * (1 + minutes);
    expect(JSON.stringify(events).length).toBeLessThan(most);
    await socket.close();
  });
});

test("the first write stores what the start made, and another host reads it all", async () => {
  const system = await systems.start({ agents: { CommonAgent } });
  const at = `${system.url}/agents/common-agent/writer`;
  expect((await fetch(at)).status).toBe(200);
  expect(await journalOf(system.options, "CommonAgent", "writer")).toEqual([]);
  expect((await fetch(at, { method: "PUT" })).status).toBe(200);
  const [event, ...more] = await journalOf(system.options, "CommonAgent", "writer");
  expect(more).toEqual([]);
  const [start, request, write] = event!.turns.map(({ cause, state }) => [cause.kind, state]);
  expect(start).toEqual(["start", undefined]);
  expect(request).toEqual(["request", { set: { n: 0 } }]);
  // On a busy machine it may have left memory in between: then the write is its first request.
  expect(write ?? ["request", undefined]).toEqual(["request", undefined]);
  const next = await startTestHost(system.options, "host-b");
  await system.host.stop();
  const socket = await TestSocket.open(at);
  socket.send("how many");
  await socket.until("the next host has the row", () => socket.frames.includes('{"notes":1}'));
  await socket.close();
  await system.gateway.stop();
  await next.stop();
});

test("a state that is too large is refused and changes nothing, and other agents are answered", async () => {
  const system = await systems.start({ agents: { LargeAgent, LimitedAgent } });
  const socket = await TestSocket.open(`${system.url}/agents/large-agent/one`);
  const neighbour = await TestSocket.open(`${system.url}/agents/large-agent/two`);
  const [grown, ping] = await Promise.all([rpc(socket, "grow", 40 * MIB), rpc(neighbour, "ping")]);
  expect(ping.result).toBe("pong");
  expect(grown.error).toMatch(
    /it would be 40 MiB of JSON, and the limit is 16 MiB \(stateBytesMax/,
  );
  expect(socket.states).toEqual([{ text: "" }]);
  // A client's own state is refused alike.
  const limited = await TestSocket.open(`${system.url}/agents/limited-agent/one`);
  limited.send({ type: "cf_agent_state", state: { text: "x".repeat(20_000) } });
  await limited.until("it is refused", () =>
    limited.frames.some((frame) => String(frame).includes("State update rejected")),
  );
  expect(JSON.stringify(system.host.log.lines)).toContain("the limit is 10000 bytes");
  for (const each of [socket, neighbour, limited]) await each.close();
});

test("SQL past a commit's limit fails alone: the turn's earlier writes are stored", async () => {
  const system = await systems.start({ agents: { LargeAgent } });
  const socket = await TestSocket.open(`${system.url}/agents/large-agent/sql`);
  expect(await rpc(socket, "fill", 40 * MIB)).toMatchObject({ success: true, result: 1 });
  await socket.until("it says why", () => socket.states.length === 2);
  expect(JSON.stringify(socket.states)).toContain(
    "more than 1 MiB would be uncommitted (commitBytesMax",
  );
  expect(await rpc(socket, "fill", 1000)).toMatchObject({ success: true, result: 3 });
  await socket.close();
});
