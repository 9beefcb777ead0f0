/** Wrong requests to an MCP server with sessions: each is answered, and the session goes on. */
import { beforeAll, describe, expect, it } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";
import module, { CounterMcp } from "./counterModule.ts";
import { eventsOf, INITIALIZE, post } from "./kit.ts";

const systems = useSystems();
let system: System;
let url: string;
let session: string;
beforeAll(async () => {
  system = await start();
  url = `${system.url}/mcp`;
  session = await begin();
});

const start = () => systems.start({ agents: { CounterMcp }, fetch: module.fetch });

async function begin(at = url): Promise<string> {
  const begun = await post(at, INITIALIZE);
  await eventsOf(begun);
  return begun.headers.get("mcp-session-id")!;
}

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };
const calling = (id: unknown, name: string, args: object = {}) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** A request of the session, with what is wrong about it. */
function send({ method = "POST", headers = {}, body }: Sent): Promise<Response> {
  return fetch(url, {
    method,
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
      "mcp-session-id": session,
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

const goesOn = async (): Promise<void> => {
  const answer = await post(url, calling("after", "add", { amount: 0 }), session);
  expect((await eventsOf(answer)).at(-1)!.data).toContain('"id":"after"');
};

const UUID = "00000000-0000-4000-8000-000000000000";
const WRONG: ReadonlyArray<readonly [what: string, sent: Sent, status: number, error: RegExp]> = [
  ["no JSON", { body: "{" }, 400, /-32700.*Parse error/],
  ["no body", {}, 400, /-32700.*Parse error/],
  ["null", { body: null }, 400, /-32700.*Invalid JSON-RPC/],
  ["a number", { body: "7" }, 400, /-32700.*Invalid JSON-RPC/],
  ["another version of JSON-RPC", { body: { ...LIST, jsonrpc: "1.0" } }, 400, /Invalid JSON-RPC/],
  ["an id that is an object", { body: { ...LIST, id: {} } }, 400, /Invalid JSON-RPC/],
  ["an id that is null", { body: { ...LIST, id: null } }, 400, /Invalid JSON-RPC/],
  ["a broken one in a batch", { body: [LIST, 7] }, 400, /Invalid JSON-RPC/],
  ["a huge batch", { body: Array.from({ length: 1_000 }, (_, id) => ({ ...LIST, id })) }, 400, /-32600.*Batch/], // prettier-ignore
  ["more than 4 MiB", { body: { ...LIST, params: { text: "x".repeat(5 * 1024 * 1024) } } }, 413, /-32000.*Payload Too Large.*4194304/], // prettier-ignore
  ["nothing but lists", { body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${"[".repeat(300_000)}${"]".repeat(300_000)}}}` }, 413, /-32000.*lists and objects/], // prettier-ignore
  ["one id twice in a batch", { body: [LIST, LIST] }, 400, /-32600.*the id 1 is running/],
  ["a second initialize", { body: INITIALIZE }, 400, /-32600.*already initialized/],
  ["initialize in a batch", { body: [LIST, { ...INITIALIZE, id: 2 }] }, 400, /already initialized/],
  ["no Accept", { body: LIST, headers: { accept: "application/json" } }, 406, /must accept both/],
  ["a GET for JSON", { method: "GET", headers: { accept: "application/json" } }, 406, /must accept text\/event-stream/], // prettier-ignore
  ["another content type", { body: LIST, headers: { "content-type": "text/plain" } }, 415, /application\/json/], // prettier-ignore
  ["a version that nobody knows", { body: LIST, headers: { "mcp-protocol-version": "1999-01-01" } }, 400, /Unsupported protocol version: 1999-01-01/], // prettier-ignore
  ["a session that nobody has begun", { body: LIST, headers: { "mcp-session-id": UUID } }, 404, /-32001.*Session not found/], // prettier-ignore
  ["a session that can't be", { body: LIST, headers: { "mcp-session-id": "/a/b" } }, 404, /-32001.*Session not found/], // prettier-ignore
  ["a huge session id", { body: LIST, headers: { "mcp-session-id": "x".repeat(4_000) } }, 404, /-32001.*Session not found/], // prettier-ignore
  ["an event id that is none", { method: "GET", headers: { "last-event-id": "garbage" } }, 400, /Invalid event ID/], // prettier-ignore
  ["a place of an event that is none", { method: "GET", headers: { "last-event-id": "x:1e400" } }, 400, /Invalid event ID/], // prettier-ignore
  ["PUT", { method: "PUT", body: LIST }, 405, /Method Not Allowed/],
];

describe("a client that sends", () => {
  it.each(WRONG)(
    "%s is an error, and the session continues",
    async (_what, sent, status, error) => {
      const answer = await send(sent);
      expect(await answer.text()).toMatch(error);
      expect(answer.status).toBe(status);
      await goesOn();
    },
  );

  it("more than 64 KiB to begin a session begins none", async () => {
    const named = (name: string) => {
      const params = { ...INITIALIZE.params, clientInfo: { name, version: "1" } };
      return post(`${system.url}/mcp`, { ...INITIALIZE, params });
    };
    const refused = await named("x".repeat(64 * 1024));
    expect(await refused.text()).toMatch(/-32000.*Payload Too Large.*65536/);
    expect(refused.status).toBe(413);
    expect((await named("x".repeat(63 * 1024))).status).toBe(200);
  });

  it("a huge message without a session is an error", async () => {
    for (const path of ["/mcp", "/auto"])
      for (const params of [
        ["x".repeat(5 * 1024 * 1024)],
        Array.from({ length: 300_000 }, () => []),
      ]) {
        // prettier-ignore
        const answer = await post(`${system.url}${path}`, { ...INITIALIZE, params });
        expect(await answer.text()).toMatch(/-32000.*Payload Too Large/);
        expect(answer.status).toBe(413);
      }
  });

  it.each([
    ["no JSON", "{", /-32700.*Parse error/],
    ["a request", JSON.stringify(LIST), /-32000.*Mcp-Session-Id header is required/],
    ["a batch of none", "[]", /-32000.*Mcp-Session-Id header is required/],
    ["two messages of which one begins a session", JSON.stringify([INITIALIZE, { ...LIST, id: 2 }]), /-32600.*[Oo]nly one initialization/], // prettier-ignore
  ])("%s without a session is an error", async (_what, body, error) => {
    const headers = {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
    };
    const answer = await fetch(url, { method: "POST", headers, body });
    expect(await answer.text()).toMatch(error);
    expect(answer.status).toBe(400);
  });

  it("any valid JSON-RPC id gets its answer", async () => {
    const ids = [0, -1, 2 ** 53 - 1, "", "turnkeep:restore", "__proto__", "x".repeat(100_000)];
    for (const id of ids) {
      const answer = await post(url, { ...LIST, id }, session);
      expect((await eventsOf(answer)).at(-1)!.data).toContain(`"id":${JSON.stringify(id)}`);
    }
  });

  it("the id of a running request again is refused, and the first request is answered", async () => {
    const own = await begin();
    const asking = await post(url, calling(7, "ask"), own);
    const isQuestion = (data: string): boolean => data.includes("elicitation/create");
    const answers = eventsOf(asking, (events) => {
      const last = events.at(-1);
      if (last !== undefined && isQuestion(last.data)) void answerIt(last.data);
      return false;
    });
    const answerIt = async (question: string): Promise<void> => {
      const again = await post(url, { ...LIST, id: 7 }, own);
      expect(again.status).toBe(400);
      expect(await again.text()).toMatch(/-32600.*the id 7 is running/);
      const { id } = JSON.parse(question) as { readonly id: number };
      await post(url, { jsonrpc: "2.0", id, result: { action: "decline" } }, own);
    };
    expect((await answers).at(-1)!.data).toContain("decline: 0");
  });

  it("a cancellation ends its request's stream, and does not keep its agent in memory", async () => {
    // No other session is in the memory of this system.
    const alone = await start();
    const at = `${alone.url}/mcp`;
    const own = await begin(at);
    const hanging = await post(at, calling(9, "hang"), own);
    expect(hanging.status).toBe(200);
    const cancelled = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: 9 },
    };
    expect((await post(at, cancelled, own)).status).toBe(202);
    expect((await eventsOf(hanging)).at(-1)!.data).toContain("Request cancelled");
    await pollUntil("its agent has left memory", () => {
      const active = alone.host.host.agentsActive;
      return active === 0 || { done: false, saw: active };
    });
    await alone.stop();
  });

  it("two DELETEs ends the session once", async () => {
    const own = await begin();
    const end = () => send({ method: "DELETE", headers: { "mcp-session-id": own } });
    expect((await end()).status).toBe(204);
    const again = await end();
    expect(again.status).toBe(404);
    expect(await again.text()).toMatch(/Session not found/);
  });

  it("two GETs has one stream at a time: the later one takes it over", async () => {
    const own = await begin();
    const open = () =>
      fetch(url, { headers: { accept: "text/event-stream", "mcp-session-id": own } });
    const first = await open();
    const later = await open();
    expect([first.status, later.status]).toEqual([200, 200]);
    expect(await first.text()).toBe(": open\n\n"); // It has ended.
    await later.body?.cancel();
  });
});

describe("the older transport", () => {
  const messages = (sessionId: string, body: string) =>
    fetch(`${system.url}/sse/message?sessionId=${sessionId}`, { method: "POST", body });

  it("accepts messages of a session only while its stream is open", async () => {
    const leaving = new AbortController();
    const stream = await fetch(`${system.url}/sse`, { signal: leaving.signal });
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader.read();
    const own = /sessionId=(\S+)/.exec(first.value!)![1]!;
    expect((await messages(own, "{")).status).toBe(400);
    expect((await messages(own, JSON.stringify([LIST]))).status).toBe(400);
    expect((await messages(own, JSON.stringify("x".repeat(5 * 1024 * 1024)))).status).toBe(413);
    expect((await messages(own, JSON.stringify(LIST))).status).toBe(202);
    leaving.abort();
    await reader.cancel().catch(() => undefined);
    await pollUntil("its session is over", async () => {
      const { status } = await messages(own, JSON.stringify(LIST));
      return status === 404 || { done: false, saw: status };
    });
  });

  it.each([
    ["that nobody has begun", UUID],
    ["that can't be", "a/b"],
    ["that is huge", "x".repeat(2_000)],
  ])("does not recognise the session %s", async (_what, sessionId) => {
    const answer = await messages(sessionId, JSON.stringify(LIST));
    expect(answer.status).toBe(404);
  });
});
