/** `useAgent` by its rules (`protocol.md` §4.2), ours and the reference's, on a fake server. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { standing } from "../client/clients.ts";
import { useFakeServer } from "../client/FakeServer.ts";
import { installWindow, Page, type Hook } from "./page.ts";

installWindow();
const { useAgent } = await import("../../services/react/index.ts");
const reference = await import("reference-agents/react");

const HOOKS: ReadonlyArray<readonly [name: string, hook: Hook]> = [
  ["our hook", useAgent],
  ["the reference's hook", reference.useAgent as unknown as Hook],
];

const server = useFakeServer(() => vi.restoreAllMocks());

const until = (what: string, check: () => boolean) => pollUntil(what, check, { intervalMs: 1 });
/** Keys of queries are shared by a whole page: each test has agents of its own. */
let names = 0;
const freshName = (): string => `room-${++names}`;

describe.each(HOOKS)("%s", (_name, hook) => {
  let page: Page;
  beforeEach(() => {
    page = new Page(hook, server.host);
  });
  afterEach(() => page.close());

  it("connects on mount, and closes on unmount", async () => {
    const probe = await page.mount({ name: "lobby" });
    const peer = await server.peer();
    expect(peer.url).toMatch(/^\/agents\/room-agent\/lobby\?_pk=/);
    probe.unmount();
    await until("the socket is closed", () => peer.closed !== undefined);
    expect(server.peers).toHaveLength(1);
  });
  it("renders the state, from the server and from its own setState at once", async () => {
    const onStateUpdate = vi.fn();
    const probe = await page.mount({ onStateUpdate });
    const peer = await server.peer();
    peer.identity("default", { stateFollows: true });
    peer.state({ n: 1 });
    await probe.shows('{"n":1}');
    probe.agent.setState({ n: 2 });
    expect(probe.agent.state).toEqual({ n: 2 });
    await probe.shows('{"n":2}');
    expect(onStateUpdate.mock.calls).toEqual([
      [{ n: 1 }, "server"],
      [{ n: 2 }, "client"],
    ]);
  });
  it("renders the identity, and ready resolves", async () => {
    const show = ({
      name,
      agent,
      identified,
    }: {
      name: string;
      agent: string;
      identified: boolean;
    }) => [agent, name, identified];
    const probe = await page.mount({ basePath: "mine" }, { show });
    expect(probe.text).toBe('["room-agent","default",false]');
    (await server.peer()).identity("alice");
    await probe.shows('["room-agent","alice",true]');
    await probe.agent.ready;
    server.peers[0]!.drop();
    await probe.shows('["room-agent","alice",false]');
  });
  it("onMessage receives only what the protocol does not handle", async () => {
    const seen: unknown[] = [];
    const mcp = { servers: {}, tools: [], prompts: [], resources: [] };
    const onMcpUpdate = vi.fn();
    await page.mount({ onMessage: ({ data }) => seen.push(data), onMcpUpdate });
    const peer = await server.peer();
    peer.identity();
    peer.state({ n: 1 });
    peer.send({ type: "cf_agent_mcp_servers", mcp });
    peer.send({ type: "cf_agent_state_error", error: "State update rejected" });
    peer.send({ type: "mine", n: 1 });
    peer.send("plain");
    await until("two messages", () => seen.length === 2);
    expect(seen).toEqual(['{"type":"mine","n":1}', "plain"]);
    expect(onMcpUpdate.mock.calls).toEqual([[mcp]]);
  });
  it("the callbacks of the latest render are the ones that run", async () => {
    const [first, second] = [vi.fn(), vi.fn()];
    const probe = await page.mount({ onStateUpdate: first });
    const peer = await server.peer();
    const before = probe.renders;
    probe.update({ onStateUpdate: second });
    await until("it rendered again", () => probe.renders > before);
    peer.state(1);
    await probe.shows("1");
    expect(first).not.toHaveBeenCalled();
    expect(second).toHaveBeenCalledWith(1, "server");
    expect(server.peers).toHaveLength(1);
  });
  it("call and stub reach the agent; the stub is stable over renders and sockets", async () => {
    const probe = await page.mount({ query: { token: "a" } });
    const { agent } = probe;
    const { stub } = agent;
    const peer = await server.peer();
    const sum = (stub as Record<string, (...args: unknown[]) => Promise<unknown>>)["add"]!(1, 2);
    const { id, method, args } = await peer.call();
    expect([method, args]).toEqual(["add", [1, 2]]);
    peer.reply(id, { success: true, result: 3, done: true });
    expect(await sum).toBe(3);
    probe.update({ query: { token: "b" } });
    const next = await server.peer(2);
    expect(next.url).toContain("token=b");
    await until("the first socket is closed", () => peer.closed !== undefined);
    expect(probe.agent.stub).toBe(stub);
    // By the first render's object: the socket it was made with is gone.
    const late = agent.call("late");
    const call = await next.call();
    expect(call.method).toBe("late");
    next.reply(call.id, { success: true, done: true });
    await late;
  });
  it("another query opens another socket: sent calls reject, buffered ones move", async () => {
    const probe = await page.mount({ query: { token: "a" } });
    const peer = await server.peer();
    await until("it is open", () => probe.agent.readyState === 1);
    const rejected = expect(probe.agent.call("sent")).rejects.toThrow("Connection closed");
    await peer.call();
    probe.update({ query: { token: "b" } });
    await rejected;
    const next = await server.peer(2);
    await until("the next is open", () => probe.agent.readyState === 1);
    expect(next.received).toEqual([]);
  });
  it("a final close is exposed as connectionError", async () => {
    const onConnectionError = vi.fn();
    const probe = await page.mount(
      { onConnectionError },
      { show: ({ connectionError }) => connectionError?.code ?? null },
    );
    const peer = await server.peer();
    peer.close(4001, "no");
    await probe.shows("4001");
    expect(onConnectionError).toHaveBeenCalledTimes(1);
  });
  it("does not connect until enabled, and then once", async () => {
    const probe = await page.mount({ enabled: false });
    const early = probe.agent.call("early");
    probe.update({ enabled: true });
    const peer = await server.peer();
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await early).toBe(1);
    probe.update({ enabled: false });
    await until("it is closed", () => peer.closed !== undefined);
    probe.update({ enabled: true });
    await server.peer(2);
    expect(server.peers).toHaveLength(2);
  });
  it("sub-agents are steps of the path, and the last one is connected to", async () => {
    const show = ({ agent, name, path }: { agent: string; name: string; path: unknown }) => ({
      agent,
      name,
      path,
    });
    const sub = [{ agent: "ChatAgent", name: "a b/c" }];
    const probe = await page.mount({ name: "inbox", sub, path: "more" }, { show });
    const peer = await server.peer();
    expect(peer.url).toMatch(/^\/agents\/room-agent\/inbox\/sub\/chat-agent\/a%20b%2Fc\/more\?/);
    expect(JSON.parse(probe.text)).toEqual({
      agent: "chat-agent",
      name: "a b/c",
      path: [
        { agent: "RoomAgent", name: "inbox" },
        { agent: "ChatAgent", name: "a b/c" },
      ],
    });
    expect(probe.agent.getHttpUrl()).toBe(
      `http://${server.host}${peer.url.replace("&since=", "")}`,
    );
  });

  describe("an async query", () => {
    it("suspends until it resolves, and is part of the URL", async () => {
      let answer = (_query: { token: string }): void => undefined;
      const query = () => new Promise<{ token: string }>((resolve) => (answer = resolve));
      const probe = await page.mount({ name: freshName(), query });
      expect(probe.text).toBe("waiting");
      expect(server.peers).toHaveLength(0);
      answer({ token: "t1" });
      expect((await server.peer()).url).toContain("token=t1");
      await probe.shows("undefined");
    });
    it("is evaluated once for two components, and again for other queryDeps", async () => {
      const name = freshName();
      let asked = 0;
      const query = async () => ({ token: `t${++asked}` });
      const one = await page.mount({ name, query, queryDeps: [1] });
      await one.shows("undefined");
      const two = await page.mount({ name, query, queryDeps: [1] });
      await two.shows("undefined");
      await server.peer(2);
      expect(asked).toBe(1);
      two.update({ name, query, queryDeps: [2] });
      expect((await server.peer(3)).url).toContain("token=t2");
    });
  });
});

describe("our hook alone", () => {
  it.each<[string, object, string]>([
    ["no agent", { agent: undefined }, '"agent" is missing'],
    ["no agent and an async query", { agent: "", query: async () => ({}) }, '"agent" is missing'],
    ["a sub-agent without a name", { sub: [{ agent: "run" }] }, "sub must be a list"],
    ["a sub-agent that is no list", { sub: { agent: "run", name: "r" } }, "sub must be a list"],
  ])(
    "options with %s are an error that says so, and nothing connects",
    async (_what, wrong, text) => {
      const page = new Page(useAgent, server.host);
      const probe = await page.mount(wrong);
      expect(probe.text).toContain(`failed: useAgent: ${text}`);
      expect(server.peers).toHaveLength(0);
      page.close();
    },
  );
  let page: Page;
  beforeEach(() => {
    page = new Page(useAgent, server.host);
  });
  afterEach(() => page.close());

  it("makes one connection in strict mode, and a call from an effect is answered", async () => {
    const results: unknown[] = [];
    const effect = (agent: { call: (method: string) => Promise<unknown> }) =>
      void agent.call("load").then((result) => results.push(result));
    await page.mount({}, { strict: true, effect });
    const peer = await server.peer();
    for (const count of [1, 2])
      peer.reply((await peer.call(count)).id, { success: true, result: count, done: true });
    await until("both are answered", () => results.length === 2);
    expect(server.peers).toHaveLength(1);
  });
  it("keeps showing the state of the same agent by another query, but not of another agent", async () => {
    const probe = await page.mount({ name: "a", query: { token: "1" } });
    (await server.peer()).state("of a");
    await probe.shows('"of a"');
    probe.update({ name: "a", query: { token: "2" } });
    await server.peer(2);
    expect(probe.text).toBe('"of a"');
    probe.update({ name: "b", query: { token: "2" } });
    await probe.shows("undefined");
  });
  it("resolves ready of a replaced socket with the next one", async () => {
    const probe = await page.mount({ name: "a" });
    const { ready } = probe.agent;
    await server.peer();
    probe.update({ name: "b" });
    const next = await server.peer(2);
    expect(await standing(ready)).toBe("pending");
    next.identity("b");
    await ready;
  });
  it("moves a call that waits for a connection to the replacing socket", async () => {
    server.refuse = (url) => (url.includes("token=a") ? 503 : undefined);
    const probe = await page.mount({ query: { token: "a" } });
    const kept = probe.agent.call("kept");
    await until("it was refused", () => server.refused > 0);
    probe.update({ query: { token: "b" } });
    await until("the other token came", () =>
      server.peers.some(({ url }) => url.includes("token=b")),
    );
    const next = server.peers.find(({ url }) => url.includes("token=b"))!;
    next.reply((await next.call()).id, { success: true, result: 1, done: true });
    expect(await kept).toBe(1);
  });
  it("continues a durable call and the reading of a stream on the replacing socket", async () => {
    const probe = await page.mount({ query: { token: "a" } });
    const first = await server.peer();
    await until("it is open", () => probe.agent.readyState === 1);
    const got: unknown[] = [];
    const followed = probe.agent.follow("answer", { onChunk: (chunk) => got.push(chunk) });
    const called = probe.agent.call("pay", [30], { key: "order 1" });
    const { id } = await first.stream();
    first.send({ type: "cf_agent_stream", id, key: "answer", seq: "s.1", chunks: ["a"] });
    await until("a chunk", () => got.length === 1);
    const frame = await first.call();
    probe.update({ query: { token: "b" } });
    const next = await server.peer(2);
    expect(await next.call()).toEqual(frame);
    expect(await next.stream()).toMatchObject({ id, key: "answer", since: "s.1" });
    const part = { type: "cf_agent_stream", id, key: "answer", seq: "s.2", chunks: ["b"] };
    next.send({ ...part, done: true, result: "whole" });
    next.reply(frame.id, { success: true, result: "paid", done: true });
    expect(await Promise.all([followed, called])).toEqual(["whole", "paid"]);
    expect(got).toEqual(["a", "b"]);
  });
  it("discards a call that waits for a connection when the address changes", async () => {
    server.refuse = (url) => (url.includes("/a?") ? 503 : undefined);
    const probe = await page.mount({ name: "a" });
    const lost = expect(probe.agent.call("lost")).rejects.toThrow(
      "Call discarded: the agent address changed before the request could be sent",
    );
    await until("it was refused", () => server.refused > 0);
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    probe.update({ name: "b" });
    await lost;
    const next = await pollUntil("b is reached", () =>
      server.peers.find(({ url }) => url.startsWith("/agents/room-agent/b")),
    );
    await until("it is open", () => probe.agent.readyState === 1);
    expect(next.received).toEqual([]);
  });
  it("evaluates an async query again when the connection is lost, and waits for it", async () => {
    const answers: Array<(query: { token: string }) => void> = [];
    const query = () => new Promise<{ token: string }>((resolve) => answers.push(resolve));
    const probe = await page.mount({ name: freshName(), query });
    answers[0]!({ token: "t1" });
    await probe.shows("undefined");
    const peer = await server.peer();
    await until("it is open", () => probe.agent.readyState === 1);
    peer.drop();
    await until("it is asked again", () => answers.length === 2);
    expect(server.peers).toHaveLength(1);
    answers[1]!({ token: "t2" });
    expect((await server.peer(2)).url).toContain("token=t2");
  });
  it("throws a failing async query, and repeats it on the next mount", async () => {
    const name = freshName();
    let asked = 0;
    const query = async () => {
      asked += 1;
      if (asked === 1) throw new Error("no token");
      return { token: `t${asked}` };
    };
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const probe = await page.mount({ name, query });
    await probe.shows("failed: no token");
    expect(asked).toBe(1);
    // The failure is remembered for a second, so that React can render it twice.
    const mountAgain = async () => (await page.mount({ name, query })).text !== "failed: no token";
    await pollUntil("a later mount gets further", mountAgain, { intervalMs: 200 });
    expect((await server.peer()).url).toContain("token=t2");
  });
  it("evaluates an expired async query again; only a different answer reconnects", async () => {
    const tokens = ["same", "same", "other"];
    let asked = 0;
    let peersAtSecond = 0;
    const query = async () => {
      asked += 1;
      if (asked === 3) peersAtSecond = server.peers.length;
      return { token: tokens[asked - 1] ?? "other" };
    };
    // The shortest time there is: one second, for any time above 0.
    const probe = await page.mount({ name: freshName(), query, cacheTtl: 1 });
    await probe.shows("undefined");
    expect((await server.peer(2)).url).toContain("token=other");
    expect(server.peers[0]!.url).toContain("token=same");
    expect(peersAtSecond).toBe(1);
    // The new connection uses the answer for which it was made.
    expect(asked).toBe(3);
  });
  it("keeps the pauses between its attempts although a query expires while it is not connected", async () => {
    let asked = 0;
    const query = async () => ({ token: `t${++asked}` });
    const pauseMs = 1_500;
    await page.mount({ name: freshName(), query, cacheTtl: 1, minReconnectionDelay: pauseMs, maxReconnectionDelay: pauseMs }); // prettier-ignore
    (await server.peer()).drop();
    // The first query expires in the pause before this connection.
    (await server.peer(2)).drop();
    const lostMs = performance.now();
    await server.peer(3);
    expect(performance.now() - lostMs).toBeGreaterThan(pauseMs - 100);
    expect(asked).toBe(3);
  });
  it("never evaluates an async query with a cacheTtl of 0 again by time", async () => {
    const asked = { never: 0, often: 0 };
    const query = (what: keyof typeof asked) => async () => ({ token: String(++asked[what]) });
    await page.mount({ name: freshName(), query: query("never"), cacheTtl: 0 });
    await server.peer();
    await page.mount({ name: freshName(), query: query("often"), cacheTtl: 1 });
    await until("the later query has expired", () => asked.often > 1);
    expect(asked.never).toBe(1);
  });
  it("retries a query that fails on a reconnect, and throws nothing", async () => {
    let asked = 0;
    const query = async () => {
      asked += 1;
      if (asked === 2) throw new Error("not now");
      return { token: `t${asked}` };
    };
    const probe = await page.mount({ name: freshName(), query });
    await probe.shows("undefined");
    (await server.peer()).drop();
    expect((await server.peer(2)).url).toContain("token=t3");
    expect(probe.text).toBe("undefined");
  });
  it("asks an async query no more once the component is unmounted", async () => {
    const answers: Array<() => void> = [];
    const query = () => new Promise<object>((resolve) => answers.push(() => resolve({ token: "t" }))); // prettier-ignore
    const options = { name: freshName(), query: query as () => Promise<Record<string, string>>, cacheTtl: 1 }; // prettier-ignore
    const probe = await page.mount(options);
    answers[0]!();
    await probe.shows("undefined");
    (await server.peer()).drop();
    await until("it is asked again", () => answers.length === 2);
    probe.unmount();
    await new Promise((resolve) => setTimeout(resolve, 50));
    answers[1]!();
    // The shortest time to live is a second.
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    expect(answers).toHaveLength(2);
  });
  it("keeps a call while it is disabled, without a warning", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const name = freshName();
    const probe = await page.mount({ name });
    const peer = await server.peer();
    await until("it is open", () => probe.agent.readyState === 1);
    probe.update({ name, enabled: false });
    await until("it is closed", () => peer.closed !== undefined);
    const kept = probe.agent.call("kept");
    probe.update({ name });
    const next = await server.peer(2);
    next.reply((await next.call()).id, { success: true, result: 1, done: true });
    expect(await kept).toBe(1);
    expect(warn).not.toHaveBeenCalled();
  });
});
