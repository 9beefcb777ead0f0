/** The WebSocket protocol as a plain client sees it: exact frames, their order, closes. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, callable, type Connection, type ConnectionContext, type StateSource } from "agents";
import { makeLatch, TestSocket, useSystems, type Latch, type System } from "./kit.ts";

interface Env {
  readonly latches: Map<string, Latch>;
  readonly log: string[];
}

interface Doc {
  readonly text: string;
}

class DocAgent extends Agent<Env, Doc> {
  override initialState: Doc = { text: "new" };

  override async onConnect(connection: Connection, { request }: ConnectionContext) {
    const latch = this.env.latches.get(this.name);
    await latch?.opened;
    const query = new URL(request.url).searchParams;
    if (query.has("throw")) throw new Error("secret reason");
    if (query.has("reject")) connection.close(4401, "not you");
    if (query.has("greet")) connection.send("welcome");
    this.env.log.push(`connect ${connection.id}`);
  }
  override onMessage(connection: Connection, message: string | ArrayBuffer) {
    this.env.log.push(`message ${typeof message === "string" ? message : "binary"}`);
    if (message === "throw") throw new Error("in onMessage");
    if (message === "all") return this.broadcast("to all");
    if (message === "others") return this.broadcast("to others", [connection.id]);
    if (message === "bytes") return this.broadcast(Uint8Array.from([1, 2, 255]));
    if (message === "bye") return connection.close(4000, "as you wish");
    if (message === "set") return this.setState({ text: "by the server" });
    if (message === "ids")
      return connection.send([...this.getConnections()].map((c) => c.id).join());
    if (message === "tag")
      return connection.send([...this.getConnections("red")].map((c) => c.id).join());
    if (message === "tags") return connection.send(connection.tags.join());
    if (message === "lock") return this.setConnectionReadonly(connection);
    if (message === "unlock") return this.setConnectionReadonly(connection, false);
    if (message instanceof ArrayBuffer)
      return connection.send(new Uint8Array(message).toReversed());
    connection.send(`echo ${message}`);
  }
  override onClose(_connection: Connection, code: number, reason: string, wasClean: boolean) {
    this.env.log.push(`close ${code} ${reason} ${wasClean}`);
  }
  override onError(first: unknown, second?: unknown) {
    this.env.log.push(`error ${String(second ?? first)}`);
    if (this.name === "strict") throw first;
  }
  override validateStateChange(next: Doc, source: StateSource) {
    if (typeof next?.text !== "string") throw new Error("secret rule");
    this.env.log.push(`validate ${source === "server" ? source : source.id}`);
  }
  override onStateChanged(state: Doc, source: StateSource) {
    this.env.log.push(`changed ${state.text} ${source === "server" ? source : source.id}`);
  }
  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.has("readonly");
  }
  override shouldSendProtocolMessages(_connection: Connection, { request }: ConnectionContext) {
    return !new URL(request.url).searchParams.has("silent");
  }
  override async getConnectionTags(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.getAll("tag");
  }

  @callable()
  add(a: number, b: number) {
    return a + b;
  }
  @callable()
  async write(text: string) {
    this.setState({ text });
    return "written";
  }
  @callable()
  async slow() {
    await this.env.latches.get("rpc")?.opened;
    return "slow";
  }
  @callable()
  empty() {}
  @callable()
  fail() {
    throw new Error("out of order");
  }
  @callable()
  failOddly() {
    throw "just text";
  }
  @callable()
  big() {
    return 10n;
  }
  @callable()
  map() {
    return { seen: new Map([[1, 2]]) };
  }
  @callable()
  forgotten() {
    return { when: Promise.resolve(1) };
  }
  notCallable() {}
}

class QuietAgent extends DocAgent {
  static override options = { sendIdentityOnConnect: false };
}
class StatelessAgent extends Agent<Env> {}

const log: string[] = [];
const latches = new Map<string, Latch>();
const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({
    agents: { DocAgent, QuietAgent, StatelessAgent },
    env: { latches, log },
  });
});

const MCP =
  '{"type":"cf_agent_mcp_servers","mcp":{"servers":{},"tools":[],"prompts":[],"resources":[]}}';
const identity = (name: string, stateFollows = true) => ({
  type: "cf_agent_identity",
  name,
  agent: "doc-agent",
  ...(stateFollows ? { stateFollows: true } : {}),
});
const state = (text: string) => ({
  type: "cf_agent_state",
  state: { text },
  seq: expect.any(Number) as number,
});
const open = (path: string) => TestSocket.open(`${system.url}/agents/${path}`);
/** Open, with the three frames of the connect sequence taken away. */
async function opened(path: string): Promise<TestSocket> {
  const socket = await open(path);
  await socket.first(3);
  socket.frames.length = 0;
  return socket;
}
const logged = (socket: TestSocket, line: string) =>
  socket.until(`the agent logs "${line}"`, () => log.includes(line));

describe("connecting", () => {
  test("sends exactly identity, state and MCP servers, in this order", async () => {
    const socket = await open("doc-agent/frames");
    const frames = await socket.first(3);
    expect(JSON.parse(String(frames[0]))).toEqual(identity("frames"));
    expect(JSON.parse(String(frames[1]))).toEqual(state("new"));
    expect(frames[2]).toBe(MCP);
    await socket.close();
  });

  test("sends no state if the agent has none, and the identity says so", async () => {
    const socket = await open("stateless-agent/x");
    const frames = await socket.first(2);
    expect(frames).toEqual([
      '{"type":"cf_agent_identity","name":"x","agent":"stateless-agent"}',
      MCP,
    ]);
    await socket.close();
  });

  test("sets initialState, which other clients and the new one receive once", async () => {
    const first = await open("doc-agent/seeded?silent=1");
    const second = await open("doc-agent/seeded");
    await second.first(3);
    second.send({ type: "rpc", id: "r", method: "empty", args: [] });
    await second.first(4);
    expect(second.states).toEqual([{ text: "new" }]);
    expect(first.frames).toEqual([]);
    expect(log.filter((line) => line === "changed new server")).not.toEqual([]);
    await first.close();
    await second.close();
  });

  test("omits only the identity under sendIdentityOnConnect: false", async () => {
    const socket = await open("quiet-agent/x");
    expect((await socket.first(2)).map((f) => JSON.parse(String(f)))).toEqual([
      state("new"),
      JSON.parse(MCP),
    ]);
    await socket.close();
  });

  test("omits every protocol frame under shouldSendProtocolMessages: false", async () => {
    const silent = await open("doc-agent/silence?silent=1");
    const other = await opened("doc-agent/silence");
    other.send("set");
    await other.until("the state", () => other.states.length === 1);
    other.send("all");
    silent.send({ type: "rpc", id: "1", method: "add", args: [1, 2] });
    await silent.first(2);
    expect(silent.frames.map(String).toSorted()).toEqual(
      ["to all", '{"type":"rpc","id":"1","success":true,"result":3,"done":true}'].toSorted(),
    );
    await silent.close();
    await other.close();
  });

  test("delivers a message that is sent at once after onConnect has finished", async () => {
    const latch = makeLatch();
    latches.set("early", latch);
    log.length = 0;
    const opening = TestSocket.open(`${system.url}/agents/doc-agent/early?_pk=e1`);
    latch.open();
    const socket = await opening;
    socket.send("one");
    await logged(socket, "message one");
    expect(log.filter((l) => /connect|message/.test(l))).toEqual(["connect e1", "message one"]);
    await socket.close();
  });

  test("sends no change before the identity", async () => {
    const latch = makeLatch();
    const writer = await opened("doc-agent/racing");
    latches.set("racing", latch);
    const joining = TestSocket.open(`${system.url}/agents/doc-agent/racing?_pk=joins`);
    const silent = TestSocket.open(`${system.url}/agents/doc-agent/racing?silent=1`);
    // Each write is a commit in flight while the others join.
    for (let i = 0; i < 50; i++) writer.send({ type: "cf_agent_state", state: { text: `w${i}` } });
    latch.open();
    const [socket, mute] = await Promise.all([joining, silent]);
    await socket.until("the last write", () =>
      socket.states.some((s) => (s as Doc).text === "w49"),
    );
    const types = socket.json.map((frame) => (frame as { type: string }).type);
    expect(types[0]).toBe("cf_agent_identity");
    expect(types[1]).toBe("cf_agent_state");
    expect(types[2]).toBe("cf_agent_mcp_servers");
    const numbers = socket.states.map((s) => Number((s as Doc).text.slice(1)) || 0);
    expect(numbers).toEqual([...numbers].toSorted((a, b) => a - b));
    expect(mute.frames).toEqual([]);
    latches.delete("racing");
    for (const each of [writer, socket, mute]) await each.close();
  });

  test("keeps every socket open, however many connect in sequence", async () => {
    for (let i = 0; i < 300; i++) {
      const socket = await open(`stateless-agent/many-${i % 10}`);
      await socket.first(2);
      await socket.close(1000);
      expect(socket.closed).toEqual({ code: 1000, reason: "" });
    }
  });

  test("sends an error frame without the reason and closes with 1011 when onConnect throws", async () => {
    const socket = await open("doc-agent/strict?throw=1");
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.frames.at(-1)).toBe('{"error":"Internal Server Error"}');
    expect(socket.closed).toEqual({
      code: 1011,
      reason: "Uncaught exception during session setup",
    });
    expect(JSON.stringify(socket.frames)).not.toContain("secret");
  });

  test("keeps the socket open if onError suppresses onConnect's error", async () => {
    const socket = await opened("doc-agent/lenient?throw=1");
    socket.send("hello");
    expect(await socket.first(1)).toEqual(["echo hello"]);
    await socket.close();
  });

  test("may be refused by a close in onConnect, which may also send messages", async () => {
    const refused = await open("doc-agent/door?reject=1");
    await refused.until("it is closed", () => refused.closed !== undefined);
    expect(refused.closed).toEqual({ code: 4401, reason: "not you" });
    const greeted = await open("doc-agent/door?greet=1");
    expect((await greeted.first(4))[3]).toBe("welcome");
    await greeted.close();
  });
});

describe("state", () => {
  test("set by a client reaches all others, not its sender; set by the server, all", async () => {
    const [a, b] = [await opened("doc-agent/shared?_pk=a"), await opened("doc-agent/shared?_pk=b")];
    a.send({ type: "cf_agent_state", state: { text: "from a" } });
    expect((await b.first(1)).map((f) => JSON.parse(String(f)))).toEqual([state("from a")]);
    a.send("set");
    await a.first(1);
    await b.first(2);
    expect(a.json).toEqual([state("by the server")]);
    expect(b.json).toEqual([state("from a"), state("by the server")]);
    expect(log).toContain("changed from a a");
    await a.close();
    await b.close();
  });

  test("two sockets of one id both miss the update that one of them sends", async () => {
    const [a, twin, b] = [
      await opened("doc-agent/twins?_pk=same"),
      await opened("doc-agent/twins?_pk=same"),
      await opened("doc-agent/twins?_pk=b"),
    ];
    a.send({ type: "cf_agent_state", state: { text: "x" } });
    await b.first(1);
    b.send("all");
    expect(await twin.first(1)).toEqual(["to all"]);
    for (const each of [a, twin, b]) await each.close();
  });

  test("that the validator rejects is reported to its sender only, without the reason", async () => {
    const [a, b] = [await opened("doc-agent/rules?_pk=a"), await opened("doc-agent/rules?_pk=b")];
    a.send({ type: "cf_agent_state", state: { text: 5 } });
    expect(await a.first(1)).toEqual([
      '{"type":"cf_agent_state_error","error":"State update rejected"}',
    ]);
    a.send({ type: "cf_agent_state", state: null });
    expect((await a.first(2))[1]).toBe(a.frames[0]);
    a.send("all");
    expect(await b.first(1)).toEqual(["to all"]);
    await a.close();
    await b.close();
  });

  test("of a readonly connection is refused with its own text, until it is writable", async () => {
    const socket = await opened("doc-agent/locked?readonly=1");
    const update = { type: "cf_agent_state", state: { text: "mine" } };
    const refused = '{"type":"cf_agent_state_error","error":"Connection is readonly"}';
    socket.send(update);
    expect(await socket.first(1)).toEqual([refused]);
    socket.send({ type: "rpc", id: "w", method: "write", args: ["x"] });
    expect(JSON.parse(String((await socket.first(2))[1]))).toEqual({
      type: "rpc",
      id: "w",
      success: false,
      error: "Connection is readonly",
    });
    socket.send("unlock");
    socket.send({ type: "rpc", id: "w2", method: "write", args: ["x"] });
    expect((await socket.first(4)).slice(2).map((f) => JSON.parse(String(f)))).toEqual([
      state("x"),
      { type: "rpc", id: "w2", success: true, result: "written", done: true },
    ]);
    socket.send("lock");
    socket.send(update);
    expect((await socket.first(5))[4]).toBe(refused);
    await socket.close();
  });
});

describe("messages", () => {
  test("that resemble protocol frames go to onMessage as they are", async () => {
    const socket = await opened("doc-agent/almost");
    const almost = [
      '{"type":"cf_agent_state"}',
      '{"type":"rpc","id":1,"method":"add","args":[1,2]}',
      '{"type":"rpc","id":"1","method":"add","args":null}',
      '{"type":"rpc","id":"1","method":"add"}',
      '{"type":"other"}',
      "null",
      "not json",
      "",
    ];
    for (const message of almost) socket.send(message);
    expect(await socket.first(almost.length)).toEqual(almost.map((message) => `echo ${message}`));
    await socket.close();
  });

  test("that are binary arrive as an ArrayBuffer and may be answered in kind", async () => {
    const socket = await opened("doc-agent/binary");
    socket.send(Uint8Array.from([1, 2, 3, 0, 255]));
    const [frame] = await socket.first(1);
    expect([...(frame as Buffer)]).toEqual([255, 0, 3, 2, 1]);
    socket.send("bytes");
    const frames = await socket.first(2);
    expect([...(frames[1] as Buffer)]).toEqual([1, 2, 255]);
    await socket.close();
  });

  test("of one client reach its agent in the order of sending", async () => {
    const socket = await opened("doc-agent/order");
    const sent = Array.from({ length: 300 }, (_, i) => `m${i}`);
    for (const message of sent) socket.send(message);
    expect(await socket.first(300)).toEqual(sent.map((message) => `echo ${message}`));
    await socket.close();
  });

  test("may be broadcast to all, or to all except some", async () => {
    const [a, b] = [await opened("doc-agent/cast?_pk=a"), await opened("doc-agent/cast?_pk=b")];
    a.send("others");
    a.send("all");
    expect(await b.first(2)).toEqual(["to others", "to all"]);
    expect(await a.first(1)).toEqual(["to all"]);
    await a.close();
    await b.close();
  });

  test("whose handler throws call onError, and the socket stays open", async () => {
    const socket = await opened("doc-agent/throws");
    socket.send("throw");
    socket.send("still here");
    expect(await socket.first(1)).toEqual(["echo still here"]);
    expect(log).toContain("error Error: in onMessage");
    await socket.close();
  });
});

describe("connections", () => {
  test("have the client's id or a generated one, and tags that find them", async () => {
    const red = await opened("doc-agent/tagged?_pk=r&tag=red&tag=warm");
    const blue = await opened("doc-agent/tagged?_pk=b&tag=blue");
    const own = await opened("doc-agent/tagged?_pk=");
    red.send("tags");
    expect(await red.first(1)).toEqual(["r,red,warm"]);
    blue.send("tag");
    expect(await blue.first(1)).toEqual(["r"]);
    own.send("ids");
    const [ids] = await own.first(1);
    expect(String(ids)).toMatch(/^r,b,.+$/);
    for (const each of [red, blue, own]) await each.close();
  });

  test("with more than ten tags are refused", async () => {
    const query = Array.from({ length: 10 }, (_, i) => `tag=${i}`).join("&");
    const socket = await open(`doc-agent/strict?${query}`);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed?.code).toBe(1011);
  });

  test("are closed with the client's code and reason, which onClose receives", async () => {
    const socket = await opened("doc-agent/closing");
    await socket.close(4123, "enough");
    await logged(socket, "close 4123 enough true");
    expect(socket.closed).toEqual({ code: 4123, reason: "enough" });
    const vanished = await opened("doc-agent/closing");
    vanished.socket.terminate();
    await logged(vanished, "close 1006  false");
    const bare = await opened("doc-agent/closing");
    await bare.close();
    await logged(bare, "close 1005  true");
  });

  test("are closed by the agent with its code and reason, and are then gone", async () => {
    const [a, b] = [await opened("doc-agent/leave?_pk=a"), await opened("doc-agent/leave?_pk=b")];
    a.send("bye");
    await a.until("it is closed", () => a.closed !== undefined);
    expect(a.closed).toEqual({ code: 4000, reason: "as you wish" });
    await logged(a, "close 4000 as you wish true");
    b.send("ids");
    expect(await b.first(1)).toEqual(["b"]);
    await b.close();
  });
});

describe("RPC", () => {
  const call = (method: string, args: unknown[] = [], id = method) => ({
    type: "rpc",
    id,
    method,
    args,
  });

  test("answers its caller only, with the result or the error's message", async () => {
    const [socket, other] = [await opened("doc-agent/rpc"), await opened("doc-agent/rpc")];
    for (const method of [
      "empty",
      "fail",
      "failOddly",
      "absent",
      "notCallable",
      "setState",
      "big",
      "map",
      "forgotten",
    ])
      socket.send(call(method));
    socket.send(call("add", [2, 3]));
    const replies = (await socket.first(10)).map((f) => JSON.parse(String(f)) as { id: string });
    expect(Object.fromEntries(replies.map(({ id, ...rest }) => [id, rest]))).toEqual({
      empty: { type: "rpc", success: true, done: true },
      fail: { type: "rpc", success: false, error: "out of order" },
      failOddly: { type: "rpc", success: false, error: "Unknown error occurred" },
      absent: { type: "rpc", success: false, error: "Method absent does not exist" },
      notCallable: { type: "rpc", success: false, error: "Method notCallable is not callable" },
      setState: { type: "rpc", success: false, error: "Method setState is not callable" },
      big: { type: "rpc", success: false, error: expect.stringContaining(".result is a bigint") },
      map: { type: "rpc", success: false, error: expect.stringContaining(".result.seen is a Map") },
      forgotten: {
        type: "rpc",
        success: false,
        error: expect.stringContaining(".result.when is a Promise that is not awaited"),
      },
      add: { type: "rpc", success: true, result: 5, done: true },
    });
    other.send("ids");
    await other.first(1);
    expect(other.frames).toHaveLength(1);
    await socket.close();
    await other.close();
  });

  test("sends a new state to its caller before the reply", async () => {
    const socket = await opened("doc-agent/rpc-state");
    socket.send(call("write", ["later"]));
    expect((await socket.first(2)).map((f) => JSON.parse(String(f)))).toEqual([
      state("later"),
      { type: "rpc", id: "write", success: true, result: "written", done: true },
    ]);
    await socket.close();
  });

  test("lets calls of one socket overlap: a slow one delays no other", async () => {
    const latch = makeLatch();
    latches.set("rpc", latch);
    const socket = await opened("doc-agent/overlap");
    socket.send(call("slow"));
    socket.send(call("add", [1, 1]));
    expect(JSON.parse(String((await socket.first(1))[0]))).toMatchObject({ id: "add", result: 2 });
    latch.open();
    expect(JSON.parse(String((await socket.first(2))[1]))).toMatchObject({ id: "slow" });
    await socket.close();
  });
});
