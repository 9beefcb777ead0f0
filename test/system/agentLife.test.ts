/** The life of an agent, from its constructor on, and `getCurrentAgent` in each part of it. */
import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  Agent,
  getAgentByName,
  getCurrentAgent,
  type AgentContext,
  type AgentNamespace,
  type Connection,
} from "agents";
import { github, body, slug, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { startTestHost } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import {
  deadLetterOf,
  makeLatch,
  postGithub,
  SECRET,
  TestSocket,
  useSystems,
  type Latch,
} from "./kit.ts";

interface Env {
  readonly SleeperAgent: AgentNamespace<SleeperAgent>;
  readonly StartingAgent: AgentNamespace<StartingAgent>;
  readonly AwareAgent: AgentNamespace<AwareAgent>;
  readonly log: string[];
  readonly latches: Map<string, Latch>;
}

class SleeperAgent extends Agent<Env, { readonly visits: number }> {
  static override options = { hibernateAfterSeconds: 0.2 };
  override initialState = { visits: 0 };
  #inMemory = 0;

  override onStart() {
    this.env.log.push(`start ${this.name}`);
    this.sql`CREATE TABLE IF NOT EXISTS visits (n INTEGER PRIMARY KEY, note TEXT)`;
  }
  visit(note: string) {
    const visits = this.state.visits + 1;
    this.sql`INSERT INTO visits VALUES (${visits}, ${note})`;
    this.setState({ visits });
    return {
      visits,
      inMemory: ++this.#inMemory,
      notes: this.sql<{ note: string }>`SELECT note FROM visits ORDER BY n`.map((r) => r.note),
    };
  }
  background(latch: string) {
    this.ctx.waitUntil(
      this.env.latches.get(latch)!.opened.then(() => this.env.log.push(`done ${latch}`)),
    );
  }
  broken() {
    this.ctx.waitUntil(Promise.reject(new Error("rejected in the background")));
  }
  async abort() {
    this.setState({ visits: 99 });
    this.ctx.abort("had enough");
  }
}

class RestlessAgent extends SleeperAgent {
  static override options = { hibernate: false, hibernateAfterSeconds: 0.2 };
}

class StartingAgent extends Agent<Env> {
  static override options = { http: "open" };
  #loaded = "nothing";
  constructor(ctx: AgentContext, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      await env.latches.get("constructor")?.opened;
      this.#loaded = "something";
      env.log.push("loaded");
    });
  }
  override async onStart() {
    this.env.log.push(`onStart with ${this.#loaded}`);
    await this.env.latches.get("start")?.opened;
    if (this.env.latches.has("fail start")) throw new Error("not this time");
    this.env.log.push("onStart done");
  }
  loaded() {
    this.env.log.push("call");
    return this.#loaded;
  }
  async hold(latch: string) {
    return this.ctx.blockConcurrencyWhile(async () => {
      this.env.log.push("block");
      await this.env.latches.get(latch)!.opened;
      this.env.log.push("unblock");
      return "held";
    });
  }
  override onRequest() {
    this.env.log.push("webhook");
    if (this.env.latches.has("abort")) this.ctx.abort("cannot go on");
    return new Response("OK");
  }
}

/** Reports what `getCurrentAgent` returns in each hook. */
class AwareAgent extends Agent<Env, unknown> {
  #note(where: string) {
    const { agent, connection, request, email, attempt } = getCurrentAgent();
    this.env.log.push(
      [
        where,
        agent === this ? "self" : (agent?.name ?? "none"),
        connection?.id ?? "-",
        request === undefined ? "-" : request.method,
        email === undefined ? "-" : "mail",
        attempt,
      ].join(" "),
    );
  }
  override onStart() {
    this.#note("onStart");
  }
  override async onRequest() {
    await Promise.resolve();
    this.#note("onRequest");
    this.setState("by request");
    return new Response("OK");
  }
  override onConnect() {
    this.#note("onConnect");
  }
  override async onMessage(_connection: Connection, message: string) {
    await new Promise((resolve) => setImmediate(resolve));
    this.#note("onMessage");
    if (message === "throw") throw new Error("x");
    if (message === "set") this.setState("by message");
  }
  override onClose() {
    this.#note("onClose");
  }
  override onStateChanged(state: unknown) {
    this.#note(`onStateChanged ${String(state)}`);
  }
  override onError() {
    this.#note("onError");
  }
  method() {
    this.#note("method");
  }
  async other() {
    const stub = await getAgentByName(this.env.AwareAgent, "another");
    await stub.method();
    this.#note("after the other");
  }
}

const systems = useSystems();
const start = async (folder?: string) => {
  const log: string[] = [];
  const latches = new Map<string, Latch>();
  const system = await systems.start(
    {
      agents: { SleeperAgent, RestlessAgent, StartingAgent, AwareAgent },
      env: { log, latches, SECRET },
      webhooks: [
        webhook("/webhooks/github", {
          agent: StartingAgent,
          verify: github({ secret: "SECRET" }),
          entity: body("repository.full_name", slug),
        }),
      ],
    },
    folder === undefined ? {} : { folder },
  );
  return { ...system, log, latches };
};
const envOf = (gateway: { readonly env: unknown }) => gateway.env as Env;

describe("hibernation", () => {
  async function sleepAndWake(between: (folder: string) => void | Promise<void>) {
    const folder = tempFolder("cache");
    const { log, host, gateway, stop } = await start(folder.path);
    const stub = await getAgentByName(envOf(gateway).SleeperAgent, "s");
    await stub.visit("one");
    expect(await stub.visit("two")).toMatchObject({ visits: 2, inMemory: 2 });
    await pollUntil("it hibernates", () => host.host.agentsActive === 0);
    await between(folder.path);
    expect(await stub.visit("three")).toEqual({
      visits: 3,
      inMemory: 1,
      notes: ["one", "two", "three"],
    });
    // On a busy machine it may hibernate again before it runs the call.
    expect(log.length).toBeGreaterThanOrEqual(2);
    expect(new Set(log)).toEqual(new Set(["start s"]));
    await stop();
    folder.remove();
  }

  test("keeps state and rows, in a local file, and loses what is only in memory", () =>
    sleepAndWake(() => undefined));

  test("keeps state and rows in the journal when the local file is gone", () =>
    sleepAndWake((folder) => rmSync(folder, { recursive: true, force: true })));

  test("does not affect an agent whose class has hibernate: false, nor one that works in the background", async () => {
    const { log, latches, host, gateway } = await start();
    latches.set("work", makeLatch());
    const restless = envOf(gateway) as unknown as { RestlessAgent: AgentNamespace<SleeperAgent> };
    await (await getAgentByName(restless.RestlessAgent, "r")).visit("x");
    await (await getAgentByName(envOf(gateway).SleeperAgent, "worker")).background("work");
    await (await getAgentByName(envOf(gateway).SleeperAgent, "idle")).visit("x");
    await pollUntil("the idle one sleeps", () => host.host.agentsActive === 2);
    latches.get("work")!.open();
    await pollUntil("the worker sleeps", () => host.host.agentsActive === 1);
    expect(log).toContain("done work");
  });

  test("logs a waitUntil promise that rejects, and nothing else", async () => {
    const { host, gateway } = await start();
    const stub = await getAgentByName(envOf(gateway).SleeperAgent, "s");
    await stub.broken();
    await pollUntil("the line", () =>
      host.log.lines.some((l) => JSON.stringify(l).includes("rejected in the background")),
    );
    expect(await stub.visit("still")).toMatchObject({ inMemory: 1 });
  });

  test("differs from ctx.abort, which discards the agent: unstored writes are lost, the next input restarts it", async () => {
    const { log, gateway } = await start();
    const stub = await getAgentByName(envOf(gateway).SleeperAgent, "s");
    await stub.visit("one");
    const aborted = stub.abort().catch((error: unknown) => String(error));
    expect(await stub.visit("two")).toMatchObject({
      visits: 2,
      inMemory: 1,
      notes: ["one", "two"],
    });
    expect(await aborted).toMatch(/^AgentAborted: The agent was aborted/);
    expect(log.filter((line) => line === "start s")).toHaveLength(2);
  });

  test("a request that aborts its agent is a 500, run once; a webhook that always does is a dead letter", async () => {
    const { log, latches, options, gateway } = await start();
    latches.set("abort", makeLatch());
    const url = `${gateway.url}/agents/starting-agent/acme-x`;
    expect((await fetch(url, { method: "POST" })).status).toBe(500);
    expect(log.filter((line) => line === "webhook")).toHaveLength(1);
    const hook = await postGithub(`${gateway.url}/webhooks/github`, {
      repository: { full_name: "acme/x" },
    });
    expect(hook.status).toBe(500);
    expect(await deadLetterOf(options, "StartingAgent", "acme-x")).toMatchObject({
      reason: expect.stringContaining("attempts are exhausted"),
    });
    latches.delete("abort");
    expect((await fetch(url, { method: "POST" })).status).toBe(200);
  });
});

describe("starting", () => {
  test("finishes the constructor's block and onStart before any call, webhook or socket", async () => {
    const { log, latches, gateway } = await start();
    for (const name of ["constructor", "start"]) latches.set(name, makeLatch());
    const stub = envOf(gateway).StartingAgent.getByName("acme-x");
    const call = stub.loaded();
    const hook = postGithub(`${gateway.url}/webhooks/github`, {
      repository: { full_name: "acme/x" },
    });
    const socket = TestSocket.open(`${gateway.url}/agents/starting-agent/acme-x`);
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual([]);
    latches.get("constructor")!.open();
    await pollUntil("onStart runs", () => log.includes("onStart with something"));
    expect(log).toEqual(["loaded", "onStart with something"]);
    latches.get("start")!.open();
    expect(await call).toBe("something");
    expect((await hook).status).toBe(200);
    await (await socket).close();
    expect(log.slice(0, 3)).toEqual(["loaded", "onStart with something", "onStart done"]);
    expect(log.filter((line) => line.startsWith("onStart"))).toHaveLength(2);
  });

  test("that fails fails the call, and the next one restarts it; a webhook waits for that", async () => {
    const { log, latches, gateway } = await start();
    latches.set("fail start", makeLatch());
    const stub = envOf(gateway).StartingAgent.getByName("acme-x");
    await expect(stub.loaded()).rejects.toThrow("not this time");
    const hook = postGithub(`${gateway.url}/webhooks/github`, {
      repository: { full_name: "acme/x" },
    });
    await pollUntil("it was tried again", () => log.filter((l) => l === "loaded").length >= 3);
    latches.delete("fail start");
    expect((await hook).status).toBe(200);
    expect(await stub.loaded()).toBe("something");
  });

  test("with blockConcurrencyWhile blocks every other input until it has settled", async () => {
    const { log, latches, gateway } = await start();
    latches.set("held", makeLatch());
    const stub = envOf(gateway).StartingAgent.getByName("acme-x");
    await stub.loaded();
    const held = stub.hold("held");
    await pollUntil("it blocks", () => log.includes("block"));
    log.length = 0;
    const call = stub.loaded();
    const hook = postGithub(`${gateway.url}/webhooks/github`, {
      repository: { full_name: "acme/x" },
    });
    const elsewhere = await envOf(gateway).StartingAgent.getByName("free").loaded();
    expect(elsewhere).toBe("something");
    log.length = 0;
    latches.get("held")!.open();
    expect(await held).toBe("held");
    expect(await call).toBe("something");
    expect((await hook).status).toBe(200);
    expect(log[0]).toBe("unblock");
  });
});

describe("two hosts", () => {
  test("share the agents, and each takes over all of them when the other stops", async () => {
    const { options, host: hostA, gateway } = await start();
    const hostB = await startTestHost(options, "host-b");
    await pollUntil("the shards are shared", () => {
      const owned = [hostA.host.shardsOwned.length, hostB.host.shardsOwned.length];
      return owned.join() === "2,2" ? { done: true, value: true } : { done: false, saw: owned };
    });
    const names = Array.from({ length: 24 }, (_, i) => `agent-${i}`);
    const visitAll = (note: string) =>
      Promise.all(names.map((name) => envOf(gateway).SleeperAgent.getByName(name).visit(note)));
    await visitAll("one");
    await hostB.stop();
    expect((await visitAll("two")).map((v) => v.notes)).toEqual(names.map(() => ["one", "two"]));
    // Calls that must not be repeated continue while shards move, and each is done once.
    let moving = true;
    const calling = names.map(async (_, i) => {
      const name = `busy-${i}`;
      for (let n = 1; moving || n <= 3; n++)
        expect(await envOf(gateway).SleeperAgent.getByName(name).visit("x")).toMatchObject({
          visits: n,
        });
    });
    const hostC = await startTestHost(options, "host-c");
    const stopped = hostA.stop();
    expect((await visitAll("three")).map((v) => v.visits)).toEqual(names.map(() => 3));
    await stopped;
    moving = false;
    await Promise.all(calling);
    expect(hostC.host.shardsOwned).toHaveLength(4);
    await gateway.stop();
    await hostC.stop();
  });
});

describe("getCurrentAgent", () => {
  test("returns agent, connection and request in each hook, and nothing outside", async () => {
    const { log, host, gateway } = await start();
    const url = `${gateway.url}/agents/aware-agent/me`;
    await fetch(url, { method: "POST" });
    const stub = envOf(gateway).AwareAgent.getByName("me");
    await stub.method();
    const socket = await TestSocket.open(`${url}?_pk=c`);
    await socket.first(3);
    for (const message of ["set", "throw"]) {
      socket.send(message);
      await pollUntil(`"${message}" arrives`, () =>
        log.filter((line) => line.startsWith("onMessage")).length >= (message === "set" ? 1 : 2)
          ? { done: true, value: true }
          : { done: false, saw: [log, socket.frames, socket.closed, host.log.lines] },
      );
    }
    await pollUntil("onError", () => log.some((l) => l.startsWith("onError")));
    await socket.close();
    await pollUntil("onClose", () => log.some((l) => l.startsWith("onClose")));
    expect(log).toEqual([
      "onStart self - - - 1",
      "onRequest self - POST - 1",
      "onStateChanged by request self - POST - 1",
      "method self - - - 1",
      "onConnect self c GET - 1",
      "onMessage self c - - 1",
      "onStateChanged by message self c - - 1",
      "onMessage self c - - 1",
      "onError self c - - 1",
      "onClose self c - - 1",
    ]);
    log.length = 0;
    await stub.other();
    expect(log).toEqual([
      "onStart self - - - 1",
      "method self - - - 1",
      "after the other self - - - 1",
    ]);
    expect(getCurrentAgent().agent).toBeUndefined();
  });
});
