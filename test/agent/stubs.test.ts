/** Methods called by stubs: from a module's `fetch`, between agents, across hosts. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  getCurrentAgent,
  routeAgentRequest,
  type AgentNamespace,
  type StreamingResponse,
} from "agents";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { journalOf, makeLatch, TestSocket, useSystems, type Latch } from "../system/kit.ts";

interface Env {
  readonly CountAgent: AgentNamespace<CountAgent>;
  readonly OtherAgent: AgentNamespace<OtherAgent>;
  readonly log: string[];
  readonly latches: Map<string, Latch>;
}

class OutOfStock extends Error {
  override readonly name = "OutOfStock";
}

class BaseAgent<S = unknown> extends Agent<Env, S> {
  @callable({ description: "from the parent" })
  inherited() {
    return "inherited";
  }
  @callable()
  overridden() {
    return "not this one";
  }
}

class CountAgent extends BaseAgent<{ readonly n: number }> {
  override initialState = { n: 0 };
  started = false;
  field = () => "a function in a field";

  override async onStart() {
    await Promise.resolve();
    this.started = true;
  }
  get computed() {
    this.env.log.push("the getter ran");
    return () => "computed";
  }
  add(by = 1, note?: string) {
    this.setState({ n: this.state.n + by });
    return { n: this.state.n, started: this.started, note };
  }
  echo(...values: unknown[]): unknown {
    return { values, count: values.length };
  }
  nothing() {}
  giveNull() {
    return null;
  }
  /** Takes a request, as `onRequest` does. */
  async handle(request: Request): Promise<Response> {
    const text = await request.text();
    if (text === "fail") throw new OutOfStock("nothing left");
    const said = `${request.method} ${new URL(request.url).pathname} ${request.headers.get("x-a")} ${text}`;
    const pieces = [said, " and", " more"];
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        const piece = pieces.shift();
        await new Promise((resolve) => setTimeout(resolve, 1));
        if (piece === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(piece));
      },
    });
    this.setState({ n: this.state.n + 1 });
    return new Response(body, { status: 201, headers: { "x-b": "2" } });
  }
  async measure(request: Request): Promise<{ readonly length: number }> {
    return { length: (await request.arrayBuffer()).byteLength };
  }
  give(what: string): unknown {
    const things: Record<string, unknown> = {
      bigint: { at: [1n] },
      function: { deep: { f: () => 1 } },
      map: new Map(),
      date: new Date(0),
      bytes: new Uint8Array(1),
    };
    return things[what];
  }
  fail(how: string): never {
    if (how === "own")
      throw new OutOfStock("nothing left", {
        cause: new TypeError("the shelf", { cause: { shelf: 7 } }),
      });
    if (how === "range") throw new RangeError("too far");
    if (how === "text") throw "just text"; // eslint-disable-line
    throw { code: 7 }; // eslint-disable-line
  }
  _hidden() {
    return "hidden";
  }
  #secret() {
    return "secret";
  }
  @callable()
  secret() {
    return this.#secret();
  }
  override overridden() {
    return "an override that is not marked";
  }
  @callable({ streaming: true, description: "counts" })
  counted(response: StreamingResponse<number>) {
    response.end();
  }
  /** Calls another agent, and returns the context on both sides and afterwards. */
  async ask(name: string) {
    const before = getCurrentAgent();
    const there = await (await getAgentByName(this.env.OtherAgent, name)).where();
    const after = getCurrentAgent();
    return {
      there,
      before: `${before.agent?.name} ${before.connection?.id}`,
      after: `${after.agent?.name} ${after.connection?.id}`,
    };
  }
  @callable()
  askAsClient(name: string) {
    return this.ask(name);
  }
  async failThere() {
    try {
      await this.env.OtherAgent.getByName("b").fail();
    } catch (error) {
      return { type: (error as Error).constructor.name, message: (error as Error).message };
    }
    return "no error";
  }
  /** Writes, and then calls another agent, which reads this one's state from the journal. */
  async writeAndTell() {
    this.setState({ n: 41 });
    return this.env.OtherAgent.getByName("witness").lookAt(this.name);
  }
}

class OtherAgent extends Agent<Env, { readonly seen?: unknown }> {
  where() {
    const { agent, connection, request } = getCurrentAgent();
    return `${agent?.name} ${String(connection?.id)} ${String(request?.url)}`;
  }
  fail() {
    throw new TypeError("from there");
  }
  async lookAt(name: string) {
    await this.env.latches.get("witness")?.opened;
    this.env.log.push(`told by ${name}`);
    return "told";
  }
}

const systems = useSystems();
const log: string[] = [];
const latches = new Map<string, Latch>();
let options: ReturnType<typeof systems.options>;
let hosts: Awaited<ReturnType<typeof startTestHost>>[] = [];
let gateway: Awaited<ReturnType<typeof startTestGateway>>;
let env: Env;

beforeAll(async () => {
  options = systems.options({
    agents: { CountAgent, OtherAgent },
    env: { log, latches },
    fetch: async (request, given) => {
      const routed = await routeAgentRequest(request, given);
      if (routed !== null) return routed;
      const name = new URL(request.url).searchParams.get("name")!;
      const stub = await getAgentByName((given as unknown as Env).CountAgent, name);
      return Response.json(await stub.add(2));
    },
  });
  hosts = [await startTestHost(options, "host-a"), await startTestHost(options, "host-b")];
  gateway = await startTestGateway(options, "gateway-a");
  env = gateway.env as unknown as Env;
  await pollUntil("the shards are shared", () => {
    const owned = hosts.map(({ host }) => host.shardsOwned.length);
    return owned.join() === "2,2" ? { done: true, value: true } : { done: false, saw: owned };
  });
});
afterAll(async () => {
  await gateway.stop();
  for (const host of hosts) await host.stop();
});

/** A name whose agent lives on another host than `of`'s. */
function elsewhere(className: string, of: readonly [string, string]): string {
  const ownerOf = (c: string, n: string) =>
    hosts.findIndex(({ host }) => host.shardsOwned.includes(shardOf(agentId(c, n), 4)));
  for (let i = 0; ; i++)
    if (ownerOf(className, `there-${i}`) !== ownerOf(...of)) return `there-${i}`;
}
const stub = (name: string) => getAgentByName(env.CountAgent, name);
const thrownBy = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error("it did not reject"),
    (error: Error) => error,
  );

describe("a stub's method", () => {
  test("runs on a started agent, from a module's fetch", async () => {
    const response = await fetch(`${gateway.url}/anything?name=from-fetch`);
    expect(await response.json()).toEqual({ n: 2, started: true });
    expect(await (await fetch(`${gateway.url}/anything?name=from-fetch`)).json()).toMatchObject({
      n: 4,
    });
  });

  test("runs on another agent's host, in that agent's context; then the caller's context is restored", async () => {
    const there = elsewhere("OtherAgent", ["CountAgent", "asker"]);
    expect(await (await stub("asker")).ask(there)).toEqual({
      there: `${there} undefined undefined`,
      before: "asker undefined",
      after: "asker undefined",
    });
  });

  test("does not see the connection of the caller's client, which the caller keeps", async () => {
    const socket = await TestSocket.open(`${gateway.url}/agents/count-agent/asked?_pk=me`);
    socket.send({ type: "rpc", id: "1", method: "askAsClient", args: ["other"] });
    await socket.until("the reply", () => JSON.stringify(socket.json.at(-1)).includes('"id":"1"'));
    expect(socket.json.at(-1)).toMatchObject({
      result: { there: "other undefined undefined", before: "asked me", after: "asked me" },
    });
    await socket.close();
  });

  test("uses a parameter's default for a missing or trailing undefined argument; undefined before others is null", async () => {
    const agent = await stub("arguments");
    expect(await agent.add()).toMatchObject({ n: 1 });
    expect(await agent.add(undefined)).toMatchObject({ n: 2 });
    expect(await agent.echo(1, undefined, 3, undefined)).toEqual({
      values: [1, null, 3],
      count: 3,
    });
  });

  test("takes and returns JSON: a Date is its ISO text, undefined in an object is omitted", async () => {
    const agent = await stub("json");
    expect(await agent.echo(new Date(0), { a: undefined, b: [undefined] })).toEqual({
      values: ["1970-01-01T00:00:00.000Z", { b: [null] }],
      count: 2,
    });
    expect(await agent.give("date")).toBe("1970-01-01T00:00:00.000Z");
    expect(await agent.nothing()).toBeUndefined();
    expect(await agent.giveNull()).toBeNull();
  });

  test.each([
    ["a bigint", 1n, "argument 1 of echo is a bigint, which JSON can't represent"],
    ["a function", { deep: [() => 1] }, "argument 1 of echo: .deep[0] is a function"],
    ["a Map", { when: new Map() }, "argument 1 of echo: .when is of type Map"],
    ["bytes", new Uint8Array(2), "argument 1 of echo is of type Uint8Array"],
    ["a symbol", Symbol("x"), "argument 1 of echo is a symbol"],
  ])("rejects %s as an argument, and says where it is", async (_what, value, message) => {
    const error = await thrownBy((await stub("refusing")).echo(value));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(message);
  });

  test("rejects a stub anywhere in its arguments, since JSON would make it {}", async () => {
    const agent = await stub("refusing");
    const error = await thrownBy(agent.echo(1, { room: [agent] }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toBe(
      "argument 2 of echo: .room[0]: a stub of CountAgent/refusing can't be stored, or sent as JSON: pass the name, and get a stub where it is needed",
    );
    expect(() => JSON.stringify({ agent })).toThrow("a stub of CountAgent/refusing");
  });

  test("rejects a cycle", async () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = { cycle };
    const error = await thrownBy((await stub("refusing")).echo(cycle));
    expect(error.message).toContain(".self.cycle is part of itself");
  });

  test.each([
    ["bigint", "the result of give: .at[0] is a bigint"],
    ["function", "the result of give: .deep.f is a function"],
    ["map", "the result of give is of type Map"],
    ["bytes", "the result of give is of type Uint8Array"],
  ])("that returns a %s rejects and names where it is", async (what, message) => {
    const error = await thrownBy((await stub("giving")).give(what));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(message);
  });
});

describe("a stub's method that takes a request", () => {
  const request = (body: string | Uint8Array<ArrayBuffer>) =>
    new Request("http://x/path", { method: "PUT", headers: { "x-a": "1" }, body });

  test("receives it whole, and the response is streamed back", async () => {
    const agent = await stub("requests");
    const response = await agent.handle(request("body"));
    expect([response.status, response.headers.get("x-b")]).toEqual([201, "2"]);
    expect(await response.text()).toBe("PUT /path 1 body and more");
    expect(await agent.add(0)).toMatchObject({ n: 1 });
  });

  test("may return any other value, even for a body past the broker's payload limit", async () => {
    const bytes = new Uint8Array(3_000_000);
    expect(await (await stub("requests")).measure(request(bytes))).toEqual({ length: 3_000_000 });
  });

  test("rejects at its caller, and is refused if it is not callable", async () => {
    const agent = await stub("requests");
    expect(await thrownBy(agent.handle(request("fail")))).toMatchObject({ name: "OutOfStock" });
    const closed = agent as unknown as { onRequest(given: Request): Promise<unknown> };
    expect((await thrownBy(closed.onRequest(request("")))).message).toMatch(/not callable/);
  });
});

describe("an error that a method throws", () => {
  test("arrives with name, message and the chain of its causes", async () => {
    const error = await thrownBy((await stub("failing")).fail("own"));
    expect([error.name, error.message]).toEqual(["OutOfStock", "nothing left"]);
    expect(error.cause).toBeInstanceOf(TypeError);
    expect((error.cause as Error).message).toBe("the shelf");
    expect((error.cause as Error).cause).toEqual({ shelf: 7 });
    expect(error.stack).not.toContain("CountAgent.fail");
  });
  test("is an instance of the platform's class if it was thrown as one", async () => {
    expect(await thrownBy((await stub("failing")).fail("range"))).toBeInstanceOf(RangeError);
  });
  test("may be a plain value, which becomes the cause", async () => {
    const text = await thrownBy((await stub("failing")).fail("text"));
    expect([text.message, text.cause]).toEqual(["just text", "just text"]);
    const object = await thrownBy((await stub("failing")).fail("object"));
    expect([object.message, object.cause]).toEqual(['{"code":7}', { code: 7 }]);
  });
  test("can be caught by the calling agent", async () => {
    expect(await (await stub("catching")).failThere()).toEqual({
      type: "TypeError",
      message: "from there",
    });
  });
});

describe("what a stub can't call", () => {
  test.each([
    ["sql", "is not callable"],
    ["schedule", "is not callable"],
    ["onRequest", "is not callable"],
    ["toString", "is not callable"],
    ["_hidden", "does not exist"],
    ["nowhere", "does not exist"],
    ["state", "does not exist"],
    ["field", "does not exist"],
    ["computed", "does not exist"],
  ])("%s %s", async (method, text) => {
    const agent = (await stub("closed")) as unknown as Record<string, () => Promise<unknown>>;
    const error = await thrownBy(agent[method]!());
    expect(error.message).toBe(`Method ${method} ${text}`);
    expect(log).not.toContain("the getter ran");
  });
});

describe("an agent's own calls", () => {
  test("are sent after the caller's earlier writes are stored", async () => {
    latches.set("witness", makeLatch());
    const told = (await stub("teller")).writeAndTell();
    await pollUntil("the write is in the journal while the call is out", async () => {
      const events = await journalOf(options, "CountAgent", "teller");
      return JSON.stringify(events).includes('{"set":{"n":41}}');
    });
    expect(log).not.toContain("told by teller");
    latches.get("witness")!.open();
    expect(await told).toBe("told");
    latches.delete("witness");
  });
});

test("getCallableMethods lists marked methods, inherited ones too, unless an unmarked override hides them", async () => {
  const agent = Object.create(CountAgent.prototype) as CountAgent;
  expect(Object.fromEntries(agent.getCallableMethods())).toEqual({
    secret: {},
    counted: { streaming: true, description: "counts" },
    askAsClient: {},
    inherited: { description: "from the parent" },
  });
});
