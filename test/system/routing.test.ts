/** Requests that are no declared webhook: `routeAgentRequest`, a module's own `fetch`, stubs. */
import { beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  getAgentByName,
  isPlatformTransientError,
  JournalRateExceeded,
  routeAgentRequest,
  type AgentNamespace,
} from "agents";
import { sign } from "agents/webhooks";
import { read, SECRET, TestSocket, useSystems, type System } from "./kit.ts";

interface Env {
  readonly ProbeAgent: AgentNamespace<ProbeAgent>;
  readonly PlainAgent: AgentNamespace<PlainAgent>;
  readonly LimitedAgent: AgentNamespace<LimitedAgent>;
}

class ProbeAgent extends Agent<Env> {
  private props: unknown = null;
  private starts = 0;

  override onStart(props?: Record<string, unknown>) {
    this.props = props ?? null;
    this.starts++;
  }
  override async onRequest(request: Request) {
    return Response.json({
      name: this.name,
      method: request.method,
      url: request.url,
      body: await request.text(),
      headers: Object.fromEntries(request.headers),
      props: this.props,
      starts: this.starts,
    });
  }
  greet(whom: string, times = 1) {
    return { text: `hello ${whom} `.repeat(times).trim(), from: this.name };
  }
  nothing() {}
  async fail() {
    throw new RangeError("out of bounds");
  }
  _hidden() {
    return "secret";
  }
  /** Calls another agent by its stub. */
  async askOther(name: string) {
    const other = await getAgentByName(this.env.ProbeAgent, name);
    return other.greet(this.name);
  }
}

class LimitedAgent extends Agent<Env> {
  static override options = { journalBytesPerMinute: 1_000 };

  write(how: string) {
    if (how === "sql") return void this.sql`CREATE TABLE IF NOT EXISTS t (x)`;
    this.setState({ text: "x".repeat(5_000) });
  }
  override async onRequest(request: Request) {
    const stub = await getAgentByName(this.env.LimitedAgent, "written");
    await stub.write(new URL(request.url).searchParams.get("how") ?? "state");
    return new Response("written");
  }
}

class PlainAgent extends Agent<Env> {}

class FailingStart extends Agent<Env> {
  override onStart() {
    throw new Error("no start today, secret reason");
  }
}

/** Its name as an upper-case class: kebab by the reference's own rule. */
class AIAssistant extends ProbeAgent {}

const agents = { ProbeAgent, PlainAgent, LimitedAgent, FailingStart, AIAssistant };
const systems = useSystems();

const seen = async (response: Response) => (await response.json()) as Record<string, unknown>;

describe("the gateway without a module's fetch", () => {
  let system: System;
  beforeAll(async () => {
    system = await systems.start({ agents });
  });
  const get = (path: string, init?: RequestInit) => fetch(system.url + path, init);
  const answer = async (path: string, init?: RequestInit) => {
    const { status, text } = await read(await get(path, init));
    return [status, text];
  };

  test("takes class in kebab case and instance from the path, and the agent gets the whole URL", async () => {
    const response = await get("/agents/probe-agent/one/deeper/path?x=1&y=%2F", {
      method: "PUT",
      body: "hello",
      headers: { "x-own": "kept" },
    });
    expect(await seen(response)).toMatchObject({
      name: "one",
      method: "PUT",
      url: `${system.url}/agents/probe-agent/one/deeper/path?x=1&y=%2F`,
      body: "hello",
      headers: { "x-own": "kept" },
    });
  });

  test("keeps a name percent-encoded", async () => {
    expect(await seen(await get("/agents/probe-agent/a%20b"))).toMatchObject({ name: "a%20b" });
    expect(await seen(await get("/agents/probe-agent/a%2Fb"))).toMatchObject({ name: "a%2Fb" });
  });

  test("starts a new word at each capital", async () => {
    expect(await seen(await get("/agents/a-i-assistant/x"))).toMatchObject({ name: "x" });
    expect(await answer("/agents/ai-assistant/x")).toEqual([400, "Invalid request"]);
  });

  test("answers 400 Invalid request for an unknown agent, for a socket too", async () => {
    expect(await answer("/agents/nobody/x")).toEqual([400, "Invalid request"]);
    expect(await answer("/agents/ProbeAgent/x")).toEqual([400, "Invalid request"]);
    const socket = await TestSocket.open(`${system.url}/agents/nobody/x`);
    expect(socket.refused).toEqual({ status: 400, body: "Invalid request" });
  });

  test("answers 404 Not found for a path that names no agent", async () => {
    for (const path of ["/", "/agents", "/agents/probe-agent", "/other/probe-agent/x"])
      expect(await answer(path)).toEqual([404, "Not found"]);
    const socket = await TestSocket.open(`${system.url}/agents/probe-agent`);
    expect(socket.refused).toEqual({ status: 404, body: "Not found" });
  });

  test("ignores empty segments", async () => {
    expect(await seen(await get("//agents//probe-agent//two"))).toMatchObject({ name: "two" });
  });

  test("answers 400 with the limit for a name past 1,024 bytes", async () => {
    const [status, text] = await answer(`/agents/probe-agent/${"x".repeat(1025)}`);
    expect(status).toBe(400);
    expect(text).toContain("1024 bytes");
    const socket = await TestSocket.open(`${system.url}/agents/probe-agent/${"x".repeat(1025)}`);
    expect(socket.refused?.status).toBe(400);
  });

  test.each(["a b", "localhost:99999"])(
    "answers 400 for the Host %s before routing, for a socket too",
    async (host) => {
      const socket = await TestSocket.open(`${system.url}/agents/probe-agent/x`, { host });
      expect(socket.refused).toEqual({ status: 400, body: "Bad request" });
    },
  );

  test("answers 404 Not implemented by the default onRequest", async () => {
    expect(await answer("/agents/plain-agent/x")).toEqual([404, "Not implemented"]);
  });

  test("passes OPTIONS to the agent if CORS is off", async () => {
    const response = await get("/agents/probe-agent/x", { method: "OPTIONS" });
    expect(await seen(response)).toMatchObject({ method: "OPTIONS" });
  });

  test("answers HEAD with the status and no body", async () => {
    const response = await get("/agents/probe-agent/x", { method: "HEAD" });
    expect([response.status, (await response.text()).length]).toEqual([200, 0]);
  });

  test("strips internal headers", async () => {
    const response = await get("/agents/probe-agent/forged", {
      headers: {
        "x-agents-lifecycle-props": Buffer.from('{"admin":true}').toString("base64"),
        "x-cf-agents-subagent-url": "http://elsewhere/",
        "x-other": "stays",
      },
    });
    const { props, headers } = await seen(response);
    expect(props).toBeNull();
    expect(Object.keys(headers as object).filter((n) => n.includes("agents"))).toEqual([]);
    expect(headers).toMatchObject({ "x-other": "stays" });
  });

  test("answers a plain 500 if the agent can't start, and on a socket an error frame and 1011", async () => {
    expect(await answer("/agents/failing-start/x")).toEqual([500, "Internal Server Error"]);
    const socket = await TestSocket.open(`${system.url}/agents/failing-start/x`);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.frames).toEqual(['{"error":"Internal Server Error"}']);
    expect(socket.closed).toEqual({
      code: 1011,
      reason: "Uncaught exception during session setup",
    });
  });
});

describe("the gateway with a module's fetch", () => {
  let system: System;
  const hooks: string[] = [];
  /** What the stub of `LimitedAgent` threw last. */
  let refusal: unknown;
  beforeAll(async () => {
    system = await systems.start({
      agents,
      env: { SECRET },
      fetch: async (request, env) => {
        const bindings = env as unknown as Env;
        const url = new URL(request.url);
        const parts = url.pathname.split("/").filter(Boolean);
        if (url.pathname === "/boom") throw new Error("secret detail");
        if (url.pathname === "/nothing") return undefined as never;
        if (url.pathname === "/rpc") {
          const stub = await getAgentByName(bindings.ProbeAgent, "remote");
          return Response.json(await callAll(stub as never));
        }
        if (parts[0] === "write") {
          const stub = await getAgentByName(bindings.LimitedAgent, "written");
          await stub.write(parts[1]!).catch((error: unknown) => void (refusal = error));
          if (refusal !== undefined) throw refusal;
          return new Response("written");
        }
        if (parts[0] === "webhooks" && request.method === "POST") {
          const name = await entityOf(request, parts);
          if (name === undefined) return new Response("Missing repository", { status: 400 });
          const agent = await getAgentByName(bindings.ProbeAgent, name);
          return agent.fetch(request);
        }
        if (parts[0] === "props") {
          const agent = await getAgentByName(bindings.ProbeAgent, parts[1]!, {
            props: { plan: "gold" },
          });
          return agent.fetch(request);
        }
        if (parts[0] === "live") {
          const agent = await getAgentByName(bindings.ProbeAgent, parts[1]!);
          return agent.fetch(request);
        }
        const routed = await routeAgentRequest(request, env, {
          prefix: "api/v1",
          cors: true,
          props: { from: "route" },
          onBeforeConnect: (upgrade, { className, name }) => {
            hooks.push(`connect ${className} ${name}`);
            if (new URL(upgrade.url).searchParams.get("token") !== "good")
              return new Response("Unauthorized", { status: 401 });
          },
          onBeforeRequest: (before, { className, name }) => {
            hooks.push(`request ${className} ${name}`);
            if (before.headers.get("x-deny")) return new Response("Denied", { status: 403 });
            if (before.headers.get("x-swap"))
              return new Request(before.url, { headers: { "x-swapped": "yes" } });
          },
        });
        return routed ?? new Response("Not found", { status: 404 });
      },
    });
  });
  const get = (path: string, init?: RequestInit) => fetch(system.url + path, init);

  /** The entity as `interface.md` §4.1 takes it: path, body or header. */
  async function entityOf(request: Request, parts: string[]): Promise<string | undefined> {
    if (parts[1] === "github") {
      const payload = (await request.clone().json()) as { repository?: { full_name?: string } };
      return payload.repository?.full_name?.toLowerCase().replace("/", "-");
    }
    if (parts[1] === "slack") return request.headers.get("x-team") ?? undefined;
    return parts[2] ?? parts[1];
  }

  async function callAll(stub: Record<string, (...args: unknown[]) => Promise<unknown>>) {
    const outcome = (promise: Promise<unknown>) =>
      promise.then(
        (value) => ({ value: value ?? null }),
        (error: unknown) => ({ name: (error as Error).name, message: (error as Error).message }),
      );
    return {
      greet: await outcome(stub["greet"]!("world", 2)),
      nothing: await outcome(stub["nothing"]!()),
      fail: await outcome(stub["fail"]!()),
      absent: await outcome(stub["absent"]!()),
      hidden: await outcome(stub["_hidden"]!()),
      other: await outcome(stub["askOther"]!("second")),
      base: await outcome(stub["onStart"]!()),
    };
  }

  test("routes by path, by body and by header, and the body arrives whole", async () => {
    const post = (path: string, body: string, headers = {}) =>
      get(path, { method: "POST", body, headers }).then(seen);
    expect(await post("/webhooks/device-1", "x")).toMatchObject({ name: "device-1", body: "x" });
    expect(await post("/webhooks/stripe/cus_1", "y")).toMatchObject({ name: "cus_1", body: "y" });
    expect(await post("/webhooks/slack", "z", { "x-team": "T1" })).toMatchObject({ name: "T1" });
    const payload = JSON.stringify({ repository: { full_name: "Acme/Widgets" } });
    expect(await post("/webhooks/github", payload, sign.github(payload, SECRET))).toMatchObject({
      name: "acme-widgets",
      body: payload,
      headers: { "x-hub-signature-256": expect.stringMatching(/^sha256=/) },
    });
    const missing = await get("/webhooks/github", { method: "POST", body: "{}" });
    expect([missing.status, await missing.text()]).toEqual([400, "Missing repository"]);
  });

  test("accepts a prefix of several segments in routeAgentRequest, and null is the module's 404", async () => {
    expect(await seen(await get("/api/v1/probe-agent/p"))).toMatchObject({ name: "p" });
    expect((await get("/agents/probe-agent/p")).status).toBe(404);
  });

  test("answers OPTIONS without the agent under cors: true, and adds its headers to every answer", async () => {
    hooks.length = 0;
    const options = await read(await get("/api/v1/probe-agent/c", { method: "OPTIONS" }));
    expect([options.status, options.text]).toEqual([200, ""]);
    expect(options.headers.get("access-control-allow-origin")).toBe("*");
    expect(options.headers.get("access-control-max-age")).toBe("86400");
    expect(hooks).toEqual([]);
    const response = await get("/api/v1/probe-agent/c");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    const denied = await get("/api/v1/probe-agent/c", { headers: { "x-deny": "1" } });
    expect([denied.status, await denied.text()]).toEqual([403, "Denied"]);
    expect(denied.headers.get("access-control-allow-origin")).toBe("*");
    const unknown = await get("/api/v1/nobody/c");
    expect(unknown.status).toBe(400);
    expect(unknown.headers.get("access-control-allow-origin")).toBeNull();
  });

  test("lets onBeforeRequest replace the request", async () => {
    const response = await get("/api/v1/probe-agent/s", { headers: { "x-swap": "1" } });
    expect(await seen(response)).toMatchObject({ headers: { "x-swapped": "yes" } });
    expect(hooks.at(-1)).toBe("request ProbeAgent s");
  });

  test("lets onBeforeConnect refuse a socket with a plain 401", async () => {
    const refused = await TestSocket.open(`${system.url}/api/v1/probe-agent/w`);
    expect(refused.refused).toEqual({ status: 401, body: "Unauthorized" });
    const socket = await TestSocket.open(`${system.url}/api/v1/probe-agent/w?token=good`);
    expect(await socket.first(1)).toEqual([expect.stringContaining('"name":"w"')]);
    expect(hooks.slice(-2)).toEqual(["connect ProbeAgent w", "connect ProbeAgent w"]);
    await socket.close();
  });

  test("answers 429 with Retry-After when a stub's agent is past its journal rate", async () => {
    expect(await (await get("/write/state")).text()).toBe("written");
    const limited = "/api/v1/limited-agent/asking?how=";
    for (const path of ["/write/state", "/write/sql", `${limited}state`, `${limited}sql`]) {
      const { status, text, headers } = await read(await get(path));
      expect([path, status, text]).toEqual([path, 429, "Too Many Requests"]);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(60);
      const given = (refusal as Error).name === "SqlError" ? (refusal as Error).cause : refusal;
      expect(given).toBeInstanceOf(JournalRateExceeded);
      expect(given).toMatchObject({ bytesMax: 1_000, retryAfterMs: expect.any(Number) });
      expect(isPlatformTransientError(refusal)).toBe(true);
    }
    const log = JSON.stringify(system.gateway.log.lines);
    expect(log).toContain("an agent may not write now");
  });

  test("can route a socket by getAgentByName", async () => {
    const socket = await TestSocket.open(`${system.url}/live/by-stub`);
    expect(await socket.first(1)).toEqual([expect.stringContaining('"name":"by-stub"')]);
    await socket.close();
  });

  test("passes props to onStart of the start that they cause, and only that", async () => {
    expect(await seen(await get("/props/p1"))).toMatchObject({
      props: { plan: "gold" },
      starts: 1,
    });
    expect(await seen(await get("/api/v1/probe-agent/p1"))).toMatchObject({
      props: { plan: "gold" },
      starts: 1,
    });
    expect(await seen(await get("/api/v1/probe-agent/p2"))).toMatchObject({
      props: { from: "route" },
    });
  });

  test("lets a stub call public methods: results, errors by name and message, nothing that is hidden", async () => {
    expect(await (await get("/rpc")).json()).toEqual({
      greet: { value: { text: "hello world hello world", from: "remote" } },
      nothing: { value: null },
      fail: { name: "RangeError", message: "out of bounds" },
      absent: { name: "Error", message: "Method absent does not exist" },
      hidden: { name: "Error", message: "Method _hidden does not exist" },
      other: { value: { text: "hello remote", from: "second" } },
      base: { name: "Error", message: "Method onStart is not callable" },
    });
  });

  test("answers a plain 500 for the module's error, or an invalid response", async () => {
    for (const path of ["/boom", "/nothing"]) {
      const { status, text } = await read(await get(path));
      expect([status, text]).toEqual([500, "Internal Server Error"]);
    }
  });
});
