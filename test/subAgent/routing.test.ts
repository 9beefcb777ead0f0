/** Sub-agents from outside: URLs that name them, by HTTP and WebSockets, past the parent's hook. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  getAgentByName,
  routeAgentRequest,
  routeSubAgentRequest,
  type AgentNamespace,
} from "agents";
import { AgentClient } from "agents/client";
import { AgentNamespace as Namespace } from "../../core/namespace/AgentNamespace.ts";
import WebSocket from "ws";
import { pollUntil } from "../kit/poll.ts";
import { read, TestSocket, useSystems, type System } from "../system/kit.ts";
import { Failing, Keeper, Runner, Sub, Supervisor, Tool } from "./family.ts";

interface Env {
  readonly Supervisor: AgentNamespace<Supervisor>;
}

const agents = { Supervisor, Runner, Tool, Failing, Sub, Keeper };
const systems = useSystems();
let system: System;
let names = 0;
/** The supervisor of the running test. */
let name: string;
beforeEach(() => {
  name = `s-${++names}`;
});

beforeAll(async () => {
  system = await systems.start({
    agents,
    env: { MY_RUNNER: new Namespace("Runner", () => undefined as never) },
    fetch: async (request, given) => {
      const env = given as unknown as Env;
      const { pathname } = new URL(request.url);
      const own = /^\/users\/([^/]+)(\/.*)$/.exec(pathname);
      const props = { given: "by the worker" };
      if (pathname.startsWith("/agents/keeper")) return (await routeAgentRequest(request, env, { props })) ?? new Response("no", { status: 404 }); // prettier-ignore
      if (own === null) return (await routeAgentRequest(request, env)) ?? new Response("no", { status: 404 }); // prettier-ignore
      const parent = await getAgentByName(env.Supervisor, own[1]!);
      return routeSubAgentRequest(request, parent, { fromPath: own[2]! });
    },
  });
});

const ownPath = (): string => `/agents/supervisor/${name}`;
const call = async (path: string, init?: RequestInit) => {
  const { status, text } = await read(await fetch(system.url + path, init));
  return [status, text.startsWith("{") ? (JSON.parse(text) as object) : text];
};
const supervisor = () =>
  (system.gateway.env["Supervisor"] as AgentNamespace<Supervisor>).getByName(name);

describe("an HTTP request", () => {
  test("reaches the sub-agent in its path, which sees the rest of the path, and is listed", async () => {
    const seen = { runner: "r 1", method: "GET", path: "/a/b?c=d", user: null, body: "" };
    expect(await call(`${ownPath()}/sub/runner/r%201/a/b?c=d`)).toEqual([200, seen]);
    const posted = await call(`${ownPath()}/sub/runner/r%2F2`, { method: "POST", body: "hello" });
    expect(posted).toEqual([
      200,
      { runner: "r/2", method: "POST", path: "/", user: null, body: "hello" },
    ]);
    expect(await supervisor().list()).toEqual(["Runner r 1", "Runner r/2"]);
    expect(await supervisor().setAnswer("pass")).toEqual([
      { className: "Runner", name: "r 1", path: `${ownPath()}/sub/runner/r%201/a/b` },
      { className: "Runner", name: "r/2", path: `${ownPath()}/sub/runner/r%2F2` },
    ]);
  });

  test("for an impossible sub-agent name is answered 400, an upgrade closed with 4400", async () => {
    for (const [sub, why] of [
      ["%00", /null character/],
      ["n".repeat(1_100), /the limit is 1024 bytes/],
    ] as const) {
      const path = `${ownPath()}/sub/runner/${sub}`;
      expect(await call(path)).toEqual([400, expect.stringMatching(why)]);
      const socket = await TestSocket.open(system.url + path);
      await socket.until("it is closed", () => socket.closed !== undefined);
      expect(socket.closed).toMatchObject({ code: 4400 });
    }
    expect(await supervisor().list()).toEqual([]);
  });

  test("follows a path of any depth", async () => {
    expect(await call(`${ownPath()}/sub/runner/r/sub/tool/t/x`)).toEqual([
      200,
      { tool: "t", path: "/x" },
    ]);
    expect(await supervisor().list()).toEqual(["Runner r"]);
  });

  test("for more than 64 sub-agents is answered 400, an upgrade closed with 4400, and creates none", async () => {
    const deep = `${ownPath()}${"/sub/runner/r".repeat(65)}`;
    expect(await call(deep)).toEqual([400, "A path names at most 64 sub-agents"]);
    const socket = await TestSocket.open(system.url + deep);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed).toMatchObject({ code: 4400 });
    expect(await supervisor().list()).toEqual([]);
  });

  test("goes to the agent itself if the path names none: unknown class, missing name, undecodable name, a binding", async () => {
    for (const tail of [
      "sub/nobody/r",
      "sub/runner",
      "sub/sub/r",
      "sub/runner/%E0%A4%A",
      "subs/runner/r",
      "sub/my-runner/r",
    ])
      // prettier-ignore
      expect(await call(`${ownPath()}/${tail}`), tail).toEqual([
        200,
        { supervisor: name, path: `${ownPath()}/${tail}` },
      ]);
    expect(await supervisor().list()).toEqual([]);
  });

  test("is streamed piece by piece, up to a megabyte", async () => {
    expect(await call(`${ownPath()}/sub/runner/r/stream`)).toEqual([200, "piece 1;piece 2;piece 3;"]); // prettier-ignore
    const body = "x".repeat(1_500_000);
    const [status, seen] = await call(`${ownPath()}/sub/runner/r`, { method: "POST", body });
    expect([status, (seen as { body: string }).body === body]).toEqual([200, true]);
  });

  test("is answered by the parent's hook, changed by it, or fails with it", async () => {
    const path = `${ownPath()}/sub/runner/r/a?b=c`;
    await supervisor().setAnswer("refuse");
    expect(await call(path)).toEqual([404, "not for you"]);
    await supervisor().setAnswer("throw");
    expect(await call(path)).toEqual([500, "Internal Server Error"]);
    expect(await supervisor().list()).toEqual([]);
    await supervisor().setAnswer("change");
    // The path is the one that was asked for, whatever the hook's request has.
    expect(await call(path)).toEqual([
      200,
      { runner: "r", method: "PUT", path: "/a?b=c&user=7", user: "7", body: "changed" },
    ]);
  });

  test("to one that destroys itself is answered, and removes it from the parent's list", async () => {
    expect(await call(`${ownPath()}/sub/runner/r/destroy`)).toEqual([200, "destroyed"]);
    expect(await supervisor().list()).toEqual([]);
  });

  test("on a worker's own path is routed by routeSubAgentRequest", async () => {
    const [status, seen] = await call(`/users/${name}/sub/runner/r/a?b=c`);
    expect([status, seen]).toMatchObject([200, { runner: "r", path: "/a?b=c" }]);
    expect(await call(`/users/${name}/nothing`)).toEqual([
      400,
      "Sub-agent path not found in request URL",
    ]);
  });

  test("passes the worker's props to the root agent only", async () => {
    const path = `/agents/keeper/${name}/sub/keeper/below`;
    expect(await call(path)).toEqual([200, { name: "below", props: null }]);
    expect(await call(path.split("/sub")[0]!)).toMatchObject([200, { props: { given: "by the worker" } }]); // prettier-ignore
    const other = `/agents/keeper/${name}-other`;
    const socket = await TestSocket.open(`${system.url}${other}/sub/keeper/below`);
    await socket.first(1);
    expect(await call(`${other}/sub/keeper/below`)).toEqual([200, { name: "below", props: null }]);
    expect(await call(other)).toMatchObject([200, { props: { given: "by the worker" } }]);
    await socket.close();
  });

  test("to one whose start fails is a plain 500", async () => {
    expect(await call(`${ownPath()}/sub/failing/f`)).toEqual([500, "Internal Server Error"]);
  });
});

describe("a WebSocket", () => {
  test("reaches the sub-agent: identity, state, calls, broadcasts", async () => {
    const url = `${system.url}${ownPath()}/sub/runner/r%201`;
    const one = await TestSocket.open(`${url}/chat?_pk=a`);
    const two = await TestSocket.open(`${url}?_pk=b`);
    const other = await TestSocket.open(`${system.url}${ownPath()}/sub/runner/other`);
    await one.first(4);
    expect(one.json).toEqual([
      { type: "cf_agent_identity", name: "r 1", agent: "runner", stateFollows: true },
      { type: "cf_agent_state", state: { count: 0 }, seq: expect.any(Number) as number },
      { type: "cf_agent_mcp_servers", mcp: expect.any(Object) as object },
      { at: "/chat?_pk=a", user: null },
    ]);
    one.send({ type: "rpc", id: "1", method: "add", args: [3] });
    await two.until("the new state", () => two.states.length === 2);
    expect(two.states.at(-1)).toEqual({ count: 3 });
    await one.until("its answer", () =>
      one.json.some((frame) => (frame as { id?: string }).id === "1"),
    );
    expect(other.states).toEqual([{ count: 0 }]);
    for (const socket of [one, two, other]) await socket.close();
  });

  test("is closed with the status that the hook returned, so that clients stop", async () => {
    const url = `${system.url}${ownPath()}/sub/runner/r`;
    for (const [answer, code, status] of [
      ["refuse", 4404, 404],
      ["fail", 1011, 503],
      ["throw", 1011, 500],
    ] as const) {
      await supervisor().setAnswer(answer);
      const socket = await TestSocket.open(url);
      await socket.until("it is closed", () => socket.closed !== undefined);
      expect(socket.closed).toEqual({
        code,
        reason: `Sub-agent connection rejected (${status})`,
      });
    }
    expect(await supervisor().list()).toEqual([]);
    await supervisor().setAnswer("change");
    const socket = await TestSocket.open(`${url}/deep?b=c`);
    await socket.first(4);
    expect(socket.json[3]).toEqual({ at: "/deep?b=c&user=7", user: "7" });
    await socket.close();
  });

  test("is closed with 1001 when its sub-agent is deleted", async () => {
    const socket = await TestSocket.open(`${system.url}${ownPath()}/sub/runner/r`);
    const deeper = await TestSocket.open(`${system.url}${ownPath()}/sub/runner/r/sub/tool/t`);
    await supervisor().remove("r");
    for (const { closed } of [await closedOf(socket), await closedOf(deeper)])
      expect(closed).toEqual({ code: 1001, reason: "Sub-agent deleted" });
  });

  test("of the client library works with its path", async () => {
    const client = new AgentClient<Runner, { count: number }>({
      agent: "Supervisor",
      name,
      host: system.url.replace("http://", ""),
      protocol: "ws",
      path: "sub/runner/r",
      WebSocket: WebSocket as never,
    });
    await client.ready;
    expect([client.agent, client.name]).toEqual(["runner", "r"]);
    expect(await client.call("add", [2])).toBe(2);
    await pollUntil("its state", () => client.state?.count === 2);
    client.close();
  });
});

async function closedOf(socket: TestSocket): Promise<TestSocket> {
  await socket.until("it is closed", () => socket.closed !== undefined);
  return socket;
}
