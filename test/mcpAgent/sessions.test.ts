/** MCP servers with sessions (`McpAgent`), asked by the SDK's clients over real HTTP. */
import { beforeAll, describe, expect, it } from "vitest";
import { Client as ClientOfVersion1 } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport as TransportOfVersion1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";
import module, { CounterMcp } from "./counterModule.ts";
import { connectClient, eventsOf, INITIALIZE, post, textOf } from "./kit.ts";

const systems = useSystems();
let system: System;
let url: string;
beforeAll(async () => {
  system = await systems.start({ agents: { CounterMcp }, fetch: module.fetch });
  url = `${system.url}/mcp`;
});

describe("a session over streamable HTTP", () => {
  it("has its own state, which its tools show to the SDK's client", async () => {
    const [a, b] = [await connectClient(url), await connectClient(url)];
    expect((await a.client.listTools()).tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["add", "ask", "hang", "whoami"]),
    );
    expect(await a.call("add", { amount: 2 })).toBe("2");
    expect(await a.call("add", { amount: 3 })).toBe("5");
    expect(await b.call("add", { amount: 1 })).toBe("1");
    expect(a.transport.sessionId).not.toBe(b.transport.sessionId);
    await a.client.close();
    await b.client.close();
  });

  it("also works with the SDK's version 1 client", async () => {
    const client = new ClientOfVersion1({ name: "old", version: "1" });
    await client.connect(new TransportOfVersion1(new URL(url)));
    const args = { name: "add", arguments: { amount: 7 } };
    expect(textOf(await client.callTool(args))).toBe("7");
    expect(textOf(await client.callTool(args))).toBe("14");
    await client.close();
  });

  it("can elicit input from the user in the middle of a tool", async () => {
    const { call, client } = await connectClient(url, {
      answer: () => ({ action: "accept", content: { amount: 30 } }),
    });
    await call("add", { amount: 12 });
    expect(await call("ask")).toBe("accept: 42");
    await client.close();
  });

  it("survives hibernation, with the client's capabilities", async () => {
    const { call, client, transport } = await connectClient(url, {
      answer: () => ({ action: "accept", content: { amount: 1 } }),
    });
    await call("add", { amount: 1 });
    // The client's own stream would keep the agent in memory.
    const sessionId = transport.sessionId!;
    await client.close();
    await hibernated();
    const raw = await post(url, { jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "ask", arguments: {} } }, sessionId); // prettier-ignore
    const answered = eventsOf(raw, (seen) => {
      const question = seen.find(({ data }) => data.includes("elicitation/create"));
      const isFirst = question !== undefined && seen.at(-1) === question;
      if (isFirst) void post(url, { jsonrpc: "2.0", id: (JSON.parse(question.data) as { id: number }).id, result: { action: "decline" } }, sessionId); // prettier-ignore
      return false;
    });
    expect((await answered).at(-1)!.data).toContain("decline: 1");
  });

  it("that is unknown returns 404, and a request without one that does not initialize 400", async () => {
    const call = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    expect((await post(url, call, "nobody-knows-it")).status).toBe(404);
    expect((await post(url, call)).status).toBe(400);
    expect((await fetch(`${system.url}/mcp`)).status).toBe(400);
  });

  it("ends with DELETE: its state is deleted, and its id unknown", async () => {
    const { call, client, transport } = await connectClient(url);
    await call("add", { amount: 5 });
    const sessionId = transport.sessionId!;
    await transport.terminateSession();
    await client.close();
    const again = await post(url, { jsonrpc: "2.0", id: 1, method: "tools/list" }, sessionId);
    expect(again.status).toBe(404);
  });

  it("keeps the authentication of its first request, also after hibernation", async () => {
    const { call, client, transport } = await connectClient(url, { headers: { "x-user": "ada" } });
    const sessionId = transport.sessionId!;
    expect(JSON.parse(await call("whoami"))).toEqual({
      session: sessionId,
      props: { user: "ada" },
    });
    await client.close();
    await hibernated();
    const raw = await post(url, { jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: "whoami", arguments: {} } }, sessionId); // prettier-ignore
    expect((await eventsOf(raw)).at(-1)!.data).toContain("ada");
  });
});

describe("a session that hibernates", () => {
  const ask = (user: string | undefined, message: unknown, session?: string) =>
    fetch(url, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...(user === undefined ? {} : { "x-user": user }),
        ...(session === undefined ? {} : { "mcp-session-id": session }),
      },
      body: JSON.stringify(message),
    });

  it.each([
    ["ada", { user: "ada" }],
    [undefined, {}],
  ])("keeps the props of %s when another caller wakes it", async (user, props) => {
    const begun = await ask(user, INITIALIZE);
    const session = begun.headers.get("mcp-session-id")!;
    await begun.text();
    const whoami = { jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "whoami", arguments: {} } }; // prettier-ignore
    const seen = async (): Promise<unknown> => {
      const { data } = (await eventsOf(await ask("bob", whoami, session))).at(-1)!;
      return JSON.parse(textOf((JSON.parse(data) as { readonly result: object }).result));
    };
    expect(await seen()).toEqual({ session, props });
    await hibernated();
    expect(await seen()).toEqual({ session, props });
  });
});

describe("a stream that was interrupted", () => {
  it("resumes after the client's last event, and one that has finished ends", async () => {
    const begun = await post(url, INITIALIZE);
    const session = begun.headers.get("mcp-session-id")!;
    const [first] = await eventsOf(begun);
    expect(first).toMatchObject({ data: "" }); // The event that makes the stream resumable.
    const resumed = await fetch(url, {
      headers: { accept: "text/event-stream", "mcp-session-id": session, "last-event-id": first!.id! }, // prettier-ignore
    });
    const events = await eventsOf(resumed);
    expect(events).toHaveLength(1);
    expect(JSON.parse(events[0]!.data)).toMatchObject({ id: 1, result: { serverInfo: { name: "counter" } } }); // prettier-ignore
  });

  it("of another session, or that is not kept any more, is refused", async () => {
    const [a, b] = [await post(url, INITIALIZE), await post(url, INITIALIZE)];
    const event = (await eventsOf(a)).at(-1);
    const resume = async (of: Response) => {
      const session = of.headers.get("mcp-session-id")!;
      const headers = { accept: "text/event-stream", "mcp-session-id": session, "last-event-id": event!.id! }; // prettier-ignore
      const answer = await fetch(url, { headers });
      return [answer.status, answer.status === 204 ? "" : await answer.text()];
    };
    const refused = [400, expect.stringContaining("Invalid event ID")];
    expect(await resume(b)).toEqual(refused);
    expect(await resume(a)).toEqual([204, ""]);
    for (let id = 2; id < 40; id++)
      await (await post(url, { jsonrpc: "2.0", id, method: "ping" }, a.headers.get("mcp-session-id")!)).text(); // prettier-ignore
    expect(await resume(a)).toEqual(refused);
  });
});

describe("a stream whose connection is not known to be lost", () => {
  const open = (session: string, lastEventId: string) =>
    fetch(url, {
      headers: {
        accept: "text/event-stream",
        "mcp-session-id": session,
        "last-event-id": lastEventId,
      },
    });
  const begin = async () => {
    const begun = await post(url, INITIALIZE);
    const events = await eventsOf(begun);
    return { session: begun.headers.get("mcp-session-id")!, last: events.at(-1)!.id! };
  };

  it("of a request goes on with the client that resumes it, and the connection ends", async () => {
    const { session } = await begin();
    const ask = { jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "ask", arguments: {} } }; // prettier-ignore
    const first = await post(url, ask, session);
    const reader = first.body!.getReader();
    const { value } = await reader.read();
    const primingId = /^id: (.*)$/m.exec(new TextDecoder().decode(value))![1]!;
    const resumed = await open(session, primingId);
    expect(resumed.status).toBe(200);
    const events = await eventsOf(resumed, (seen) => {
      if (seen.length === 1) void post(url, { jsonrpc: "2.0", id: (JSON.parse(seen[0]!.data) as { id: number }).id, result: { action: "decline" } }, session); // prettier-ignore
      return seen.length === 2;
    });
    expect(events[1]!.data).toContain("decline: 0");
    while (!(await reader.read()).done);
  });

  it("is not opened again where the client has all of it: an SDK's client asks after each error", async () => {
    const { session, last } = await begin();
    expect((await open(session, last)).status).toBe(204);
  });
});

describe("the older transport", () => {
  it.each(["/sse", "/auto"])("serves tools by server-sent events at %s", async (path) => {
    const client = new ClientOfVersion1({ name: "old", version: "1" });
    await client.connect(new SSEClientTransport(new URL(system.url + path)));
    const args = { name: "add", arguments: { amount: 4 } };
    expect(textOf(await client.callTool(args))).toBe("4");
    expect(textOf(await client.callTool(args))).toBe("8");
    await client.close();
  });

  it.each(["/any", "/any/sse", "/any/deeper/path/"])("at / serves every path: %s", async (path) => {
    const client = new ClientOfVersion1({ name: "old", version: "1" });
    await client.connect(new SSEClientTransport(new URL(system.url + path)));
    expect(textOf(await client.callTool({ name: "add", arguments: { amount: 3 } }))).toBe("3");
    await client.close();
  });

  it("shares its path with streamable HTTP if configured", async () => {
    const { call, client } = await connectClient(`${system.url}/auto`);
    expect(await call("add", { amount: 9 })).toBe("9");
    await client.close();
  });

  it("answers a message for an unknown stream with 404", async () => {
    const answer = await post(`${system.url}/sse/message?sessionId=nobody`, INITIALIZE);
    expect(answer.status).toBe(404);
  });
});

describe("the route", () => {
  it("answers preflights, and exposes the session header to browsers", async () => {
    const preflight = await fetch(url, { method: "OPTIONS" });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-expose-headers")).toBe("mcp-session-id");
    const begun = await post(url, INITIALIZE);
    expect(begun.headers.get("access-control-allow-origin")).toBe("*");
    await begun.body?.cancel();
  });

  it("answers its path only, and at / every path", async () => {
    const begin = (path: string) =>
      new Request(`http://localhost${path}`, { method: "POST", body: JSON.stringify(INITIALIZE) });
    expect((await CounterMcp.serve("/mcp").fetch(begin("/other"), {})).status).toBe(404);
    await expect(CounterMcp.serve("/").fetch(begin("/other"), {})).rejects.toThrow(/no agent binding/); // prettier-ignore
  });

  it("names the missing binding, or the existing transports", () => {
    const request = new Request(url, { method: "POST", body: JSON.stringify(INITIALIZE) });
    const route = CounterMcp.serve("/mcp", { binding: "NoSuch" });
    return Promise.all([
      expect(route.fetch(request, {})).rejects.toThrow(/no agent binding NoSuch/),
      expect(() => CounterMcp.serve("/mcp", { transport: "udp" as never })).toThrow(/no transport "udp"/), // prettier-ignore
    ]);
  });
});

const hibernated = () =>
  pollUntil("no session's agent is in memory", () => {
    const active = system.host.host.agentsActive;
    return active === 0 || { done: false, saw: active };
  });
