/** Observability events (`protocol.md` §10): which ones, their fields, order and channel. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  type AgentNamespace,
  type StreamingResponse,
} from "agents";
import {
  genericObservability,
  subscribe,
  type Observability,
  type ObservabilityEvent,
} from "agents/observability";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";

interface Env {
  readonly WatchedAgent: AgentNamespace<WatchedAgent>;
  readonly SilentAgent: AgentNamespace<WatchedAgent>;
  readonly OwnAgent: AgentNamespace<WatchedAgent>;
  readonly log: string[];
}

class WatchedAgent extends Agent<Env, { readonly n: number }> {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 2 } };
  override initialState = { n: 0 };
  override onConnect() {
    this.env.log.push("onConnect");
  }
  override onClose() {
    this.env.log.push("onClose");
  }
  override onStateChanged() {
    this.env.log.push("onStateChanged");
  }
  override onError() {
    this.env.log.push("onError");
  }
  @callable()
  set(n: number) {
    this.setState({ n });
    return n;
  }
  @callable()
  fail() {
    throw new Error("on purpose");
  }
  @callable({ streaming: true })
  tokens(response: StreamingResponse<string>) {
    this.env.log.push("stream runs");
    response.end("x");
  }
  @callable({ streaming: true })
  streamFail() {
    throw new Error("in the stream");
  }
  plain() {
    return 1;
  }
  async jobs() {
    await this.schedule(0, "job", "ok");
    const { id } = await this.schedule(3600, "job");
    await this.cancelSchedule(id);
  }
  fails(how: "queue" | "schedule") {
    return how === "queue" ? this.queue("bad") : this.schedule("bad", { delayInSeconds: 0 });
  }
  job() {}
  bad() {
    throw new Error("bad job");
  }
  end() {
    return this.destroy();
  }
}
class SilentAgent extends WatchedAgent {
  override observability = undefined;
}
const own: ObservabilityEvent[] = [];
class OwnAgent extends WatchedAgent {
  override observability: Observability = {
    emit: (event) => {
      own.push(event);
      throw new Error("a watcher that fails");
    },
  };
}

const systems = useSystems();
const log: string[] = [];
/** Events by channel, in order; each is also in `log`. */
const seen: Array<{ readonly channel: string; readonly event: ObservabilityEvent }> = [];
const stops: Array<() => void> = [];
let system: System;

beforeAll(async () => {
  system = await systems.start({ agents: { WatchedAgent, SilentAgent, OwnAgent }, env: { log } });
  for (const channel of ["state", "rpc", "schedule", "lifecycle"] as const)
    stops.push(
      subscribe(channel, (event) => {
        seen.push({ channel, event });
        log.push(event.type);
      }),
    );
});
afterAll(async () => {
  for (const stop of stops) stop();
  await system.stop();
});
beforeEach(() => {
  seen.length = log.length = 0;
});

const env = () => system.gateway.env as unknown as Env;
const watched = (name: string) => getAgentByName(env().WatchedAgent, name);
const events = () => seen.map(({ channel, event }) => [channel, event.type, event.payload]);
const untilLogged = (line: string, count = 1) =>
  pollUntil(`${count} of ${line}`, () => {
    const times = log.filter((each) => each === line).length;
    return times >= count ? { done: true, value: true } : { done: false, saw: log };
  });
async function open(name: string, query = ""): Promise<TestSocket> {
  const socket = await TestSocket.open(`${system.url}/agents/watched-agent/${name}?_pk=c${query}`);
  await untilLogged("onConnect");
  return socket;
}
const call = (method: string, ...args: unknown[]) => ({ type: "rpc", id: method, method, args });

describe("watchers receive", () => {
  test("each connection before onConnect and when it closes, with its details", async () => {
    const socket = await open("life");
    await socket.close(4321, "bye");
    await untilLogged("onClose");
    expect(events().filter(([channel]) => channel === "lifecycle")).toEqual([
      ["lifecycle", "connect", { connectionId: "c" }],
      ["lifecycle", "disconnect", { connectionId: "c", code: 4321, reason: "bye" }],
    ]);
    expect(log.indexOf("connect")).toBeLessThan(log.indexOf("onConnect"));
    const { event } = seen[0]!;
    expect(event).toMatchObject({ agent: "WatchedAgent", name: "life" });
    expect(Math.abs(event.timestamp - Date.now())).toBeLessThan(60_000);
  });

  test("clients' calls: each stream before it runs, each other call after it succeeds, each failure", async () => {
    const socket = await open("calls");
    seen.length = 0;
    for (const method of ["set", "fail", "tokens", "streamFail", "missing"]) {
      socket.send(method === "set" ? call("set", 5) : call(method));
      await socket.until(`the reply to ${method}`, () =>
        socket.frames.some((frame) => String(frame).includes(`"id":"${method}"`)),
      );
    }
    await socket.close();
    await untilLogged("onClose");
    expect(events().filter(([channel]) => channel === "rpc")).toEqual([
      ["rpc", "rpc", { method: "set" }],
      ["rpc", "rpc:error", { method: "fail", error: "on purpose" }],
      ["rpc", "rpc", { method: "tokens", streaming: true }],
      ["rpc", "rpc", { method: "streamFail", streaming: true }],
      ["rpc", "rpc:error", { method: "streamFail", error: "in the stream" }],
      ["rpc", "rpc:error", { method: "missing", error: "Method missing does not exist" }],
    ]);
    expect(log.lastIndexOf("rpc", log.indexOf("stream runs"))).toBeGreaterThan(-1);
  });

  test("each state change before onStateChanged; stubs' calls don't count as clients' calls", async () => {
    const agent = await watched("states");
    expect(await agent.plain()).toBe(1);
    await agent.set(1);
    await untilLogged("onStateChanged");
    expect(events()).toEqual([["state", "state:update", {}]]);
    expect(log).toEqual(["state:update", "onStateChanged"]);
  });

  test("schedules as they are created, run and cancelled", async () => {
    await (await watched("schedules")).jobs();
    await untilLogged("schedule:execute");
    expect(log.toSorted()).toEqual([
      "schedule:cancel",
      "schedule:create",
      "schedule:create",
      "schedule:execute",
    ]);
    for (const [channel, , payload] of events()) {
      expect(channel).toBe("schedule");
      expect(payload).toEqual({ callback: "job", id: expect.any(String) });
    }
  });

  test.each(["queue", "schedule"] as const)(
    "a failing job of the %s: each retry, and the final failure once",
    async (how) => {
      await (await watched(`failing-${how}`)).fails(how);
      await untilLogged("onError");
      const job = { callback: "bad", id: expect.any(String) as string };
      const told = events().filter(([, type]) => type !== "schedule:execute");
      expect(told).toEqual([
        ["schedule", `${how}:create`, job],
        ["schedule", `${how}:retry`, { ...job, attempt: 2, maxAttempts: 2 }],
        ["schedule", `${how}:error`, { ...job, attempts: 2, error: "bad job" }],
      ]);
    },
  );

  test("the destruction of an agent", async () => {
    await (await watched("ending")).end();
    expect(events()).toEqual([["lifecycle", "destroy", {}]]);
  });
});

test("observability = undefined disables events", async () => {
  await (await getAgentByName(env().SilentAgent, "s")).set(1);
  await untilLogged("onStateChanged");
  expect(seen).toEqual([]);
});

test("a class's own observability receives its events, and an error that it throws has no effect", async () => {
  const agent = await getAgentByName(env().OwnAgent, "o");
  expect(await agent.set(7)).toBe(7);
  await untilLogged("onStateChanged");
  expect(own).toMatchObject([{ type: "state:update", agent: "OwnAgent", name: "o" }]);
  expect(seen).toEqual([]);
});

describe("subscribe", () => {
  const event = (type: string): ObservabilityEvent => ({
    type,
    agent: "A",
    name: "n",
    payload: {},
    timestamp: 0,
  });
  test.each([
    ["state:update", "state"],
    ["rpc", "rpc"],
    ["rpc:error", "rpc"],
    ["schedule:execute", "schedule"],
    ["queue:error", "schedule"],
    ["connect", "lifecycle"],
    ["destroy", "lifecycle"],
    ["job:slow_dispatch", "lifecycle"],
    ["workflow:start", "workflow"],
    ["email:reply", "email"],
    ["mcp:client:connect", "mcp"],
  ] as const)("receives %s on the channel %s until it is stopped", (type, channel) => {
    const got: string[] = [];
    const stop = subscribe(channel, (each) => got.push(each.type));
    genericObservability.emit(event(type));
    stop();
    stop();
    genericObservability.emit(event(type));
    expect(got).toEqual([type]);
  });
});
