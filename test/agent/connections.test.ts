/** Connections as an agent's code sees them: readonly ones, ids, tags, state, and closing. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  Connection,
  getAgentByName,
  type AgentNamespace,
  type ConnectionContext,
} from "agents";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, TestSocket, useSystems, type System } from "../system/kit.ts";

interface Env {
  readonly RoomAgent: AgentNamespace<RoomAgent>;
  readonly log: string[];
}
interface State {
  readonly text: string;
}
type Marks = { readonly visits: number };

class RoomAgent extends Agent<Env, State> {
  override initialState = { text: "new" };

  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.has("readonly");
  }
  override shouldSendProtocolMessages(_connection: Connection, { request }: ConnectionContext) {
    return !new URL(request.url).searchParams.has("silent");
  }
  override getConnectionTags(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.getAll("tag");
  }
  #write(text: string): string {
    try {
      this.setState({ text });
      return "written";
    } catch (error) {
      return (error as Error).message;
    }
  }
  override async onMessage(connection: Connection<Marks>, message: string) {
    if (message === "set") connection.send(this.#write("by onMessage"));
    if (message === "set later") {
      await new Promise((resolve) => setImmediate(resolve));
      await this.ctx.storage.sync();
      connection.send(this.#write("by onMessage, later"));
    }
    if (message === "visit") {
      const marks = connection.setState((before) => ({ visits: (before?.visits ?? 0) + 1 }));
      connection.send(JSON.stringify([marks, connection.state]));
    }
    if (message.startsWith("close")) this.#close(connection, message);
  }
  #close(connection: Connection, message: string) {
    const [, code, text] = message.split("|");
    // As JavaScript passes it.
    const reason = text === "a number" ? (5 as unknown as string) : text;
    try {
      const before = connection.readyState === connection.OPEN;
      connection.close(Number(code), reason);
      this.env.log.push(`${before} ${connection.readyState === Connection.CLOSING}`);
      connection.send("never sent");
      connection.close(4000, "a second close does nothing");
    } catch (error) {
      connection.send(`${(error as Error).name}: ${(error as Error).message}`);
    }
  }
  override onClose(connection: Connection, code: number, reason: string) {
    this.env.log.push(`closed ${code} ${reason} ${connection.readyState === Connection.CLOSED}`);
  }
  override onError(...args: unknown[]) {
    const error = args.at(-1) as Error;
    if (args.length === 1) throw error;
    this.env.log.push(`${(args[0] as Connection).id} ${error.name}: ${error.message}`);
  }
  override onRequest() {
    return new Response(this.#write("by HTTP"));
  }
  @callable()
  write(text: string) {
    return this.#write(text);
  }
  @callable()
  later() {
    return Promise.all([this.queue("job", "queue"), this.schedule(0, "job", "schedule")]);
  }
  job(where: string) {
    this.env.log.push(`${where} ${this.#write(`by ${where}`)}`);
  }
  flip(id: string, readonly: boolean) {
    const connection = this.getConnection(id)!;
    this.setConnectionReadonly(connection, readonly);
    return this.isConnectionReadonly(connection);
  }
  flipNobody() {
    this.setConnectionReadonly(this.getConnection("nobody")!);
  }
  find(id: string) {
    const connection = this.getConnection(id);
    return connection === undefined ? "none" : { id: connection.id, tags: connection.tags };
  }
  tagged(tag: string) {
    return [...this.getConnections(tag)].map(({ id }) => id);
  }
  protocol() {
    return Object.fromEntries(
      [...this.getConnections()].map((c) => [c.id, this.isConnectionProtocolEnabled(c)]),
    );
  }
  url(id: string) {
    const { url, uri } = this.getConnection(id)!;
    return { url, uri };
  }
}

const systems = useSystems();
const log: string[] = [];
let system: System & { readonly options: Parameters<typeof journalOf>[0] };
beforeAll(async () => {
  system = await systems.start({ agents: { RoomAgent }, env: { log } });
});
afterAll(() => system.stop());

const room = (name: string) =>
  getAgentByName((system.gateway.env as unknown as Env).RoomAgent, name);
/** An open socket that has had its protocol frames. */
async function open(path: string, frames = 3): Promise<TestSocket> {
  const socket = await TestSocket.open(`${system.url}/agents/room-agent/${path}`);
  await socket.first(frames);
  socket.frames.length = 0;
  return socket;
}
const call = (method: string, ...args: unknown[]) => ({ type: "rpc", id: method, method, args });
const results = (socket: TestSocket): unknown[] =>
  socket.frames
    .filter((frame) => String(frame).includes('"rpc"'))
    .map((frame) => (JSON.parse(String(frame)) as { result: unknown }).result);

describe("a readonly connection", () => {
  test("can't write the state from its frame, callable or onMessage, nor after awaits", async () => {
    const socket = await open("locked?readonly");
    socket.send({ type: "cf_agent_state", state: { text: "by frame" } });
    socket.send(call("write", "by callable"));
    socket.send("set");
    socket.send("set later");
    await socket.first(4);
    expect(socket.frames.map(String).toSorted()).toEqual([
      "Connection is readonly",
      "Connection is readonly",
      '{"type":"cf_agent_state_error","error":"Connection is readonly"}',
      '{"type":"rpc","id":"write","success":true,"result":"Connection is readonly","done":true}',
    ]);
    await socket.close();
  });

  test("does not restrict HTTP or queued and scheduled work, and receives every change", async () => {
    const socket = await open("jobs?readonly");
    expect(await (await fetch(`${system.url}/agents/room-agent/jobs`)).text()).toBe("written");
    socket.send(call("later"));
    await pollUntil("both ran", () => log.filter((line) => line.includes("written")).length === 2);
    expect(log.filter((line) => line.includes("written")).toSorted()).toEqual([
      "queue written",
      "schedule written",
    ]);
    await socket.until("three states", () => socket.frames.length >= 4);
    const texts = socket.json.flatMap((frame) => (frame as { state?: State }).state?.text ?? []);
    expect(texts.toSorted()).toEqual(["by HTTP", "by queue", "by schedule"]);
    await socket.close();
  });

  test("may be made writable and readonly again while it is open", async () => {
    const socket = await open("flip?readonly&_pk=me");
    const agent = await room("flip");
    expect(await agent.flip("me", false)).toBe(false);
    await expect(agent.flipNobody()).rejects.toThrow("not a connection: pass what onConnect");
    socket.send(call("write", "now"));
    await socket.until("written", () => results(socket).length === 1);
    expect(await agent.flip("me", true)).toBe(true);
    socket.send(call("write", "not any more"));
    await socket.until("refused", () => results(socket).length === 2);
    expect(results(socket)).toEqual(["written", "Connection is readonly"]);
    await socket.close();
  });
});

describe("connections", () => {
  test("are found by id: an unknown id returns undefined, an ambiguous one throws", async () => {
    const [a, b] = [await open("ids?_pk=twin"), await open("ids?_pk=single")];
    const agent = await room("ids");
    expect(await agent.find("single")).toEqual({ id: "single", tags: ["single"] });
    expect(await agent.find("nobody")).toBe("none");
    const c = await open("ids?_pk=twin");
    await expect(agent.find("twin")).rejects.toThrow('More than one connection has the id "twin"');
    await c.close();
    await pollUntil("one of them is left", async () => (await agent.tagged("twin")).length === 1);
    expect(await agent.find("twin")).toMatchObject({ id: "twin" });
    await Promise.all([a.close(), b.close()]);
  });

  test.each([
    ["nine of one's own", Array.from({ length: 9 }, (_, i) => `t${i}`), undefined],
    ["ten of one's own", Array.from({ length: 10 }, (_, i) => `t${i}`), 1011],
    ["256 characters", ["x".repeat(256)], undefined],
    ["257 characters", ["x".repeat(257)], 1011],
    ["an empty one", [""], 1011],
  ])("with tags: %s", async (_what, tags, code) => {
    const query = tags.map((tag) => `tag=${tag}`).join("&");
    const socket = await TestSocket.open(`${system.url}/agents/room-agent/tags?${query}&_pk=t`);
    if (code === undefined) {
      expect(await (await room("tags")).tagged(tags[0]!)).toEqual(["t"]);
      await socket.close();
      await pollUntil(
        "it is gone",
        async () => (await (await room("tags")).tagged("t")).length === 0,
      );
    } else {
      await socket.until("it is closed", () => socket.closed !== undefined);
      expect(socket.closed).toEqual({ code, reason: "Uncaught exception during session setup" });
    }
  });

  test("have their own state, set to a value or by a function of the previous one", async () => {
    const socket = await open("own-state");
    socket.send("visit");
    socket.send("visit");
    expect((await socket.first(2)).map((frame) => JSON.parse(String(frame)) as unknown)).toEqual([
      [{ visits: 1 }, { visits: 1 }],
      [{ visits: 2 }, { visits: 2 }],
    ]);
    await socket.close();
  });

  test("report whether they take part in the protocol, and where they were opened", async () => {
    const [a, b] = [await open("who?_pk=a&x=1"), await open("who?_pk=b&silent", 0)];
    const agent = await room("who");
    expect(await agent.protocol()).toEqual({ a: true, b: false });
    const { url, uri } = await agent.url("a");
    expect([new URL(uri).search, url]).toEqual(["?_pk=a&x=1", uri]);
    await Promise.all([a.close(), b.close()]);
  });
});

describe("close", () => {
  test.each([1000, 1001, 1008, 1011, 3000, 4001, 4999])(
    "with code %i reaches the client with its reason, after which nothing is sent",
    async (code) => {
      log.length = 0;
      const socket = await open(`closing-${code}`);
      socket.send(`close|${code}|enough`);
      await socket.until("it is closed", () => socket.closed !== undefined);
      expect(socket.closed).toEqual({ code, reason: "enough" });
      expect(socket.frames).toEqual([]);
      const closed = `closed ${code} enough true`;
      await pollUntil("onClose ran", () => log.includes(closed) || { done: false, saw: log });
      // Sockets of the tests before may still be closing.
      expect(log.filter((line) => line === "true true" || line === closed)).toEqual([
        "true true",
        closed,
      ]);
    },
  );
  test("with a reason that is not a string closes with it as text", async () => {
    const socket = await open("closing-number");
    socket.send("close|4000|a number");
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed).toEqual({ code: 4000, reason: "5" });
  });
  test.each([
    ["999|x", "RangeError: A close code must be 1000-4999"],
    ["1005|x", "RangeError: A close code must be"],
    ["1006|x", "RangeError: A close code must be"],
    ["5000|x", "RangeError: A close code must be"],
    [`4000|${"ž".repeat(62)}`, "RangeError: A close reason has at most 123 bytes"],
  ])("with an invalid frame throws, and the socket stays open", async (how, text) => {
    const socket = await open("unclosable");
    socket.send(`close|${how}`);
    expect(String((await socket.first(1))[0])).toContain(text);
    await socket.close();
  });
});

describe("a connection that the server closes for a protocol violation", () => {
  const TOO_LARGE_BYTES = 5 * 1024 * 1024;

  test("calls onError(connection, error), then onClose; one that vanishes calls only onClose", async () => {
    log.length = 0;
    const socket = await open("failing?_pk=large");
    // Its peer closes while this is still being written: that error is expected.
    socket.socket.on("error", () => undefined);
    socket.socket.send("x".repeat(TOO_LARGE_BYTES));
    const ended = "closed 1009 Message too large true";
    await pollUntil("onClose ran", () => log.includes(ended) || { done: false, saw: log });
    // Sockets of the tests before may still be closing.
    expect(log.splice(0).filter((line) => line.includes("1009"))).toEqual([
      "large ConnectionFailed: The connection was closed with 1009: Message too large",
      ended,
    ]);
    const vanished = await open("failing?_pk=gone");
    vanished.socket.terminate();
    const gone = "closed 1006  true";
    await pollUntil("onClose ran again", () => log.includes(gone) || { done: false, saw: log });
    expect(log.filter((line) => line.includes("ConnectionFailed"))).toEqual([]);
  });
});

describe("a state frame", () => {
  test("carries the journal sequence of its change, on connect and on a change", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/room-agent/seq`);
    await socket.first(3);
    await (await room("seq")).write("second");
    await socket.first(4);
    const seqs = socket.json.flatMap((frame) => (frame as { seq?: number }).seq ?? []);
    const again = await TestSocket.open(`${system.url}/agents/room-agent/seq`);
    await again.first(3);
    expect(again.states).toEqual([{ text: "second" }]);
    const [first, second] = seqs as [number, number];
    expect(second).toBeGreaterThan(first);
    const current = again.json.flatMap((frame) => (frame as { seq?: number }).seq ?? []);
    expect(current).toEqual([second]);
    await Promise.all([socket.close(), again.close()]);
  });
});

test("the constants of WebSocket are on the class and on each connection", () => {
  expect([Connection.CONNECTING, Connection.OPEN, Connection.CLOSING, Connection.CLOSED]).toEqual([
    0, 1, 2, 3,
  ]);
});
