/** Servers that hang, lie, or send garbage or too much: a clear error in bounded time. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { RequestListener, ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { addressGuard, refusal } from "../../services/mcp/addressGuard.ts";
import { guardedFetch } from "../../services/mcp/guardedFetch.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { hibernated, listen, mcpFrames, rpc, untilMcp } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

/** Stays in memory, so that its frames are of this test alone. */
class WakingAgent extends ToolAgent {
  static override options = { hibernateAfterSeconds: 60 };
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { ToolAgent, WakingAgent } });
});
const stops: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});
afterAll(() => undefined);

const open = (name: string) => TestSocket.open(`${system.url}/agents/tool-agent/${name}`);

interface Message {
  readonly id?: number;
  readonly method?: string;
}
type Answer = (message: Message, response: ServerResponse) => void;

const reply = (response: ServerResponse, body: unknown, type = "application/json"): void => {
  response.writeHead(200, { "content-type": type });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
};
const result = (id: number | undefined, value: unknown) => ({ jsonrpc: "2.0", id, result: value });
const HELLO = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "bad", version: "1" },
};
const ANNOUNCES = { ...HELLO, capabilities: { tools: { listChanged: true } } };
const CHANGED = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n`;
const toolNamed = (name: string) => ({ tools: [{ name, inputSchema: { type: "object" } }] });
const TOOLS = toolNamed("t");

/** A server by hand: handshakes rightly, and the rest as the test says; also `initialize`. */
async function serve(answers: Readonly<Record<string, Answer>>, raw?: RequestListener) {
  const server = await listen((request, response) => {
    if (raw !== undefined) return raw(request, response);
    if (request.method !== "POST") return response.writeHead(405).end();
    return void textOf(request).then((body) => {
      const message = JSON.parse(body) as Message;
      const answer = answers[message.method ?? ""];
      if (answer !== undefined) return answer(message, response);
      if (message.method === "initialize") return reply(response, result(message.id, HELLO));
      if (message.method === "tools/list") return reply(response, result(message.id, TOOLS));
      return response.writeHead(202).end();
    });
  });
  stops.push(server.close);
  return server;
}
const hang: Answer = () => undefined;
const say =
  (value: unknown): Answer =>
  ({ id }, response) =>
    reply(response, result(id, value));

/** What a client is told of a server that could not be connected to, whatever the cause. */
const UNREACHABLE = /: No MCP server can be reached at this URL$/;

/** Adding it fails with this; the agent works on, and lists it as failed. The log has the cause. */
async function fails(url: string, text: RegExp, name: string, cause?: RegExp): Promise<void> {
  const socket = await open(name);
  const adding = rpc(socket, "add", "Bad", url, { id: "bad" }).then(String, String);
  expect(await rpc(socket, "ping")).toBe("pong");
  const error = await adding;
  expect(error).toMatch(text);
  expect(error.length).toBeLessThan(700);
  const logged = system.host.log.lines.filter(
    ({ message, fields }) =>
      message === "an MCP server can't be connected to" &&
      (fields as { server: string }).server === new URL(url).origin,
  );
  if (cause !== undefined) expect(JSON.stringify(logged.at(-1)?.fields)).toMatch(cause);
  // An agent that has hibernated since then connects again.
  const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "waited");
  expect(mcp.servers["bad"]).toMatchObject({
    state: "failed",
    error: expect.any(String) as string,
  });
  expect(mcp.tools).toEqual([]);
}

describe("a server that", () => {
  test("is not there", () =>
    fails("http://127.0.0.1:9/mcp", UNREACHABLE, "absent", /ECONNREFUSED/));

  test("answers with an error, or violates the protocol", async () => {
    const broken = await serve({}, (_request, response) => response.writeHead(503).end("\u0007down\n".repeat(400))); // prettier-ignore
    await fails(broken.url, UNREACHABLE, "broken", /down/);
    const page = await serve({}, (_request, response) => reply(response, "<html>hi</html>", "text/html")); // prettier-ignore
    await fails(page.url, UNREACHABLE, "page", /content type|text\/html/i);
    const garbage = await serve({ initialize: (_m, response) => reply(response, "{not json") });
    await fails(garbage.url, UNREACHABLE, "garbage", /JSON/);
    const other = await serve({ initialize: say({ protocolVersion: "1999-01-01", capabilities: {}, serverInfo: { name: "x", version: "1" } }) }); // prettier-ignore
    await fails(other.url, UNREACHABLE, "version", /1999-01-01/);
    const wrong = await serve({ initialize: say({ tools: 1 }) });
    await fails(wrong.url, UNREACHABLE, "wrong", /answer|invalid/i);
  });

  test("cuts the connection in the middle of its answer", async () => {
    const cut = await serve({
      initialize: (_message, response) => {
        response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
        response.write("{");
        setImmediate(() => response.destroy());
      },
    });
    await fails(cut.url, UNREACHABLE, "cut", /terminated|aborted|cut|closed|ECONNRESET/i);
  });

  test("lists invalid tools, or too many of them", async () => {
    const liar = await serve({ "tools/list": say({ tools: [{ name: 7 }] }) });
    await fails(liar.url, /could not list its tools/, "liar");
    const big = await serve({ "tools/list": say({ tools: [{ name: "t", description: "x".repeat(3_000_000), inputSchema: { type: "object" } }] }) }); // prettier-ignore
    await fails(big.url, /too much/, "big");
    let pages = 0;
    const endless = await serve({ "tools/list": ({ id }, response) => reply(response, result(id, { ...TOOLS, nextCursor: `c${++pages}` })) }); // prettier-ignore
    await fails(endless.url, /listMaxPages|pagination/, "endless");
    expect(pages).toBeLessThanOrEqual(50);
  });

  test("says too much of itself, alone or beside the agent's other servers, is in no frame", async () => {
    const proud = await serve({ initialize: say({ ...HELLO, capabilities: { tools: {}, experimental: { x: { y: "x".repeat(2_100_000) } } } }) }); // prettier-ignore
    await fails(proud.url, /too much/, "proud");
    const large = () =>
      serve({ initialize: say({ ...HELLO, instructions: "x".repeat(1_100_000) }) });
    const socket = await TestSocket.open(`${system.url}/agents/waking-agent/proud`);
    expect(await rpc(socket, "add", "One", (await large()).url)).toMatchObject({ state: "ready" });
    for (const { url } of [await large(), proud])
      await expect(rpc(socket, "add", "Other", url)).rejects.toThrow(
        /too much: \d{7} characters, the agent's other servers 1100\d{3}, and the limit/,
      );
    const sizes = mcpFrames(socket).map((mcp) => JSON.stringify(mcp).length);
    expect(Math.max(...sizes)).toBeLessThan(1_200_000);
  });

  test("answers a call with a long error is cited in part", async () => {
    const server = await serve({
      "tools/call": ({ id }, response) =>
        reply(response, {
          jsonrpc: "2.0",
          id,
          error: { code: 1, message: "\u0007x".repeat(9_999) },
        }),
    });
    const socket = await open("cited");
    await rpc(socket, "add", "E", server.url, { id: "e" });
    await expect(rpc(socket, "call", "e", "t", {})).rejects.toThrow(/^(x ){250}\.{3}$/);
  });

  test("ends its stream at once, and wants no pause, is asked for it twice a second at most", async () => {
    const opened: number[] = [];
    const server = await serve({}, (request, response) => {
      if (request.method === "GET") {
        opened.push(performance.now());
        response.writeHead(200, { "content-type": "text/event-stream" }).end("retry: 0\n");
        return;
      }
      void textOf(request).then((body) => {
        const { id, method } = JSON.parse(body || "{}") as Message;
        if (method === "initialize") return reply(response, result(id, HELLO));
        if (method === "tools/list") return reply(response, result(id, TOOLS));
        return response.writeHead(202).end();
      });
    });
    const socket = await open("hasty");
    await rpc(socket, "add", "H", server.url, { id: "h" });
    await pollUntil("its stream is opened again", () => opened.length > 2);
    // A timer of Node's may be a millisecond early.
    for (const n of [1, 2]) expect(opened[n]! - opened[n - 1]!).toBeGreaterThan(490);
  });

  test("requires a token, and has no OAuth, is reported as such", async () => {
    const server = await serve({}, (request, response) => {
      if (request.url !== "/") return response.writeHead(404).end();
      return response.writeHead(401, { "www-authenticate": "Bearer" }).end();
    });
    await fails(server.url, /: The server requires authorization, .* pass headers with a token$/, "token", /Registration/); // prettier-ignore
  });

  test("sends an oversized answer, as JSON or as events", async () => {
    const flood =
      (type: string, line: string): Answer =>
      (_message, response) => {
        response.writeHead(200, { "content-type": type });
        const chunk = line.repeat(100_000);
        const more = (): void => {
          while (!response.destroyed && response.write(chunk));
        };
        response.on("drain", more);
        more();
      };
    const json = await serve({ initialize: flood("application/json", "          ") });
    await fails(json.url, UNREACHABLE, "flood-json", /too large/);
    const events = await serve({ initialize: flood("text/event-stream", "data: xxxx") });
    await fails(events.url, UNREACHABLE, "flood-events", /too large/);
  });

  test("sends an answer of nothing but lists, as JSON or as an event", async () => {
    const lists = "[".repeat(1_000_000);
    const json = await serve({ initialize: (_message, response) => reply(response, `{"x":${lists}`) }); // prettier-ignore
    await fails(json.url, UNREACHABLE, "lists-json", /lists and objects/);
    const event = await serve({ initialize: (_message, response) => reply(response, `data: {"x":${lists}\n\n`, "text/event-stream") }); // prettier-ignore
    await fails(event.url, UNREACHABLE, "lists-events", /lists and objects/);
  });

  test("hangs in a call times out, and the next call is sent", async () => {
    let calls = 0;
    const server = await serve({
      "tools/call": (message, response) => {
        if (++calls === 1) return;
        reply(response, result(message.id, { content: [{ type: "text", text: "late" }] }));
      },
    });
    const socket = await open("hangs");
    await rpc(socket, "add", "H", server.url, { id: "h" });
    const first = rpc(socket, "call", "h", "t", {}, 300).then(String, String);
    expect(await rpc(socket, "ping")).toBe("pong");
    expect(await first).toMatch(/did not answer in time/);
    expect(await rpc(socket, "call", "h", "t", {})).toMatchObject({ content: [{ text: "late" }] });
  });

  test("hangs in the handshake does not delay the agent's other servers, and can be removed", async () => {
    const hanging = await serve({ initialize: hang });
    const good = await serve({});
    const socket = await open("handshake");
    const adding = rpc(socket, "add", "Hang", hanging.url, { id: "hang" }).then(String, String);
    expect(await rpc(socket, "add", "Good", good.url, { id: "good" })).toMatchObject({ state: "ready" }); // prettier-ignore
    await rpc(socket, "remove", "hang");
    expect(await adding).toMatch(/closed meanwhile/);
    expect(Object.keys(mcpFrames(socket).at(-1)!.servers)).toEqual(["good"]);
  });

  test("is added several times while it connects or lists its tools is connected to once", async () => {
    const held = { initialize: [] as Array<() => void>, list: [] as Array<() => void> };
    const server = await serve({
      initialize: ({ id }, response) =>
        void held.initialize.push(() => reply(response, result(id, HELLO))),
      "tools/list": ({ id }, response) =>
        void held.list.push(() => reply(response, result(id, TOOLS))),
    });
    const sockets = await Promise.all(Array.from({ length: 4 }, () => open("several")));
    const adding = sockets.slice(0, 2).map((socket) => rpc(socket, "add", "S", server.url));
    const add = async (socket: TestSocket) => {
      adding.push(rpc(socket, "add", "S", server.url));
      expect(await rpc(socket, "ping")).toBe("pong");
    };
    const asked = (kind: keyof typeof held) =>
      pollUntil(`${kind} is asked`, () => held[kind].length > 0);
    await asked("initialize");
    await add(sockets[2]!);
    held.initialize[0]!();
    await asked("list");
    await add(sockets[3]!);
    held.list[0]!();
    const [first, ...others] = await Promise.all(adding);
    expect(first).toMatchObject({ state: "ready" });
    for (const other of others) expect(other).toEqual(first);
    expect([held.initialize.length, held.list.length]).toEqual([1, 1]);
    expect(await rpc(sockets[0]!, "rows")).toHaveLength(1);
  });

  test("lists its tools slowly keeps the agent that wakes in memory until it is ready", async () => {
    const { host, url } = await systems.start({ agents: { ToolAgent } });
    let lists = 0;
    const slow = await serve({
      // Longer than the agent stays in memory without work.
      "tools/list": ({ id }, response) =>
        void setTimeout(() => reply(response, result(id, TOOLS)), lists++ === 0 ? 0 : 5_000),
    });
    const socket = await TestSocket.open(`${url}/agents/tool-agent/sleeper`);
    await rpc(socket, "add", "Slow", slow.url, { id: "slow" });
    await hibernated(host);
    const seen = mcpFrames(socket).length;
    expect(await rpc(socket, "ping")).toBe("pong");
    await untilMcp(socket, "it is ready again", ({ servers }) => servers["slow"]?.state === "ready", seen); // prettier-ignore
    expect(lists).toBe(2);
  });

  test("is removed during its retries is not retried", async () => {
    let tries = 0;
    const server = await serve({}, (_request, response) => {
      tries++;
      response.writeHead(500).end();
    });
    const socket = await open("given-up");
    await rpc(socket, "add", "Gone", server.url, { id: "gone" }).catch(String);
    const begun = rpc(socket, "establish", "gone").then(String, String);
    await untilMcp(socket, "a second try", () => tries >= 2);
    await rpc(socket, "remove", "gone");
    await begun;
    const after = tries;
    const good = await serve({});
    await rpc(socket, "add", "Good", good.url, { id: "good" });
    expect(tries).toBe(after);
    expect(Object.keys(mcpFrames(socket).at(-1)!.servers)).toEqual(["good"]);
  });

  test("announces changed tools while it is being listed: the change is seen", async () => {
    let lists = 0;
    let events: ServerResponse | undefined;
    const server = await serve({}, (request, response) => {
      if (request.method === "GET") {
        events = response.writeHead(200, { "content-type": "text/event-stream" });
        events.flushHeaders();
        return;
      }
      void (async () => {
        const { id, method } = JSON.parse((await textOf(request)) || "{}") as Message;
        if (method === "initialize") return reply(response, result(id, ANNOUNCES));
        if (method !== "tools/list") return void response.writeHead(202).end();
        const tools = toolNamed(`t${++lists}`);
        if (lists === 1) {
          await pollUntil("its stream", () => events !== undefined);
          events!.write(CHANGED);
          await delay(500);
        }
        return reply(response, result(id, tools));
      })();
    });
    const socket = await open("listing");
    await rpc(socket, "add", "L", server.url, { id: "l" });
    await untilMcp(socket, "the later list", ({ tools }) =>
      tools.some(({ name }) => name === "t2"),
    );
  });

  test("constantly announces changed tools is asked at a limited rate, and the change is seen", async () => {
    let lists = 0;
    const server = await serve({}, (request, response) => {
      if (request.method === "GET") {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(CHANGED.repeat(150));
        return;
      }
      void (async () => {
        const { id, method } = JSON.parse((await textOf(request)) || "{}") as Message;
        if (method === "initialize") reply(response, result(id, ANNOUNCES));
        else if (method === "tools/list") reply(response, result(id, toolNamed(`t${++lists}`)));
        else response.writeHead(202).end();
      })();
    });
    const socket = await open("changing");
    await rpc(socket, "add", "C", server.url, { id: "c" });
    await untilMcp(socket, "a later list", ({ tools }) => tools.some(({ name }) => name === "t2"));
    expect(lists).toBeLessThan(10);
  });
});

const DEV = { allowLoopback: true };
const SERVED = { allowLoopback: false };

describe("an address", () => {
  const blocked = [
    "http://10.0.0.1/mcp", "http://192.168.1.1", "http://172.16.9.9:8080/x", "http://169.254.169.254/latest/meta-data",
    "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://0.0.0.0/", "http://100.64.0.1/", "http://224.0.0.1/",
    "http://2852039166/", "http://0xa9fea9fe/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a00:1]/",
    "ftp://example.com/", "file:///etc/passwd", "not a url", "http://user:password@example.com/",
  ]; // prettier-ignore
  test.each(blocked)("%s is blocked at registration, and nothing is stored", async (url) => {
    expect(refusal(url, DEV)).toBeTypeOf("string");
    expect(refusal(url, SERVED)).toBeTypeOf("string");
    const socket = await open("blocked");
    await expect(rpc(socket, "add", "B", url)).rejects.toThrow(/^Blocked URL: /);
    expect(await rpc(socket, "rows")).toEqual([]);
  });
  test("that is too long or not of a callback is refused, as are other wrong parts", async () => {
    const socket = await open("unfit");
    const add = (name: string, url: string, options: object = {}) =>
      rpc(socket, "add", name, url, options);
    const url = "https://example.com/mcp";
    await expect(add("x".repeat(1_001), url)).rejects.toThrow(/name has at most 1000 characters/);
    await expect(add("N", `${url}/${"x".repeat(20_000)}`)).rejects.toThrow(/URLs have at most/);
    await expect(add("N", url, { callbackHost: "example.com" })).rejects.toThrow(
      /callback URL begins with https:.* "example\.com\/agents\/tool-agent\/unfit\/callback" does not/,
    );
    await expect(add("N", url, { transport: { type: "stdio" } })).rejects.toThrow(
      /no transport "stdio"/,
    );
    expect(await rpc(socket, "rows")).toEqual([]);
  });
  test("that is blocked says why", () => {
    expect(refusal("ftp://example.com/", DEV)).toBe("it begins with neither https:// nor http://");
    expect(refusal("localhost:3001/mcp", DEV)).toBe("it begins with neither https:// nor http://");
    expect(refusal("http://10.0.0.1/mcp", DEV)).toBe("it is not an address of the public internet");
  });
  test.each(["https://example.com/mcp", "http://127.0.0.1:3000/mcp", "http://localhost:3000", "http://[::1]/", "http://93.184.216.34/"])("%s may be registered", (url) => {
    expect(refusal(url, DEV)).toBeUndefined();
  }); // prettier-ignore
  test.each([
    "http://127.0.0.1:3000/mcp", "http://localhost:3000", "http://LOCALHOST./", "http://a.localhost/", "http://[::1]/", "http://127.9.9.9/",
    "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/",
  ])("%s, on this machine, is blocked outside agents dev unless allowed", async (url) => {
    expect(refusal(url, SERVED)).toBeTypeOf("string");
    expect(() => addressGuard(new URL(url), SERVED).check(new URL(url))).toThrow(/^Blocked URL/);
    expect(addressGuard(new URL(url), SERVED).allows("127.0.0.1")).toBe(false);
  }); // prettier-ignore

  test("of this machine is only for servers registered with it: others can't redirect to it", () => {
    const outside = addressGuard(new URL("https://example.com/mcp"), DEV);
    const inside = addressGuard(new URL("http://localhost:1/mcp"), DEV);
    for (const url of ["http://127.0.0.1/", "http://localhost/", "http://[::1]/"]) {
      expect(() => outside.check(new URL(url))).toThrow(/^Blocked URL/);
      expect(() => inside.check(new URL(url))).not.toThrow();
    }
    expect([outside.allows("127.0.0.1"), outside.allows("::ffff:127.0.0.1"), outside.allows("93.184.216.34")]).toEqual([false, false, true]); // prettier-ignore
    expect(() => inside.check(new URL("http://169.254.169.254/"))).toThrow(/^Blocked URL/);
  });

  test("that a public name resolves to is checked by the connection itself", async () => {
    const server = createServer((_request, response) => response.end("secret"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    stops.push(() => new Promise((resolve) => void server.close(() => resolve())));
    const { port } = server.address() as AddressInfo;
    // The guard of a server outside, whose name leads here.
    const guard = addressGuard(new URL("https://example.com/"), DEV);
    const lying = { ...guard, check: () => undefined };
    const { fetch, close } = guardedFetch(lying);
    await expect(fetch(`http://localhost:${port}/`)).rejects.toThrow(/^Blocked URL/);
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow(/^Blocked URL/);
    close();
  });

  test("to which a server redirects, or that it names for OAuth, is blocked like any other", async () => {
    const away = await serve({}, (_request, response) =>
      response.writeHead(307, { location: "http://169.254.169.254/latest" }).end(),
    );
    await fails(away.url, UNREACHABLE, "redirected", /redirect/i);
    const oauth: string[] = [];
    const lying = await serve({}, (request, response) => {
      oauth.push(request.url ?? "");
      if (request.url?.startsWith("/.well-known/oauth-protected-resource"))
        return reply(response, { resource: `${lying.url}/mcp`, authorization_servers: ["http://169.254.169.254/"] }); // prettier-ignore
      response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${lying.url}/.well-known/oauth-protected-resource"` }).end(); // prettier-ignore
    });
    await fails(`${lying.url}/mcp`, /its OAuth can't be used/, "oauth-away", /Blocked URL: http:\/\/169\.254\.169\.254|access|metadata/i); // prettier-ignore
    expect(oauth.length).toBeGreaterThan(1);
  });
});
