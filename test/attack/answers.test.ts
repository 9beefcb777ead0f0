/** Invalid requests, and invalid responses of agents: each is answered, on both HTTP servers. */
import { connect as connectNats } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Agent, getAgentByName, routeAgentRequest, type AgentNamespace } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { encodeMessage } from "../../schemas/bus/message.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { adapters, RawClient, until } from "../http/kit.ts";
import { postGithub, SECRET, TestSocket, useSystems, type System } from "../system/kit.ts";

const says = (status: number): Response =>
  Object.defineProperty(new Response("x"), "status", { value: status });
const like = (parts: object): Response =>
  ({
    status: 200,
    headers: new Headers(),
    body: null,
    arrayBuffer: async () => 5,
    ...parts,
  }) as never;
const streaming = (piece: unknown): Response =>
  new Response(
    new ReadableStream({
      start: (controller) => {
        controller.enqueue(piece);
        controller.close();
      },
    }),
  );

/** Values that can't be an answer, by name. */
const ODD: Readonly<Record<string, () => unknown>> = {
  "Response.error()": () => Response.error(),
  "status 0": () => says(0),
  "status 42": () => says(42),
  "status 101": () => says(101),
  "status 1000": () => says(1000),
  "status NaN": () => says(Number.NaN),
  "a used body": async () => {
    const response = new Response("x");
    await response.text();
    return response;
  },
  "a locked body": () => {
    const response = streaming(new Uint8Array(1));
    response.body!.getReader();
    return response;
  },
  "a header that may not go out": () => new Response("x", { headers: { x: "a\u0001b" } }),
  "a header that breaks its line": () => like({ headers: [["x", "a\r\nset-cookie: b"]] }),
  "headers that are none": () => like({ headers: [5] }),
  "an object whose body is none": () => like({ body: undefined }),
  "a stream of text": () => streaming("text"),
  nothing: () => undefined,
  text: () => "OK",
};
const NAMES = Object.keys(ODD);

const make = (kind: string | null): Promise<Response> =>
  Promise.resolve((ODD[kind ?? ""] ?? (() => new Response("fine")))() as Response);

class Odd extends Agent {
  static override options = { retry: { maxAttempts: 1 } };
  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST" && request.headers.get("x-github-event") !== null)
      return make(((await request.json()) as { kind: string }).kind);
    const kind = new URL(request.url).searchParams.get("kind");
    if (kind !== "upgrade") return make(kind);
    const other = await getAgentByName((this.env as unknown as Env).Odd, "other");
    return other.fetch(new Request("http://x/", { headers: { upgrade: "websocket" } }));
  }
}

interface Env {
  readonly Odd: AgentNamespace<Odd>;
}

const module = {
  agents: { Odd },
  env: { SECRET },
  webhooks: [
    webhook("/hooks", { agent: Odd, verify: github({ secret: "SECRET" }), entity: body("name") }),
  ],
  fetch: async (request: Request, given: unknown): Promise<Response> => {
    const url = new URL(request.url);
    if (url.pathname === "/module") return make(url.searchParams.get("kind"));
    if (url.pathname === "/throws") throw new Error("the module throws");
    if (url.pathname === "/forwards") {
      const headers = { upgrade: "websocket", connection: "upgrade" };
      const stub = (given as Env).Odd.getByName("a");
      return stub.fetch(new Request(url, { headers }));
    }
    return (await routeAgentRequest(request, given)) ?? new Response("Not found", { status: 404 });
  },
};

const systems = useSystems();

describe.each(adapters)("over $name", ({ name }) => {
  let system: System;
  let port: number;
  let namespace: string;
  beforeAll(async () => {
    const started = await systems.start(module, { http: name });
    system = started;
    namespace = started.options.namespace!;
    port = Number(new URL(system.url).port);
  });
  afterAll(() => system.stop());

  const logged = (text: string): boolean =>
    [...system.host.log.lines, ...system.gateway.log.lines].some(
      ({ level, fields }) => level === "error" && JSON.stringify(fields).includes(text),
    );
  const lives = async (): Promise<void> => {
    expect(await (await fetch(`${system.url}/agents/odd/a`)).text()).toBe("fine");
    const socket = await TestSocket.open(`${system.url}/agents/odd/a`);
    await socket.first(1);
    await socket.close(1000);
  };

  const offer = (method: string, more: string): string =>
    `${method} /agents/odd/a HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n${more}\r\n`;
  const offers: ReadonlyArray<readonly [string, string, number]> = [
    ...["POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"].flatMap((method) => [
      [`${method} with an offer`, offer(method, ""), 200] as const,
      [`${method} with an offer and no body`, offer(method, "Content-Length: 0\r\n"), 200] as const,
    ]),
    ["POST with an offer and a body", `${offer("POST", "Content-Length: 2\r\n")}{}`, 200],
    ["a handshake with a length of 0", offer("GET", "Content-Length: 0\r\n"), 400],
    ["a handshake with a body", `${offer("GET", "Content-Length: 2\r\n")}{}`, 400],
    ["a handshake with no option", offer("GET", "").replace(/Connection.*\r\n/, ""), 400],
    ["a handshake with no key", offer("GET", "").replace(/Sec-WebSocket-Key.*\r\n/, ""), 400],
    [
      "a bare offer",
      "GET /agents/odd/a HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n",
      400,
    ],
  ];
  it.each(offers)("%s is answered", async (_, text, status) => {
    using peer = await RawClient.connect(port);
    const { statusLine } = await peer.send(text).response({ bodiless: true });
    expect(statusLine).toContain(`HTTP/1.1 ${status} `);
    await lives();
  });

  it.each(NAMES)("an agent that answers %s causes a 500, explained in the log", async (kind) => {
    const response = await fetch(`${system.url}/agents/odd/a?kind=${encodeURIComponent(kind)}`);
    expect([response.status, await response.text()]).toEqual([500, "Internal Server Error"]);
    expect(logged("Odd")).toBe(true);
    await lives();
  });

  it.each(NAMES)("an agent that answers a webhook with %s causes a 500", async (kind) => {
    const { status } = await postGithub(`${system.url}/hooks`, { name: "a", kind });
    expect(status).toBe(500);
    await lives();
  });

  it.each(NAMES)("a module whose fetch returns %s causes a 500, which is logged", async (kind) => {
    const before = system.gateway.log.lines.length;
    const response = await fetch(`${system.url}/module?token=t&kind=${encodeURIComponent(kind)}`);
    expect(response.status).toBe(500);
    const line = system.gateway.log.lines.slice(before).find(({ level }) => level === "error");
    expect(JSON.stringify(line)).toContain("/module");
    expect(JSON.stringify(line)).not.toContain("token=t");
    await lives();
  });

  it("an agent's socket that another agent's onRequest returns causes a 500", async () => {
    expect((await fetch(`${system.url}/agents/odd/a?kind=upgrade`)).status).toBe(500);
    expect(logged("only the module's fetch can upgrade")).toBe(true);
    await lives();
  });

  it("an upgrade response to a plain request is a 426", async () => {
    const response = await fetch(`${system.url}/forwards`);
    expect([response.status, await response.text()]).toEqual([
      426,
      "Upgrade Required: connect with a WebSocket handshake (GET)\n",
    ]);
    await lives();
  });

  it("an upgrade to which the module returns no response, or throws, is a 500", async () => {
    for (const path of ["/throws", "/module?kind=status 101", "/module?kind=nothing"]) {
      const socket = await TestSocket.open(system.url + path);
      expect(socket.refused?.status).toBe(500);
    }
    await lives();
  });

  it("an invalid message from a host is dropped and logged", async () => {
    const client = await connectNats({ servers: systems.nats.url.replace("nats://", "") });
    try {
      const subjects = new Subjects(namespace);
      const socket = await TestSocket.open(`${system.url}/agents/odd/a`);
      await socket.first(1);
      const before = system.gateway.log.lines.length;
      const messages = [{}, { op: "cast" }, { op: "cast", agent: ["Odd", "a"] }, { id: 5 }];
      for (const kind of ["frame", "reply", "census"] as const)
        for (const message of messages)
          client.publish(subjects.gateway("gateway-a", kind), encodeMessage(message), {
            reply: "nobody",
          });
      client.publish(subjects.gateway("gateway-a", "frame"), new Uint8Array([1, 2, 3]));
      await client.flush();
      await until("the log to say so", () =>
        system.gateway.log.lines
          .slice(before)
          .some(({ message }) => message === "a message could not be read"),
      );
      await socket.close(1000);
    } finally {
      await client.close();
    }
    await lives();
  });
});
