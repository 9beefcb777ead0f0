/** An agent and its routing written by hand, as `interface.md` shows them. */
import { beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  routeAgentRequest,
  type AgentNamespace,
  type Connection,
  type ConnectionContext,
} from "agents";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";

interface Env {
  readonly RepoAgent: AgentNamespace<RepoAgent>;
  readonly WEBHOOK_SECRET: string;
}
interface Payload {
  readonly id: string;
  readonly title?: string;
  readonly at?: string;
  readonly repository?: { readonly full_name?: string };
}
interface EventRow {
  readonly id: string;
  readonly title: string;
}

const KEPT = 100; // the interface's example of retention
const LISTED_DEFAULT = 20; // its example of a listing's default

const encoder = new TextEncoder();
async function hmacHex(secret: string, body: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, [
    "sign",
  ]);
  const digest = await crypto.subtle.sign("HMAC", key, encoder.encode(body));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

class RepoAgent extends Agent<Env, { readonly events: number }> {
  override initialState = { events: 0 };

  override onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS events (
      id TEXT PRIMARY KEY, type TEXT NOT NULL, action TEXT, title TEXT NOT NULL, description TEXT,
      url TEXT, actor TEXT, payload TEXT, timestamp TEXT NOT NULL)`;
    this.sql`CREATE INDEX IF NOT EXISTS newest ON events (timestamp DESC)`;
  }
  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.has("readonly");
  }
  override async onRequest(request: Request) {
    if (request.method === "PUT") return this.#write(request);
    if (request.method !== "POST") return new Response("Method not allowed", { status: 405 });
    const body = await request.text();
    const given = request.headers.get("X-Hub-Signature-256");
    if (given !== `sha256=${await hmacHex(this.env.WEBHOOK_SECRET, body)}`)
      return new Response("Invalid signature", { status: 401 });
    const payload = JSON.parse(body) as Payload;
    if (typeof payload.id !== "string") return new Response("Invalid", { status: 400 });
    const type = request.headers.get("X-Event-Type") ?? "unknown";
    if (type === "slow") {
      await this.queue("take", { type, payload });
      return new Response("Accepted", { status: 202 });
    }
    this.take({ type, payload });
    return new Response("OK");
  }
  /** On behalf of one of its sockets. */
  #write(request: Request): Response {
    const connection = this.getConnection(request.headers.get("X-Connection") ?? "");
    if (connection === undefined || this.isConnectionReadonly(connection))
      return new Response("Readonly connection", { status: 403 });
    this.setState({ events: 0 });
    return new Response("OK");
  }
  take({ type, payload }: { type: string; payload: Payload }) {
    const seen = this.sql`SELECT id FROM events WHERE id = ${payload.id}`;
    if (seen.length > 0) return;
    const { id, title = "untitled", at = "2026-01-01T00:00:00.000Z" } = payload;
    this.sql`INSERT INTO events (id, type, title, payload, timestamp)
      VALUES (${id}, ${type}, ${title}, ${JSON.stringify(payload)}, ${at})`;
    this.sql`DELETE FROM events WHERE id NOT IN
      (SELECT id FROM events ORDER BY timestamp DESC LIMIT ${KEPT})`;
    this.setState({ events: this.state.events + 1 });
  }
  prune(before: string) {
    this.sql`DELETE FROM events WHERE timestamp < ${before}`;
  }
  @callable()
  list(limit = LISTED_DEFAULT) {
    return [
      ...this.sql<EventRow>`SELECT id, title FROM events ORDER BY timestamp DESC LIMIT ${limit}`,
    ];
  }
  @callable()
  listByType(type: string) {
    return this.sql<EventRow>`SELECT id, title FROM events WHERE type = ${type} ORDER BY id`;
  }
}

async function route(request: Request, env: Env): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith("/webhooks/") && request.method === "POST") {
    // Read from a clone, so that the agent receives the original.
    const payload = (await request
      .clone()
      .json()
      .catch(() => ({}))) as Payload;
    const name = payload.repository?.full_name?.toLowerCase().replaceAll("/", "-");
    if (name === undefined) return new Response("Missing repository", { status: 400 });
    return (await getAgentByName(env.RepoAgent, name)).fetch(request);
  }
  return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
}

const systems = useSystems();
const SECRET = "the author's secret";
let system: System;
beforeAll(async () => {
  system = await systems.start({
    agents: { RepoAgent },
    env: { WEBHOOK_SECRET: SECRET },
    fetch: (request, env) => route(request, env as unknown as Env),
  });
});

const repo = (name: string) =>
  getAgentByName((system.gateway.env as unknown as Env).RepoAgent, name);
async function post(
  payload: object,
  headers: Record<string, string> = {},
): Promise<[number, string]> {
  const body = JSON.stringify(payload);
  const signature = { "X-Hub-Signature-256": `sha256=${await hmacHex(SECRET, body)}` };
  const response = await fetch(`${system.url}/webhooks/github`, {
    method: "POST",
    body,
    headers: { ...signature, "X-Event-Type": "push", ...headers },
  });
  return [response.status, await response.text()];
}
const of = (name: string, id: string, more: object = {}) => ({
  id,
  repository: { full_name: name },
  ...more,
});

describe("an agent that verifies its own webhooks", () => {
  test("answers with the statuses and texts of the interface", async () => {
    expect(await post(of("Acme/Answers", "1"))).toEqual([200, "OK"]);
    expect(await post(of("Acme/Answers", "2"), { "X-Event-Type": "slow" })).toEqual([
      202,
      "Accepted",
    ]);
    expect(await post({ id: "3" })).toEqual([400, "Missing repository"]);
    expect(await post({ repository: { full_name: "Acme/Answers" } })).toEqual([400, "Invalid"]);
    for (const wrong of ["sha256=00", ""])
      expect(await post(of("Acme/Answers", "4"), { "X-Hub-Signature-256": wrong })).toEqual([
        401,
        "Invalid signature",
      ]);
    const got = await fetch(`${system.url}/agents/repo-agent/acme-answers`);
    expect([got.status, await got.text()]).toEqual([405, "Method not allowed"]);
    const nowhere = await fetch(`${system.url}/elsewhere`);
    expect([nowhere.status, await nowhere.text()]).toEqual([404, "Not found"]);
    const agent = await repo("acme-answers");
    await pollUntil("the queued one is in", async () => {
      const rows = await agent.list();
      return rows.length === 2 || { done: false, saw: rows };
    });
  });

  test("answers 403 Readonly connection to a write for a readonly one", async () => {
    const url = `${system.url}/agents/repo-agent/acme-readonly`;
    const reader = await TestSocket.open(`${url}?_pk=reader&readonly`);
    const writer = await TestSocket.open(`${url}?_pk=writer`);
    await Promise.all([reader.first(3), writer.first(3)]);
    const put = async (id: string): Promise<[number, string]> => {
      const response = await fetch(url, { method: "PUT", headers: { "X-Connection": id } });
      return [response.status, await response.text()];
    };
    expect(await put("reader")).toEqual([403, "Readonly connection"]);
    expect(await put("writer")).toEqual([200, "OK"]);
    await Promise.all([reader.close(), writer.close()]);
  });

  test("keeps its events in its own table; a redelivery changes nothing", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/repo-agent/acme-twice`);
    await socket.first(3);
    for (let n = 0; n < 2; n++)
      expect(await post(of("Acme/Twice", "same", { title: "once" }))).toEqual([200, "OK"]);
    expect(await post(of("Acme/Twice", "other", { title: "two" }))).toEqual([200, "OK"]);
    const agent = await repo("acme-twice");
    expect((await agent.listByType("push")).map(({ title }) => title)).toEqual(["two", "once"]);
    // Clients receive a webhook's change: one state for each event, none for the duplicate.
    await socket.until("both changes", () => socket.frames.length === 5);
    expect(
      socket.frames.slice(3).map((frame) => JSON.parse(String(frame)) as object),
    ).toMatchObject([
      { type: "cf_agent_state", state: { events: 1 } },
      { type: "cf_agent_state", state: { events: 2 } },
    ]);
    await socket.close();
  });

  test("lists 20 events by default, and keeps the newest 100 of the last 30 days", async () => {
    const agent = await repo("acme-many");
    for (let n = 0; n < KEPT + 5; n++) {
      const at = new Date(Date.UTC(2026, 0, 1 + n)).toISOString();
      await agent.take({ type: "push", payload: { id: `e${n}`, at } });
    }
    expect(await agent.list()).toHaveLength(LISTED_DEFAULT);
    const all = await agent.list(KEPT * 2);
    expect([all.length, all[0]?.id, all.at(-1)?.id]).toEqual([KEPT, "e104", "e5"]);
    await agent.prune(new Date(Date.UTC(2026, 0, 1 + 75)).toISOString());
    expect((await agent.list(KEPT)).at(-1)?.id).toBe("e75");
  });
});
