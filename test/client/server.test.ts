/** Our server and both clients, on a real broker (`protocol.md` §2, §13: 1, 2, 4, 14). */
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  routeAgentRequest,
  type AgentNamespace,
  type Connection,
  type ConnectionContext,
  type StateSource,
  type StreamingResponse,
} from "../../services/agent/index.ts";
import { pollUntil } from "../kit/poll.ts";
import { makeLatch, useSystems, type Latch, type System } from "../system/kit.ts";
import { ClientPool, CLIENTS, type AnyClient } from "./clients.ts";

interface RoomState {
  readonly count: number;
}

/** Held by the test, by agent name: what `wait` waits for. */
const latches = new Map<string, Latch>();

class RoomAgent extends Agent<object, RoomState> {
  override initialState: RoomState = { count: 0 };

  override validateStateChange(next: RoomState, _source: StateSource): void {
    if (next.count < 0) throw new Error("a secret reason");
  }
  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.has("readonly");
  }
  override onConnect(connection: Connection, { request }: ConnectionContext): void {
    const code = new URL(request.url).searchParams.get("close");
    if (code !== null) connection.close(Number(code), "as asked");
  }
  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    if (message === "close me") connection.close(4001, "as asked");
    else connection.send(`echo ${typeof message === "string" ? message : message.byteLength}`);
  }
  override async onRequest(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    return Response.json({ method: request.method, pathname, search, body: await request.text() });
  }

  @callable()
  add(a: number, b: number): number {
    return a + b;
  }
  @callable()
  nothing(): void {}
  @callable()
  fail(): never {
    throw new Error("it failed");
  }
  @callable()
  failOddly(): never {
    // eslint-disable-next-line no-throw-literal
    throw "no error at all";
  }
  @callable()
  unspeakable(): unknown {
    return 1n;
  }
  @callable()
  increment(): number {
    this.setState({ count: this.state.count + 1 });
    return this.state.count;
  }
  @callable()
  async wait(): Promise<string> {
    await latches.get(this.name)?.opened;
    return "waited";
  }
  @callable({ streaming: true })
  count(stream: StreamingResponse<number, string>, to: number): void {
    for (let n = 1; n <= to; n++) stream.send(n);
    stream.end("done");
    if (stream.send(0) || stream.end() || stream.error("") || !stream.isClosed)
      throw new Error("an ended stream takes nothing");
  }
  @callable({ streaming: true })
  breakOff(stream: StreamingResponse<number>): void {
    stream.send(1);
    throw new Error("broke off");
  }
  @callable({ streaming: true })
  refuse(stream: StreamingResponse): void {
    stream.error("refused");
  }
  @callable({ streaming: true })
  forget(stream: StreamingResponse<number>): void {
    stream.send(1);
  }
  @callable({ streaming: true })
  async untilClosed(stream: StreamingResponse<string>): Promise<void> {
    stream.send("open");
    await pollUntil("the stream is closed", () => stream.isClosed, { intervalMs: 2 });
    latches.get(this.name)?.open();
  }
  notCallable(): string {
    return "secret";
  }
}

class SilentAgent extends Agent<object, RoomState> {
  static override options = { sendIdentityOnConnect: false };
  override initialState: RoomState = { count: 7 };
}
class PlainAgent extends Agent {}

const systems = useSystems();
let system: System;
let host: string;
beforeAll(async () => {
  system = await systems.start({
    agents: { RoomAgent, SilentAgent, PlainAgent },
    fetch: async (request, env) => {
      const { pathname } = new URL(request.url);
      const rooms = (env as { RoomAgent: AgentNamespace<RoomAgent> }).RoomAgent;
      if (pathname.startsWith("/mine"))
        return (await getAgentByName(rooms, "alice")).fetch(request);
      return (await routeAgentRequest(request, env)) ?? new Response("none", { status: 404 });
    },
  });
  host = new URL(system.url).host;
});

let names = 0;

describe.each(CLIENTS)("%s with our server", (_name, kind) => {
  const pool = new ClientPool(kind);
  afterEach(() => pool.close());
  const open = (name: string, options: object = {}) => pool.open({ host, name, ...options });
  const fresh = (): string => `room-${++names}`;

  it("receives identity and state before it is ready", async () => {
    const name = fresh();
    const client = open(name);
    await client.ready;
    expect(client).toMatchObject({ name, agent: "room-agent", state: { count: 0 } });
  });
  it("an agent without a state is ready without one", async () => {
    const client = open(fresh(), { agent: "PlainAgent" });
    await client.ready;
    expect(client.state).toBeUndefined();
  });
  it("an agent that does not send its identity still sends its state", async () => {
    const client = open(fresh(), { agent: "SilentAgent" });
    await pollUntil("the state is here", () => client.state);
    expect(client.identified).toBe(false);
  });
  it("a state set by one client reaches the others, and is not sent back", async () => {
    const name = fresh();
    const [mine, theirs] = [vi.fn(), vi.fn()];
    const one = open(name, { onStateUpdate: mine });
    const two = open(name, { onStateUpdate: theirs });
    await Promise.all([one.ready, two.ready]);
    one.setState({ count: 5 });
    await pollUntil("the other has it", () => (two.state as RoomState).count === 5);
    // A round trip later nothing more has come.
    await one.call("nothing");
    expect(mine.mock.calls).toEqual([
      [{ count: 0 }, "server"],
      [{ count: 5 }, "client"],
    ]);
    expect(theirs.mock.calls.at(-1)).toEqual([{ count: 5 }, "server"]);
  });
  it("a state that a call sets reaches its caller too, before the reply", async () => {
    const client = open(fresh());
    await client.ready;
    const before = frames(client);
    expect(await client.call("increment")).toBe(1);
    expect(before.map(({ type }) => type)).toEqual(["cf_agent_state", "rpc"]);
    expect(client.state).toEqual({ count: 1 });
  });
  it("a rejected state has a fixed message, and the client keeps its own", async () => {
    const onStateUpdateError = vi.fn();
    const client = open(fresh(), { onStateUpdateError });
    await client.ready;
    client.setState({ count: -1 });
    await pollUntil("it is told", () => onStateUpdateError.mock.calls[0]);
    expect(onStateUpdateError.mock.calls).toEqual([["State update rejected"]]);
    expect(client.state).toEqual({ count: -1 });
  });
  it("a readonly client gets an error, and its calls may not set the state", async () => {
    const onStateUpdateError = vi.fn();
    const client = open(fresh(), { query: { readonly: "1" }, onStateUpdateError });
    await client.ready;
    client.setState({ count: 3 });
    await pollUntil("it is told", () => onStateUpdateError.mock.calls[0]);
    expect(onStateUpdateError.mock.calls).toEqual([["Connection is readonly"]]);
    await expect(client.call("increment")).rejects.toThrow("Connection is readonly");
    expect(await client.call("add", [1, 2])).toBe(3);
  });

  it("calls return results, and errors by message", async () => {
    const client = open(fresh());
    expect(await client.call("add", [1, 2])).toBe(3);
    expect(await client.call("nothing")).toBeUndefined();
    await expect(client.call("fail")).rejects.toThrow("it failed");
    await expect(client.call("failOddly")).rejects.toThrow("Unknown error occurred");
    await expect(client.call("unspeakable")).rejects.toThrow(/bigint/i);
    await expect(client.call("missing")).rejects.toThrow("Method missing does not exist");
    await expect(client.call("notCallable")).rejects.toThrow("Method notCallable is not callable");
    await expect(client.call("setState", [{}])).rejects.toThrow("Method setState is not callable");
  });
  it("a slow call delays no other", async () => {
    const name = fresh();
    latches.set(name, makeLatch());
    const client = open(name);
    const slow = client.call("wait");
    expect(await client.call("add", [1, 2])).toBe(3);
    latches.get(name)!.open();
    expect(await slow).toBe("waited");
  });
  it("a call that is in flight when the socket closes rejects", async () => {
    const name = fresh();
    latches.set(name, makeLatch());
    const client = open(name);
    await client.ready;
    const lost = expect(client.call("wait")).rejects.toThrow("Connection closed");
    client.reconnect();
    await lost;
    latches.get(name)!.open();
    expect(await client.call("add", [2, 2])).toBe(4);
  });
  it("a stream delivers its chunks in order, then its end", async () => {
    const client = open(fresh());
    const seen: unknown[] = [];
    const onDone = (last: unknown) => seen.push(["done", last]);
    const done = await client.call("count", [3], { onChunk: (n) => seen.push(n), onDone });
    expect(done).toBe("done");
    await pollUntil("onDone ran", () => seen.length === 4);
    expect(seen).toEqual([1, 2, 3, ["done", "done"]]);
  });
  it("a stream that throws or ends with an error rejects after its chunks", async () => {
    const client = open(fresh());
    const onChunk = vi.fn();
    await expect(client.call("breakOff", [], { stream: { onChunk } })).rejects.toThrow("broke off");
    expect(onChunk.mock.calls).toEqual([[1]]);
    await expect(client.call("refuse", [], { stream: {} })).rejects.toThrow("refused");
  });
  it("a stream that never ends leaves its call open", async () => {
    const client = open(fresh());
    const onChunk = vi.fn();
    await client.ready;
    // A busy machine's chunk takes its time.
    const open_ = client.call("forget", [], { timeout: 1000, stream: { onChunk } });
    await expect(open_).rejects.toThrow("RPC call to forget timed out after 1000ms");
    expect(onChunk.mock.calls).toEqual([[1]]);
  });
  it("a stream whose caller has left is closed", async () => {
    const name = fresh();
    latches.set(name, makeLatch());
    const client = open(name);
    const opened = makeLatch();
    const lost = expect(
      client.call("untilClosed", [], { stream: { onChunk: opened.open } }),
    ).rejects.toThrow("Connection closed");
    await opened.opened;
    client.close();
    await lost;
    await latches.get(name)!.opened;
  });

  it("the app's own messages travel beside the protocol", async () => {
    const client = open(fresh());
    await client.ready;
    const seen: unknown[] = [];
    client.addEventListener("message", ({ data }) => {
      if (typeof data === "string" && data.startsWith("echo")) seen.push(data);
    });
    client.send("hello");
    client.send(new Uint8Array([1, 2, 3]));
    await pollUntil("both echoes", () => seen.length === 2);
    expect(seen).toEqual(["echo hello", "echo 3"]);
  });
  it("an agent's own close code in 4000-4999 is final", async () => {
    const client = open(fresh());
    await client.ready;
    client.send("close me");
    await pollUntil("the end is known", () => client.connectionError);
    expect(client.connectionError).toMatchObject({ code: 4001, reason: "as asked" });
    expect(client.shouldReconnect).toBe(false);
  });
  it("an agent may permanently refuse a client as it connects", async () => {
    const client = open(fresh(), { query: { close: "4401" } });
    await pollUntil("the end is known", () => client.connectionError);
    expect(client.connectionError).toMatchObject({ code: 4401, reason: "as asked" });
  });
  it("with a basePath, the server's routing chooses the agent", async () => {
    const client = open("whoever", { basePath: "mine", path: "more" });
    await client.ready;
    expect(client).toMatchObject({ name: "alice", agent: "room-agent" });
  });
  it("agentFetch sends path, query, method and body to the same agent", async () => {
    const name = fresh();
    const options = { agent: "RoomAgent", host, name };
    const plain = await kind.agentFetch(options);
    expect(plain.url).toBe(`http://${host}/agents/room-agent/${name}?`);
    const query = async () => ({ q: "1" });
    const response = await kind.agentFetch(
      { ...options, path: "sub/path", query },
      { method: "POST", body: "hello" },
    );
    expect(await response.json()).toEqual({
      method: "POST",
      pathname: `/agents/room-agent/${name}/sub/path`,
      search: "?q=1",
      body: "hello",
    });
    const mine = await kind.agentFetch({ agent: "RoomAgent", host, basePath: "mine/x" });
    expect(await mine.json()).toMatchObject({ pathname: "/mine/x" });
  });
});

/** The protocol's frames that come from now on. */
function frames(client: AnyClient): Array<{ type: string }> {
  const seen: Array<{ type: string }> = [];
  client.addEventListener("message", ({ data }) => {
    seen.push(JSON.parse(String(data)) as { type: string });
  });
  return seen;
}
