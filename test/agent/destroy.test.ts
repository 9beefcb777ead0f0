/** `destroy()`: the end of an agent's life, stored as one event, also when hosts die in between. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Agent, callable, getAgentByName, type AgentNamespace } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { agentId } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { pollUntil } from "../kit/poll.ts";
import { openInspector, startTestGateway, startTestHost } from "../kit/system.ts";
import { journalOf, postGithub, SECRET, TestSocket, useSystems } from "../system/kit.ts";

interface Env {
  readonly MortalAgent: AgentNamespace<MortalAgent>;
  readonly log: string[];
}
interface State {
  readonly n: number;
}

/** A busy machine takes less to destroy the agent that has armed them. */
const ARMED_SECONDS = 2;

class MortalAgent extends Agent<Env, State> {
  override initialState = { n: 0 };
  static override options = { retry: { maxAttempts: 1 } };

  override onStart() {
    this.env.log.push(`start ${this.name}`);
    this.sql`CREATE TABLE IF NOT EXISTS things (n INTEGER)`;
  }
  override onClose() {
    this.env.log.push("onClose");
  }
  override onError(error: unknown) {
    this.env.log.push(`onError ${String(error)}`);
  }
  fill() {
    this.setState({ n: this.state.n + 1 });
    this.sql`INSERT INTO things VALUES (${this.state.n})`;
    return this.look();
  }
  look() {
    return {
      n: this.state.n,
      rows: this.sql`SELECT n FROM things`.length,
      schedules: this.getSchedules().length,
    };
  }
  async arm() {
    await this.schedule("never", { delayInSeconds: ARMED_SECONDS });
    await this.scheduleEvery(ARMED_SECONDS, "never");
    await this.schedule("never", { delayInSeconds: 3600 });
    return this.getSchedules().length;
  }
  never() {
    this.env.log.push("never");
  }
  @callable()
  async end() {
    await this.destroy();
    return "ended";
  }
  async endAndWrite() {
    this.fill();
    const done = this.destroy();
    const errors: string[] = [];
    const attempt = (f: () => unknown): void => {
      try {
        f();
      } catch (error) {
        const { name, cause } = error as Error;
        errors.push(cause === undefined ? name : `${name}: ${(cause as Error).name}`);
      }
    };
    attempt(() => this.setState({ n: 9 }));
    attempt(() => this.sql`SELECT 1`);
    await done;
    attempt(() => this.setState({ n: 9 }));
    attempt(() => this.sql`INSERT INTO things VALUES (1)`);
    for (const write of [
      () => this.schedule("never", { delayInSeconds: 1 }),
      () => this.queue("never"),
    ])
      await write().catch((error: Error) => errors.push(error.name));
    return errors;
  }
  async endAndFail() {
    await this.destroy();
    throw new Error("after the end");
  }
  endTwice() {
    return Promise.all([this.destroy(), this.destroy()]).then((all) => all.length);
  }
  async endByJob(how: "queue" | "schedule") {
    this.fill();
    if (how === "queue") {
      await this.queue("endJob");
      await this.queue("never");
    } else await this.schedule("endJob", { delayInSeconds: 0.01 });
  }
  async endJob() {
    await this.destroy();
    this.env.log.push("ended by job");
  }
  override async onRequest(request: Request) {
    const { end } = (await request.json()) as { end?: boolean };
    this.env.log.push(`webhook ${String(end)}`);
    if (end) await this.destroy();
    else this.fill();
    return new Response(end ? "the end" : "filled");
  }
}

const systems = useSystems();
const log: string[] = [];
let options: ReturnType<typeof systems.options>;
let host: Awaited<ReturnType<typeof startTestHost>>;
let gateway: Awaited<ReturnType<typeof startTestGateway>>;
const mortal = (name: string) => getAgentByName((gateway.env as unknown as Env).MortalAgent, name);
const kinds = async (name: string) =>
  (await journalOf(options, "MortalAgent", name)).map(({ kind }) => kind);

beforeAll(async () => {
  options = systems.options({
    agents: { MortalAgent },
    env: { log, SECRET },
    webhooks: [
      webhook("/webhooks/github", {
        agent: MortalAgent,
        verify: github({ secret: "SECRET" }),
        entity: body("name"),
      }),
    ],
  });
  host = await startTestHost(options, "host-a");
  gateway = await startTestGateway(options, "gateway-a");
});
afterAll(async () => {
  await gateway.stop();
  await host.stop();
});
beforeEach(() => (log.length = 0));

const FRESH = { n: 0, rows: 0, schedules: 0 };

describe("a destroyed agent", () => {
  test("answers the call that destroyed it; the next call creates a fresh agent of the same name", async () => {
    const agent = await mortal("simple");
    expect(await agent.fill()).toMatchObject({ n: 1, rows: 1 });
    expect(await agent.end()).toBe("ended");
    expect(await agent.look()).toEqual(FRESH);
    expect(log).toEqual(["start simple", "start simple"]);
    expect(await agent.fill()).toMatchObject({ n: 1, rows: 1 });
    expect(await kinds("simple")).toContain("destroyed");
  });

  test("stays destroyed after its host is gone, and on replay from the journal alone", async () => {
    const agent = await mortal("replayed");
    await agent.fill();
    await agent.end();
    await agent.fill();
    await agent.fill();
    const second = await startTestHost(options, "host-b");
    await host.stop();
    expect(await agent.look()).toEqual({ n: 2, rows: 2, schedules: 0 });
    host = second;
  });

  test("can be destroyed through its stub, and twice in one turn is the same as once", async () => {
    const agent = await mortal("stub");
    await agent.fill();
    await agent.destroy();
    expect(await agent.look()).toEqual(FRESH);
    expect(await agent.endTwice()).toBe(2);
    expect((await kinds("stub")).filter((kind) => kind === "destroyed")).toHaveLength(2);
  });

  test("accepts no writes after destroy(); earlier writes stay in its history", async () => {
    expect(await (await mortal("writes")).endAndWrite()).toEqual([
      "AgentDestroyed",
      "SqlError: AgentDestroyed",
      "AgentDestroyed",
      "SqlError: AgentDestroyed",
      "AgentDestroyed",
      "AgentDestroyed",
    ]);
    const events = await journalOf(options, "MortalAgent", "writes");
    expect(JSON.stringify(events)).toContain('{"set":{"n":1}}');
    expect(events.findIndex(({ kind }) => kind === "destroyed")).toBe(events.length - 1);
  });

  test("reports an error that its turn throws afterwards, once", async () => {
    const agent = await mortal("throws");
    await agent.fill();
    await expect(agent.endAndFail()).rejects.toThrow("after the end");
    expect((await kinds("throws")).filter((kind) => kind === "destroyed")).toHaveLength(1);
  });

  test("leaves no schedule: none runs, and nothing starts the agent again", async () => {
    const agent = await mortal("armed");
    expect(await agent.arm()).toBe(3);
    await agent.end();
    log.length = 0;
    const inspector = await openInspector(options);
    await sleep(1.5 * ARMED_SECONDS * 1_000);
    await pollUntil("the inbox is empty", async () => {
      const depth = await inspector.inbox.depth();
      return depth === 0 ? { done: true, value: true } : { done: false, saw: depth };
    });
    await inspector.close();
    expect(log).toEqual([]);
    expect(await agent.look()).toEqual(FRESH);
  });

  test.each(["queue", "schedule"] as const)(
    "by its own %s, ends without an error and drops all waiting work",
    async (how) => {
      const agent = await mortal(`by-${how}`);
      await agent.endByJob(how);
      await pollUntil("it ended", () => log.includes("ended by job"));
      expect(await agent.look()).toEqual(FRESH);
      expect(log.filter((line) => !line.startsWith("start"))).toEqual(["ended by job"]);
      expect((await kinds(`by-${how}`)).filter((kind) => kind === "destroyed")).toHaveLength(1);
    },
  );

  test("by a webhook, answers it; a redelivery is a duplicate and destroys nothing", async () => {
    const send = (id: string, payload: object) =>
      postGithub(`${gateway.url}/webhooks/github`, { name: "hooked", ...payload }, { id });
    expect((await send("fill-1", {})).text).toBe("filled");
    expect(await send("end-1", { end: true })).toMatchObject({ status: 200, text: "the end" });
    expect((await send("fill-2", {})).text).toBe("filled");
    expect(await send("end-1", { end: true })).toMatchObject({ status: 200, text: "OK" });
    expect((await send("fill-1", {})).text).toBe("OK");
    expect(await (await mortal("hooked")).look()).toMatchObject({ n: 1, rows: 1 });
    expect(log.filter((line) => line.startsWith("webhook"))).toEqual([
      "webhook undefined",
      "webhook true",
      "webhook undefined",
    ]);
  });
});

describe("its sockets", () => {
  const open = async (name: string) => {
    const socket = await TestSocket.open(`${gateway.url}/agents/mortal-agent/${name}`);
    await socket.first(3);
    return socket;
  };
  test("are closed with 1001 Durable Object destroyed; a new socket reaches the fresh agent", async () => {
    const [a, b] = [await open("watched"), await open("watched")];
    a.send({ type: "rpc", id: "1", method: "end", args: [] });
    for (const socket of [a, b]) {
      await socket.until("closed", () => socket.closed !== undefined);
      expect(socket.closed).toEqual({ code: 1001, reason: "Durable Object destroyed" });
    }
    const c = await open("watched");
    expect(await (await mortal("watched")).fill()).toMatchObject({ n: 1 });
    await c.first(4);
    expect(c.states).toEqual([{ n: 0 }, { n: 1 }]);
    await c.close();
    await pollUntil("onClose", () => log.includes("onClose"));
    expect(log).toEqual(["start watched", "start watched", "onClose"]);
  });

  test("that a crashed host left open after the destroy event are closed when next used", async () => {
    const socket = await open("orphaned");
    await (await mortal("orphaned")).fill();
    // The host stops in order. The next one finds an event that a dying host would have stored
    // last.
    await host.stop();
    const events = await journalOf(options, "MortalAgent", "orphaned");
    const inspector = await openInspector(options);
    const id = agentId("MortalAgent", "orphaned");
    let seq = 0;
    for await (const stored of inspector.journal.read(id, { fromSeq: 1 as never }))
      seq = stored.seq;
    const head = { ...events.at(-1)!, id: "by-hand", kind: "destroyed" as const, turns: [] };
    const { pages: _pages, after: _after, ...destroyed } = head;
    const result = await inspector.journal.append(id, encodeEvent(destroyed), {
      expectedSeq: seq as never,
      signal: new AbortController().signal,
    });
    expect(result._tag).toBe("Stored");
    await inspector.close();
    host = await startTestHost(options, "host-c");
    expect(await (await mortal("orphaned")).look()).toEqual(FRESH);
    await socket.until("closed", () => socket.closed !== undefined);
    expect(socket.closed).toEqual({ code: 1001, reason: "Durable Object destroyed" });
    expect(log).not.toContain("onClose");
  });
});
