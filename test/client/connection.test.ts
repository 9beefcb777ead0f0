/** A client's protocol on the wire (`protocol.md` §2, §4.1, §13), by frame, for both clients. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClientPool, CLIENTS, standing, type AnyClient } from "./clients.ts";
import { until, useFakeServer } from "./FakeServer.ts";

const server = useFakeServer(() => vi.restoreAllMocks());

const opened = (client: AnyClient) => until("it is open", () => client.readyState === 1);

describe.each(CLIENTS)("%s", (_name, kind) => {
  let pool: ClientPool;
  beforeEach(() => {
    pool = new ClientPool(kind);
  });
  afterEach(() => pool.close());

  describe("addresses", () => {
    const pathOf = async (options: object): Promise<URL> => {
      const before = server.peers.length;
      const client = pool.open({ host: server.host, ...options });
      const { url } = await server.peer(before + 1);
      const found = new URL(url, `http://${server.host}`);
      expect(found.searchParams.get("_pk")).toBe(client.id);
      return found;
    };

    it('a class name in any case becomes kebab case in the URL, and the instance name defaults to "default"', async () => {
      expect((await pathOf({})).pathname).toBe("/agents/room-agent/default");
      expect((await pathOf({ agent: "room-agent", name: "x" })).pathname).toBe(
        "/agents/room-agent/x",
      );
      expect((await pathOf({ agent: "ROOM_AGENT" })).pathname).toBe("/agents/room-agent/default");
    });
    it("prefix, path and basePath are placed in the URL", async () => {
      expect((await pathOf({ prefix: "a/b", path: "c/d" })).pathname).toBe(
        "/a/b/room-agent/default/c/d",
      );
      expect((await pathOf({ basePath: "user", path: "settings" })).pathname).toBe(
        "/user/settings",
      );
    });
    it("a path that starts with a slash is refused", () => {
      expect(() => pool.open({ host: server.host, path: "/x" })).toThrow(/slash/);
    });
    it("query values are sent, except null and undefined", async () => {
      const url = await pathOf({ query: { token: "a b", none: null, nothing: undefined } });
      expect(url.search).toMatch(/^\?_pk=[^&]+&token=a\+b(?:&since=)?$/);
    });
    it("an async query is evaluated again for each connection", async () => {
      let asked = 0;
      const query = async () => ({ token: `t${++asked}` });
      pool.open({ host: server.host, query });
      (await server.peer()).drop();
      const again = await server.peer(2);
      expect(new URL(again.url, "http://x").searchParams.get("token")).toBe("t2");
    });
    it("the connection id is kept across reconnects, and may be set", async () => {
      const client = pool.open({ host: server.host, id: "mine" });
      (await server.peer()).drop();
      expect((await server.peer(2)).url).toContain("_pk=mine");
      expect(client.id).toBe("mine");
    });
  });

  describe("identity and ready", () => {
    it("is ready on the identity when no state follows", async () => {
      const onIdentity = vi.fn();
      const client = pool.open({ host: server.host, onIdentity });
      const peer = await server.peer();
      expect(client.identified).toBe(false);
      peer.identity("room-1");
      await client.ready;
      expect(client).toMatchObject({ identified: true, name: "room-1", agent: "room-agent" });
      expect(onIdentity.mock.calls).toEqual([["room-1", "room-agent"]]);
    });
    it("is ready only with the state when the identity says that one follows", async () => {
      const client = pool.open({ host: server.host });
      const peer = await server.peer();
      peer.identity("default", { stateFollows: true });
      peer.send("marker");
      await marked(client);
      expect(client.identified).toBe(false);
      expect(await standing(client.ready)).toBe("pending");
      peer.state({ n: 1 });
      await client.ready;
      expect(client).toMatchObject({ identified: true, state: { n: 1 } });
    });
    it("without an identity, has state but is never ready", async () => {
      const client = pool.open({ host: server.host });
      (await server.peer()).state({ n: 1 });
      await until("the state is here", () => client.state !== undefined);
      expect(await standing(client.ready)).toBe("pending");
      expect(client.identified).toBe(false);
    });
    it("ready waits again after every close", async () => {
      const client = pool.open({ host: server.host });
      (await server.peer()).identity();
      await client.ready;
      server.peers[0]!.drop();
      await until("it is not identified", () => !client.identified);
      const again = client.ready;
      expect(await standing(again)).toBe("pending");
      (await server.peer(2)).identity();
      await again;
      expect(client.identified).toBe(true);
    });
    it("a different identity after a reconnect is reported with both", async () => {
      const onIdentityChange = vi.fn();
      const client = pool.open({ host: server.host, onIdentityChange });
      (await server.peer()).identity("old");
      await client.ready;
      server.peers[0]!.drop();
      (await server.peer(2)).identity("new");
      await until("the new name is here", () => client.name === "new");
      expect(onIdentityChange.mock.calls).toEqual([["old", "new", "room-agent", "room-agent"]]);
    });
    it("a different identity is a warning if nothing listens; the same one is not", async () => {
      const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
      const client = pool.open({ host: server.host });
      (await server.peer()).identity("old");
      await client.ready;
      server.peers[0]!.drop();
      (await server.peer(2)).identity("old");
      await until("it is identified", () => client.identified);
      expect(warn).not.toHaveBeenCalled();
      server.peers[1]!.drop();
      (await server.peer(3)).identity("new");
      await until("the new name is here", () => client.name === "new");
      expect(warn).toHaveBeenCalledTimes(1);
    });
  });

  describe("state", () => {
    it("a state set by the client applies at once, is reported with its source and is sent", async () => {
      const onStateUpdate = vi.fn();
      const client = pool.open({ host: server.host, onStateUpdate });
      const peer = await server.peer();
      await opened(client);
      expect(client.state).toBeUndefined();
      client.setState({ n: 1 });
      expect(client.state).toEqual({ n: 1 });
      expect(onStateUpdate.mock.calls).toEqual([[{ n: 1 }, "client"]]);
      await until("the frame arrives", () => peer.received.length === 1);
      expect(JSON.parse(peer.received[0]!)).toEqual({ type: "cf_agent_state", state: { n: 1 } });
    });
    it("a rejected state is reported, and kept", async () => {
      const onStateUpdateError = vi.fn();
      const client = pool.open({ host: server.host, onStateUpdateError });
      const peer = await server.peer();
      client.setState({ n: 1 });
      peer.send({ type: "cf_agent_state_error", error: "State update rejected" });
      await until("the refusal is told", () => onStateUpdateError.mock.calls.length > 0);
      expect(onStateUpdateError.mock.calls).toEqual([["State update rejected"]]);
      expect(client.state).toEqual({ n: 1 });
    });
    it("a falsy state counts as a state", async () => {
      const onStateUpdate = vi.fn();
      const client = pool.open({ host: server.host, onStateUpdate });
      (await server.peer()).state(null);
      await until("the state is here", () => client.state === null);
      expect(onStateUpdate.mock.calls).toEqual([[null, "server"]]);
    });
    it("a state set before the connection opens is sent when it does", async () => {
      const client = pool.open({ host: server.host });
      client.setState({ early: true });
      const peer = await server.peer();
      await until("the frame arrives", () => peer.received.length === 1);
    });
    it("listeners of raw messages see every frame", async () => {
      const client = pool.open({ host: server.host });
      const seen: unknown[] = [];
      client.addEventListener("message", (event) => {
        seen.push(event.data);
      });
      const peer = await server.peer();
      peer.identity();
      peer.send({ type: "cf_agent_mcp_servers", mcp: {} });
      peer.send("plain");
      await until("three frames", () => seen.length === 3);
      expect(seen[2]).toBe("plain");
    });
  });

  describe("calls", () => {
    it("a call is one frame with a new id, the method and its arguments", async () => {
      const client = pool.open({ host: server.host });
      const sum = client.call("add", [1, 2]);
      const none = client.call("none");
      const peer = await server.peer();
      const call = await peer.call();
      const other = await peer.call(2);
      expect(call).toEqual({ type: "rpc", id: expect.any(String), method: "add", args: [1, 2] });
      expect(other).toMatchObject({ method: "none", args: [] });
      expect(other.id).not.toBe(call.id);
      peer.reply(call.id, { success: true, result: 3, done: true });
      expect(await sum).toBe(3);
      peer.reply(other.id, { success: true, done: true });
      expect(await none).toBeUndefined();
    });
    it("replies match their call in any order, and an error rejects with its text", async () => {
      const client = pool.open({ host: server.host });
      const [first, second] = [client.call("a"), client.call("b")];
      const failed = expect(first).rejects.toThrow("a failed");
      const peer = await server.peer();
      const [a, b] = [await peer.call(1), await peer.call(2)];
      peer.reply(b.id, { success: true, result: "b", done: true });
      expect(await second).toBe("b");
      peer.reply(a.id, { success: false, error: "a failed" });
      await failed;
    });
    it("a call that times out names the method and the timeout", async () => {
      const client = pool.open({ host: server.host, defaultCallTimeout: 15 });
      await expect(client.call("slow")).rejects.toThrow("RPC call to slow timed out after 15ms");
      await expect(client.call("slow", [], { timeout: 5 })).rejects.toThrow("timed out after 5ms");
    });
    it("an unexpected reply is a warning", async () => {
      const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
      const client = pool.open({ host: server.host });
      const peer = await server.peer();
      // A call that times out before its connection opens is never sent.
      await opened(client);
      const late = expect(client.call("slow", [], { timeout: 15 })).rejects.toThrow("timed out");
      const { id } = await peer.call();
      await late;
      peer.reply(id, { success: true, result: 1, done: true });
      await until("a warning", () => warn.mock.calls.length === 1);
    });
    it.each([
      ["under stream", (stream: object) => ({ stream })],
      ["bare", (stream: object) => stream],
    ])(
      "stream callbacks %s receive the chunks, and the promise the final value",
      async (_how, shape) => {
        const seen: unknown[] = [];
        const client = pool.open({ host: server.host, defaultCallTimeout: 1 });
        const done = client.call(
          "count",
          [2],
          shape({
            onChunk: (chunk: unknown) => seen.push(chunk),
            onDone: (last: unknown) => seen.push(["done", last]),
          }),
        );
        const peer = await server.peer();
        const { id } = await peer.call();
        peer.reply(id, { success: true, result: 1, done: false });
        peer.reply(id, { success: true, result: 2, done: false });
        // No default timeout: far more than 1 ms has passed.
        peer.reply(id, { success: true, result: "end", done: true });
        expect(await done).toBe("end");
        await until("onDone ran", () => seen.length === 3);
        expect(seen).toEqual([1, 2, ["done", "end"]]);
      },
    );
    it("a failing stream calls its callback and rejects", async () => {
      const onError = vi.fn();
      const client = pool.open({ host: server.host });
      const failed = expect(client.call("count", [], { stream: { onError } })).rejects.toThrow(
        "no",
      );
      const peer = await server.peer();
      peer.reply((await peer.call()).id, { success: false, error: "no" });
      await failed;
      await until("onError ran", () => onError.mock.calls.length > 0);
      expect(onError.mock.calls).toEqual([["no"]]);
    });
    it("the stub calls methods by name, and reading a property calls nothing", async () => {
      const client = pool.open({ host: server.host });
      const stub = client.stub as Record<string, (...args: unknown[]) => Promise<unknown>>;
      for (const probed of ["then", "toJSON", "constructor", "$$typeof", "nodeType"])
        expect(stub[probed]).toBeUndefined();
      expect((stub as unknown as Record<symbol, unknown>)[Symbol.iterator]).toBeUndefined();
      expect(JSON.stringify({ stub: {} })).toBe('{"stub":{}}');
      const sum = stub["add"]!(1, 2);
      const peer = await server.peer();
      const call = await peer.call();
      expect(call).toMatchObject({ method: "add", args: [1, 2] });
      peer.reply(call.id, { success: true, result: 3, done: true });
      expect(await sum).toBe(3);
      expect(peer.received).toHaveLength(1);
    });
  });

  it("AgentClient.fetch throws and points to agentFetch", () => {
    expect(() => (kind.AgentClient as { fetch: () => unknown }).fetch()).toThrow(/agentFetch/);
  });
});

/** Resolves when the peer's "marker" message has been handled. */
function marked(client: AnyClient): Promise<void> {
  return new Promise((resolve) =>
    client.addEventListener("message", (event) => {
      if (event.data === "marker") resolve();
    }),
  );
}
