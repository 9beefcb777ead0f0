/** Hooks, errors and options of an agent class, and what keeps an agent in memory. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  Agent,
  callable,
  DEFAULT_AGENT_STATIC_OPTIONS,
  getAgentByName,
  getCurrentAgent,
  type AgentNamespace,
  type ConnectionContext,
  type Connection,
  type StateSource,
} from "agents";
import { testAgents } from "agents/testing";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { makeLatch, TestSocket, useSystems, type Latch } from "../system/kit.ts";

interface Env {
  readonly HookAgent: AgentNamespace<HookAgent>;
  readonly LoudAgent: AgentNamespace<HookAgent>;
  readonly OldAgent: AgentNamespace<OldAgent>;
  readonly NewerAgent: AgentNamespace<OldAgent>;
  readonly BothAgent: AgentNamespace<OldAgent>;
  readonly KeptAgent: AgentNamespace<KeptAgent>;
  readonly log: string[];
  readonly latches: Map<string, Latch>;
}
type State = { readonly n: number };

/** Its `onError` suppresses. */
class HookAgent extends Agent<Env, State> {
  static override options = {
    retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 2 },
    // Short, so that an agent that is activated late, by the close of a test's socket, does not
    // count for long.
    hibernateAfterSeconds: 1,
  };
  override validateStateChange(next: State, source: StateSource) {
    this.env.log.push(`validate ${next.n} ${source === "server" ? source : source.id}`);
    if (next.n < 0) throw new RangeError("below zero");
  }
  override async onStateChanged(state: State, source: StateSource) {
    await Promise.resolve();
    const { connection } = getCurrentAgent();
    this.env.log.push(
      `changed ${state.n} ${source === "server" ? source : source.id} ${connection?.id ?? "-"}`,
    );
    if (state.n === 13) throw new Error("unlucky");
  }
  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    if (request.url.includes("undecided")) throw new Error("undecided");
    return false;
  }
  override onMessage(_connection: Connection, message: string) {
    throw new Error(`message ${message}`);
  }
  override onRequest(): Response {
    throw new Error("a request");
  }
  override onError(...args: unknown[]) {
    this.env.log.push(`onError/${args.length} ${(args.at(-1) as Error).message}`);
  }
  set(n: number) {
    this.setState({ n });
    return this.state.n;
  }
  @callable()
  setByClient(n: number) {
    return this.set(n);
  }
  get() {
    return this.state as State | undefined;
  }
  failLater(how: string) {
    return how === "queue" ? this.queue("bad") : this.schedule("bad", { delayInSeconds: 0 });
  }
  bad() {
    throw new Error("a job");
  }
}
/** Its `onError` is the default, which throws the error on. */
class LoudAgent extends HookAgent {
  override onError(error: unknown) {
    this.env.log.push(`loud ${(error as Error).message}`);
    throw error;
  }
}

class OldAgent extends Agent<Env, State> {
  static override options = { hibernateAfterSeconds: 1 };
  override onStateUpdate(state: State, source: StateSource) {
    this.env.log.push(`old ${state.n} ${String(source)}`);
  }
  set(n: number) {
    this.setState({ n });
  }
}
class NewerAgent extends OldAgent {
  override onStateChanged(state: State) {
    this.env.log.push(`newer ${state.n}`);
  }
}
class BothAgent extends OldAgent {
  override onStateUpdate() {}
  override onStateChanged() {}
}

class KeptAgent extends Agent<Env, State> {
  static override options = { hibernateAfterSeconds: 0.1 };
  #release: (() => void) | undefined;
  async hold() {
    this.#release = await this.keepAlive();
  }
  let() {
    this.#release?.();
    this.#release?.();
    return this.#release !== undefined;
  }
  async holdTwice() {
    const [first, second] = [await this.keepAlive(), await this.keepAlive()];
    first();
    first();
    this.#release = second;
  }
  work() {
    void this.keepAliveWhile(async () => {
      await this.env.latches.get("work")!.opened;
      this.setState({ n: 1 });
    });
    return this.keepAliveWhile(async () => "its result");
  }
  fail() {
    return this.keepAliveWhile(() => Promise.reject(new Error("its error")));
  }
}

const systems = useSystems();
const log: string[] = [];
const latches = new Map<string, Latch>();
let options: ReturnType<typeof systems.options>;
let host: Awaited<ReturnType<typeof startTestHost>>;
let gateway: Awaited<ReturnType<typeof startTestGateway>>;
beforeAll(async () => {
  const agents = { HookAgent, LoudAgent, OldAgent, NewerAgent, BothAgent, KeptAgent };
  options = systems.options({ agents, env: { log, latches } });
  host = await startTestHost(options, "host-a");
  gateway = await startTestGateway(options, "gateway-a");
});
afterAll(async () => {
  await gateway.stop();
  await host.stop();
});
beforeEach(() => (log.length = 0));
const env = () => gateway.env as unknown as Env;
const untilLogged = (line: string) =>
  pollUntil(line, () =>
    log.includes(line) ? { done: true, value: true } : { done: false, saw: log },
  );

describe("onError", () => {
  test("closes a socket that has not joined its agent, as it is not decided whether it is readonly", async () => {
    const socket = await TestSocket.open(`${gateway.url}/agents/hook-agent/joins?_pk=undecided`);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed?.code).toBe(1011);
    expect(log).toEqual([expect.stringMatching(/^onError\/1 undecided/)]);
  });

  test("turns a failed onRequest into a plain 500, whether the hook returns or throws", async () => {
    for (const agent of ["hook-agent", "loud-agent"]) {
      const response = await fetch(`${gateway.url}/agents/${agent}/request`);
      expect([response.status, await response.text()]).toEqual([500, "Internal Server Error"]);
    }
    expect(log).toEqual(["onError/1 a request", "loud a request"]);
  });
  test("receives an error of onMessage in its one-argument form, and the socket stays open", async () => {
    for (const agent of ["hook-agent", "loud-agent"]) {
      const socket = await TestSocket.open(`${gateway.url}/agents/${agent}/message`);
      socket.send("one");
      socket.send("two");
      await pollUntil("both", () => log.filter((line) => line.includes("message")).length === 2);
      expect(socket.closed).toBeUndefined();
      await socket.close();
      expect(log.splice(0).toSorted()).toEqual(
        agent === "hook-agent"
          ? ["onError/1 message one", "onError/1 message two"]
          : ["loud message one", "loud message two"],
      );
    }
  });
  test.each(["queue", "schedule"])(
    "receives the error of a job of the %s once, after its last attempt",
    async (how) => {
      await (await getAgentByName(env().HookAgent, `job-${how}`)).failLater(how);
      await untilLogged("onError/1 a job");
      await (await getAgentByName(env().LoudAgent, `job-${how}`)).failLater(how);
      await untilLogged("loud a job");
      expect(log).toEqual(["onError/1 a job", "loud a job"]);
    },
  );
  test("receives an error of onStateChanged; the state stays, and its setter gets no error", async () => {
    for (const namespace of [env().HookAgent, env().LoudAgent]) {
      const agent = await getAgentByName(namespace, "unlucky");
      expect(await agent.set(13)).toBe(13);
      expect(await agent.get()).toEqual({ n: 13 });
    }
    await untilLogged("loud unlucky");
    expect(log).toContain("onError/1 unlucky");
  });
  test("does not receive an error of a stub's call, which rejects at its caller", async () => {
    const agent = await getAgentByName(env().HookAgent, "stub");
    await expect(agent.set(-1)).rejects.toThrow(RangeError);
    expect(log).toEqual(["validate -1 server"]);
    expect(await agent.get()).toBeUndefined();
  });
});

describe("a change of state", () => {
  test("is validated, stored, then passed to onStateChanged with its source and its setter's context", async () => {
    const socket = await TestSocket.open(`${gateway.url}/agents/hook-agent/sources?_pk=me`);
    socket.send({ type: "cf_agent_state", state: { n: 1 } });
    await untilLogged("changed 1 me me");
    socket.send({ type: "rpc", id: "1", method: "setByClient", args: [2] });
    await untilLogged("changed 2 server me");
    await (await getAgentByName(env().HookAgent, "sources")).set(3);
    await untilLogged("changed 3 server -");
    expect(log).toEqual([
      "validate 1 me",
      "changed 1 me me",
      "validate 2 server",
      "changed 2 server me",
      "validate 3 server",
      "changed 3 server -",
    ]);
    await socket.close();
  });
});

test('errors for a field "state" and for super() without arguments say what to write', async () => {
  class Hidden extends Agent<{}, State> {
    // @ts-expect-error JavaScript has no such check.
    override state = { n: 0 };
    add() {
      this.setState({ n: this.state.n + 1 });
      return this.state.n;
    }
  }
  class Unpassed extends Agent {
    readonly answer: string;
    constructor() {
      // @ts-expect-error As above.
      super();
      this.answer = "pong";
    }
    ping() {
      return this.answer;
    }
  }
  await using own = await testAgents({ agents: [Hidden, Unpassed] });
  await expect(own.agent(Hidden, "a").add()).rejects.toThrow(
    'Hidden has a field "state", which hides the stored state: rename it to initialState',
  );
  await expect(own.agent(Unpassed, "a").ping()).rejects.toThrow("super(ctx, env)");
});

describe("onStateUpdate, the old name of onStateChanged", () => {
  const warnings = () => host.log.lines.filter(({ message }) => message.includes("onStateUpdate"));
  test("is still called on changes, and logs one warning per class", async () => {
    await (await getAgentByName(env().OldAgent, "a")).set(1);
    await (await getAgentByName(env().OldAgent, "b")).set(2);
    await untilLogged("old 1 server");
    await untilLogged("old 2 server");
    expect(warnings().map(({ message }) => message)).toEqual([
      "OldAgent.onStateUpdate is deprecated: rename it to onStateChanged",
    ]);
  });
  test("is overridden by onStateChanged of a subclass", async () => {
    await (await getAgentByName(env().NewerAgent, "a")).set(1);
    await untilLogged("newer 1");
    expect(log).toEqual(["newer 1"]);
  });
  test("is an error at construction when its class also has onStateChanged", async () => {
    const both =
      "BothAgent has both onStateChanged and onStateUpdate, its old name: keep onStateChanged";
    await expect(getAgentByName(env().BothAgent, "a")).rejects.toThrow(both);
    const line = host.log.lines.find((each) => JSON.stringify(each.fields)?.includes("BothAgent"));
    expect(JSON.stringify(line)).toContain(both);
  });
});

describe("keepAlive", () => {
  const inMemory = () => host.host.agentsActive;
  const isResting = () =>
    pollUntil("nothing is in memory", () => inMemory() === 0, { timeoutMs: 15_000 });
  test("holds the agent in memory until released; each hold counts once", async () => {
    await recycleAll();
    const [idle, held, twice] = await Promise.all(
      ["idle", "held", "twice"].map((name) => getAgentByName(env().KeptAgent, name)),
    );
    await held!.hold();
    await twice!.holdTwice();
    expect(await idle!.let()).toBe(false);
    await pollUntil("the idle one rests", () =>
      inMemory() === 2 ? true : { done: false, saw: inMemory() },
    );
    expect(await held!.let()).toBe(true);
    await pollUntil("the held one rests too", () => inMemory() === 1);
    expect(await twice!.let()).toBe(true);
    await isResting();
  });
  test("does not delay a host's shutdown", async () => {
    await (await getAgentByName(env().KeptAgent, "leaving")).hold();
    const second = await startTestHost(options, "host-b");
    await host.stop();
    // A host logs this when turns did not end in time.
    expect(host.log.lines.filter(({ message }) => message.includes("did not end in time"))).toEqual(
      [],
    );
    host = second;
  });
  test("keepAliveWhile holds the agent while the work runs, and settles as the work does", async () => {
    latches.set("work", makeLatch());
    const agent = await getAgentByName(env().KeptAgent, "working");
    expect(await agent.work()).toBe("its result");
    await expect(agent.fail()).rejects.toThrow("its error");
    await pollUntil("only the worker is left", () => inMemory() === 1);
    latches.get("work")!.open();
    await isResting();
  });
  /** Agents of other tests must not count. */
  async function recycleAll() {
    await host.host.recycle();
    await isResting();
  }
});

test("a chain of onStateChanged without end is stopped by an error that goes to onError", async () => {
  const errors: string[] = [];
  class Endless extends Agent<object, State> {
    override initialState = { n: 0 };
    override onStateChanged({ n }: State) {
      this.setState({ n: n + 1 });
    }
    override onError(error: unknown) {
      errors.push((error as Error).message);
    }
    begin() {
      this.setState({ n: 1 });
    }
  }
  await using t = await testAgents({ module: { Endless } });
  await t.agent(Endless, "a").begin();
  await t.settled();
  expect(errors).toEqual([expect.stringContaining("1000 calls of onStateChanged")]);
  expect(await t.agent(Endless, "a").state()).toEqual({ n: 1_000 });
  await t.agent(Endless, "a").begin();
  await t.settled();
  expect(errors).toHaveLength(2);
});

test("the static options default to what the interface documents", () => {
  expect(DEFAULT_AGENT_STATIC_OPTIONS).toEqual({
    hibernate: true,
    hibernateAfterSeconds: 30,
    sendIdentityOnConnect: true,
    hungScheduleTimeoutSeconds: 30,
    retry: { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3000 },
  });
});

/** Fills its table with what another start would not repeat. */
class SecretAgent extends Agent {
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS secret AS VALUES (hex(randomblob(16)))`;
  }
  read(): unknown {
    return this.sql`SELECT * FROM secret`;
  }
}

test("a table that onStart fills as it creates it is stored", async () => {
  await using t = await testAgents({ agents: [SecretAgent] });
  const agent = t.agent(SecretAgent, "a");
  const before = await agent.read();
  await t.crash();
  await t.revive();
  expect(await agent.read()).toEqual(before);
});
