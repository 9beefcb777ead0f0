/** Attacks on signed agents: by default routing nothing unsigned reaches `onRequest` or state. */
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  getCurrentAgent,
  routeAgentRequest,
  type AgentNamespace,
} from "agents";
import { body, constant, github, unsigned, webhook } from "agents/webhooks";
import { journalOf, postGithub, SECRET, TestSocket, useSystems } from "../system/kit.ts";
import { ask } from "./ask.ts";
import { pollUntil } from "../kit/poll.ts";

interface Seen {
  readonly count: number;
}

/** The values of `getCurrentAgent().webhook`, by where the code ran. */
const webhooks: Array<readonly [where: string, webhook: unknown]> = [];
const note = (where: string): void => void webhooks.push([where, getCurrentAgent().webhook]);
/** Requests that reached code of an agent: class, method. */
const reached: string[] = [];

abstract class Base extends Agent<unknown, Seen> {
  override initialState = { count: 0 };
  override async onRequest(request: Request): Promise<Response> {
    reached.push(`${this.constructor.name} ${request.method}`);
    note("request");
    this.setState({ count: this.state.count + 1 });
    await this.queue("later");
    return new Response("believed");
  }
  override onConnect(): void {
    note("connect");
  }
  override onStateChanged(_state: Seen, source: unknown): void {
    if (source !== "server") reached.push(`${this.constructor.name} state`);
  }
  later(): void {
    note("queue");
  }
  @callable()
  look(): number {
    note("rpc");
    return this.state.count;
  }
  @callable()
  write(): void {
    this.setState({ count: 99 });
  }
}
class RepoAgent extends Base {}
class Child extends Base {}
class OpenAgent extends Base {
  static override options = { http: "open" };
}
class PlainAgent extends Base {
  async makeBelow(): Promise<void> {
    await this.subAgent(RepoAgent, "s");
  }
}
class UnsignedAgent extends Base {}
class DecidingAgent extends Base {
  override shouldConnectionBeReadonly(): boolean {
    return false;
  }
}

const agents = { RepoAgent, Child, OpenAgent, PlainAgent, UnsignedAgent, DecidingAgent };
const signed = (agent: typeof Base | typeof RepoAgent) =>
  webhook(`/webhooks/${agent.name}`, {
    agent,
    verify: github({ secret: "SECRET" }),
    entity: body("name"),
  });
const module = {
  agents,
  env: { SECRET },
  webhooks: [
    ...[RepoAgent, OpenAgent, DecidingAgent].map(signed),
    webhook("/webhooks/anybody", {
      agent: UnsignedAgent,
      verify: unsigned({ provider: "cron", id: { header: "x-id" } }),
      entity: constant("one"),
    }),
  ],
};

const systems = useSystems();
afterEach(() => {
  webhooks.length = 0;
  reached.length = 0;
});

const GITHUB = { "x-github-event": "push", "x-github-delivery": "1", "content-type": "application/json" }; // prettier-ignore

describe.each(["uws", "node"] as const)("on %s", (http) => {
  let system: Awaited<ReturnType<typeof systems.start>>;
  beforeAll(async () => {
    system = await systems.start(module, { http });
  });
  const at = (path: string): string => `${system.url}${path}`;

  test("a signed webhook reaches its agent; the same request unsigned is refused with the reason", async () => {
    const signedOne = await postGithub(at("/webhooks/RepoAgent"), { name: "acme" }, { id: "d-1" });
    expect([signedOne.status, signedOne.text]).toEqual([200, "believed"]);
    const response = await fetch(at("/agents/repo-agent/acme"), {
      method: "POST",
      headers: GITHUB,
      body: "{}",
    });
    expect(response.status).toBe(403);
    expect(await response.text()).toMatch(
      /RepoAgent receives signed webhooks.*http: "open".*fetch/,
    );
    expect(reached).toEqual(["RepoAgent POST"]);
  });

  test("an open agent gets no body of nothing but lists, and files with as many brackets", async () => {
    const send = async (content: string): Promise<number> =>
      (await fetch(at("/agents/open-agent/lists"), { method: "POST", body: content })).status;
    expect(await send(` \n[${"[],".repeat(600_000)}0]`)).toBe(413);
    expect(reached).toEqual([]);
    expect(await send(`a file: ${"[".repeat(600_000)}`)).toBe(200);
    expect(await send(`[${"[],".repeat(1_000)}0]`)).toBe(200);
  });

  test.each([
    ["GET", "/agents/repo-agent/m"],
    ["PUT", "/agents/repo-agent/m"],
    ["DELETE", "/agents/repo-agent/m"],
    ["PATCH", "/agents/repo-agent/m"],
    ["HEAD", "/agents/repo-agent/m"],
    ["OPTIONS", "/agents/repo-agent/m"],
    ["POST", "/agents/repo-agent/m/"],
    ["POST", "/agents/repo-agent/m/any/path?x=1"],
    ["POST", "//agents//repo-agent///m"],
    ["POST", "/x/../agents/repo-agent/m"],
    ["POST", "/webhooks/RepoAgent/../../agents/repo-agent/m"],
    ["POST", "/agents/./repo-agent/m"],
    ["POST", "/agents/%2e/repo-agent/m"],
    ["POST", "/agents/repo-agent/m/sub/child/c"],
    ["POST", "/agents/repo-agent/%2F..%2Fm"],
    ["POST", "/agents/plain-agent/p/sub/repo-agent/m"],
    ["POST", "/agents/plain-agent/p/sub/child/c/sub/repo-agent/m/x"],
    ["POST", "/agents/plain-agent/p/x//sub//repo-agent//m"],
  ])("%s %s is refused", async (method, path) => {
    const sent = method === "POST" ? { body: "{}" } : {};
    const { status } = await ask(system.url, { host: "localhost" }, { method, path, ...sent });
    expect(status).toBe(403);
    expect(reached).toEqual([]);
  });

  test.each([
    ["/agents/Repo-Agent/m", 400],
    ["/agents/RepoAgent/m", 400],
    ["/agents/REPO_AGENT/m", 400],
    ["/agents/repo%2Dagent/m", 400],
    ["/agents/repo-agent%00/m", 400],
    ["/Agents/repo-agent/m", 404],
    ["/%61gents/repo-agent/m", 404],
    ["/agents/repo-agent", 404],
  ])("%s reaches no agent: %i", async (path, status) => {
    expect((await fetch(at(path), { method: "POST", body: "{}" })).status).toBe(status);
    expect(reached).toEqual([]);
  });

  test("a signed class's sockets see the state and call methods, and change nothing", async () => {
    const above = system.gateway.env["PlainAgent"] as AgentNamespace<PlainAgent>;
    await above.getByName("p").makeBelow();
    for (const path of ["/agents/repo-agent/s", "/agents/plain-agent/p/sub/repo-agent/s"]) {
      const socket = await TestSocket.open(at(path));
      await socket.until("the state", () => socket.states.length > 0);
      socket.send({ type: "cf_agent_state", state: { count: 1000 } });
      socket.send({ type: "rpc", id: "1", method: "look", args: [] });
      socket.send({ type: "rpc", id: "2", method: "write", args: [] });
      await socket.until("three answers", () => answers(socket).length >= 3);
      // Calls answer when they are done, in any order.
      expect(answers(socket)).toHaveLength(3);
      expect(answers(socket)).toEqual(
        expect.arrayContaining([
          { type: "cf_agent_state_error", error: "Connection is readonly" },
          expect.objectContaining({ id: "1", success: true, result: 0 }),
          expect.objectContaining({ id: "2", success: false, error: "Connection is readonly" }),
        ]),
      );
      await socket.close();
    }
    expect(reached).toEqual([]);
  });

  test("a socket of a signed class stays readonly under headers and a query that claim otherwise", async () => {
    const socket = await TestSocket.open(at("/agents/repo-agent/h?readonly=false&_pk=x"), {
      "x-agents-readonly": "false",
      "x-cf-agents-readonly": "false",
    });
    socket.send({ type: "cf_agent_state", state: { count: 7 } });
    await socket.until("it is refused", () => answers(socket).length > 0);
    expect(answers(socket)).toEqual([
      { type: "cf_agent_state_error", error: "Connection is readonly" },
    ]);
    await socket.close();
  });

  test('a class with http: "open", one without a signed route, and one whose route is unsigned are as in the reference', async () => {
    for (const name of ["open-agent", "plain-agent", "unsigned-agent"]) {
      const url = at(`/agents/${name}/${http}`);
      expect(await (await fetch(url, { method: "POST", body: "{}" })).text()).toBe("believed");
      const socket = await TestSocket.open(url);
      socket.send({ type: "rpc", id: "2", method: "write", args: [] });
      await socket.until("it is written", () => answers(socket).length > 0);
      expect(answers(socket)).toMatchObject([{ id: "2", success: true }]);
      await socket.close();
    }
  });

  test("a class that decides about its own connections is respected; HTTP stays closed", async () => {
    const url = at("/agents/deciding-agent/d");
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(403);
    const socket = await TestSocket.open(url);
    socket.send({ type: "rpc", id: "2", method: "write", args: [] });
    await socket.until("it is written", () => answers(socket).length > 0);
    expect(answers(socket)).toMatchObject([{ id: "2", success: true }]);
    await socket.close();
  });

  test("stubs are internal, and reach a signed class", async () => {
    const namespace = system.gateway.env["RepoAgent"] as AgentNamespace<RepoAgent>;
    const stub = await getAgentByName(namespace, "inside");
    expect(await (await stub.fetch("http://agent/", { method: "POST" })).text()).toBe("believed");
    expect(webhooks[0]).toEqual(["request", undefined]);
  });

  test("pages of other origins can't reach a signed class; pages of the server's own origin can", async () => {
    const { host } = new URL(system.url);
    for (const origin of [
      "https://evil.example",
      "null",
      "*",
      "http://localhost",
      `http://${host}.evil.example`,
      "not one",
    ]) {
      // prettier-ignore
      const refused = await TestSocket.open(at("/agents/repo-agent/o"), { origin });
      expect([origin, refused.refused?.status, refused.refused?.body]).toEqual([
        origin,
        403,
        expect.stringContaining("allowedOrigins"),
      ]);
    }
    const own = await TestSocket.open(at("/agents/repo-agent/o"), { origin: `http://${host}` });
    expect(own.refused).toBeUndefined();
    await own.close();
    // As in the reference.
    const plain = await TestSocket.open(at("/agents/plain-agent/o"), { origin: "https://evil.example" }); // prettier-ignore
    expect(plain.refused).toBeUndefined();
    await plain.close();
  });

  test("getCurrentAgent().webhook is set only in a webhook's turn", async () => {
    const name = `w-${http}`;
    await postGithub(at("/webhooks/RepoAgent"), { name }, { id: `d-${http}`, event: "push" });
    await fetch(at("/webhooks/anybody"), { method: "POST", headers: { "x-id": `u-${http}`, "x-event-type": "tick" }, body: "{}" }); // prettier-ignore
    await fetch(at(`/agents/plain-agent/${name}`), { method: "POST", body: "{}" });
    const socket = await TestSocket.open(at(`/agents/repo-agent/${name}`));
    socket.send({ type: "rpc", id: "1", method: "look", args: [] });
    await socket.until("an answer", () => answers(socket).length > 0);
    await socket.close();
    await pollUntil("all queue items ran", () => webhooks.filter(([where]) => where === "queue").length === 3); // prettier-ignore
    const believed = { route: "/webhooks/RepoAgent", provider: "github", verified: true, deliveryId: `d-${http}`, event: "push" }; // prettier-ignore
    const anybodys = { route: "/webhooks/anybody", provider: "cron", verified: false, deliveryId: `u-${http}`, event: "tick" }; // prettier-ignore
    expect(webhooks.filter(([where]) => where === "request").map(([, seen]) => seen)).toEqual([
      believed,
      anybodys,
      undefined,
    ]);
    const elsewhere = webhooks.filter(([where]) => where !== "request");
    expect(elsewhere.map(([where]) => where).toSorted()).toEqual(["connect", "queue", "queue", "queue", "rpc"]); // prettier-ignore
    expect(elsewhere.every(([, seen]) => seen === undefined)).toBe(true);
    const [event] = await journalOf(system.options, "UnsignedAgent", "one");
    expect(event!.turns.at(-1)!.cause).toMatchObject({
      route: "/webhooks/anybody",
      verified: false,
    });
  });

  test("the log reports each class once", () => {
    const told = system.gateway.log.lines.filter(({ message }) => message.startsWith("a request that is not a webhook")); // prettier-ignore
    expect(told.map(({ fields }) => (fields as { class: string }).class).toSorted()).toEqual([
      "DecidingAgent",
      "RepoAgent",
    ]);
  });
});

describe("a module with its own fetch", () => {
  test("decides for itself, as in the reference", async () => {
    const system = await systems.start({
      ...module,
      fetch: async (request, env) =>
        (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
    });
    const url = `${system.url}/agents/repo-agent/own`;
    expect(await (await fetch(url, { method: "POST", body: "{}" })).text()).toBe("believed");
    const socket = await TestSocket.open(url, { origin: "https://evil.example" });
    socket.send({ type: "rpc", id: "2", method: "write", args: [] });
    await socket.until("it is written", () => answers(socket).length > 0);
    expect(answers(socket)).toMatchObject([{ id: "2", success: true }]);
    await socket.close();
  });

  test("may delegate to the gateway's own routing through its third argument", async () => {
    const system = await systems.start({
      ...module,
      fetch: async (request, _env, gateway) =>
        (await gateway.routeAgentRequest(request)) ?? new Response("a page"),
    });
    const url = `${system.url}/agents/repo-agent/own`;
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(403);
    expect(await (await fetch(system.url)).text()).toBe("a page");
    const socket = await TestSocket.open(url);
    socket.send({ type: "cf_agent_state", state: { count: 7 } });
    await socket.until("it is refused", () => answers(socket).length > 0);
    expect(answers(socket)).toMatchObject([{ error: "Connection is readonly" }]);
    await socket.close();
  });
});

/** Frames that answer something: errors and results of calls. */
const answers = (socket: TestSocket): ReadonlyArray<unknown> =>
  socket.json.filter((frame) =>
    ["rpc", "cf_agent_state_error"].includes(String((frame as { type?: unknown }).type)),
  );
