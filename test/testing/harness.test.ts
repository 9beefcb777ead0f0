/** The guarantees of `agents/testing`, shown with an agent that uses most features. */
import { afterEach, describe, expect, it } from "vitest";
import { Agent, getCurrentAgent } from "agents";
import { constant, github, webhook } from "agents/webhooks";
import { testAgents, type TestAgents, type TestAgentsOptions } from "agents/testing";
import { held, NoteAgent, routes } from "./agents.ts";

const SECRET = "s3cret";
const START = "2025-01-01T00:00:00.000Z";

const open: TestAgents[] = [];
async function start(options: Partial<TestAgentsOptions> = {}): Promise<TestAgents> {
  const test = await testAgents({
    agents: [NoteAgent],
    webhooks: routes,
    env: { GITHUB_SECRET: SECRET, STRIPE_SECRET: SECRET },
    ...options,
  });
  open.push(test);
  return test;
}
afterEach(async () => {
  for (const test of open.splice(0)) await test.close();
});

const deliver = (test: TestAgents, text: string, name = "a") => {
  const body = JSON.stringify({ for: name, text });
  return test.webhook("/hooks/github", body, test.sign.github(body, SECRET));
};

describe("incoming requests", () => {
  it("of a signed webhook reach its agent, whose answer the provider receives", async () => {
    const test = await start();
    const response = await deliver(test, "one");
    expect([response.status, await response.text()]).toEqual([200, "noted one"]);
    const agent = test.agent(NoteAgent, "a");
    expect(await agent.state()).toEqual({ notes: ["one"] });
    expect(await agent.sql("SELECT * FROM notes WHERE text = ?", "one")).toEqual([
      { text: "one", at: START },
    ]);
    expect(await agent.events()).toMatchObject([
      { cause: { kind: "start" } },
      { cause: { kind: "webhook", provider: "github" }, state: { notes: ["one"] } },
    ]);
  });

  it.each(["ada@example.com", "a:b", "a+b", "(x)!", "50%25"])(
    "of a client reach the agent of the name that the test uses: %s",
    async (name) => {
      const test = await start();
      const client = await test.connect(NoteAgent, name);
      await client.call("note", ["one"]);
      expect(await test.agent(NoteAgent, name).state()).toEqual({ notes: ["one"] });
    },
  );

  it.each(["a b", "ü", "acme/site", "a?b", "sub"])(
    "can't come from a client to an agent whose name no URL has: %s",
    async (name) => {
      const test = await start();
      await expect(test.connect(NoteAgent, name)).rejects.toThrow(
        `Cannot build an Agent path for root Agent name ${JSON.stringify(name)}`,
      );
    },
  );

  it("let code under test see its webhook, and keep a client of a class with signed webhooks outside", async () => {
    class AskedAgent extends Agent {
      override onRequest(): Response {
        return Response.json(getCurrentAgent().webhook ?? "none");
      }
    }
    const route = webhook("/hooks/asked", {
      agent: AskedAgent,
      verify: github({ secret: "GITHUB_SECRET" }),
      entity: constant("a"),
    });
    const test = await start({ agents: [AskedAgent], webhooks: [route] });
    const headers = test.sign.github("{}", SECRET, { id: "one", event: "push" });
    expect(await (await test.webhook("/hooks/asked", "{}", headers)).json()).toEqual({
      route: "/hooks/asked",
      provider: "github",
      verified: true,
      deliveryId: "one",
      event: "push",
    });
    expect((await test.fetch("/agents/asked-agent/a", { method: "POST" })).status).toBe(403);
    const client = await test.connect(AskedAgent, "a");
    await expect(client.setState({})).rejects.toThrow("Connection is readonly");
    expect(await (await test.agent(AskedAgent, "a").fetch("http://a/")).json()).toBe("none");
  });

  it("with a wrong signature are refused, as the gateway refuses them", async () => {
    const test = await start();
    const body = JSON.stringify({ for: "a", text: "one" });
    const response = await test.webhook("/hooks/github", body, test.sign.github(body, "other"));
    expect(response.status).toBe(401);
    expect(await test.agent(NoteAgent, "a").events()).toEqual([]);
  });

  it("are signed at the test's time, and are stale after it", async () => {
    const test = await start();
    await test.advance("2 days");
    const body = JSON.stringify({ for: "a", text: "paid" });
    const headers = test.sign.stripe(body, SECRET);
    expect((await test.webhook("/hooks/stripe", body, headers)).status).toBe(200);
    await test.advance("1 hour");
    expect((await test.webhook("/hooks/stripe", body, headers)).status).toBe(401);
  });

  it("stubs and calls between agents are routed", async () => {
    const test = await start({ env: { GREETING: "hello" } });
    const agent = test.agent(NoteAgent, "a b/c");
    expect(await agent.note("one")).toBe(1);
    expect(await agent.greeting()).toBe("hello");
    expect(await agent.fromOther("other")).toBe(1);
    const response = await test.fetch("/agents/note-agent/other");
    expect(await response.json()).toEqual({ notes: ["from a b/c"] });
    expect(await (await agent.fetch("http://x/")).json()).toEqual({ notes: ["one"] });
    expect((await test.fetch("/nowhere")).status).toBe(404);
  });

  it("whose method throws reject at the caller, with its message", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    await expect(agent.work("broken")).rejects.toThrow("can't do it");
    await expect(agent.stub["nope" as never]).toBeDefined();
  });
});

describe("clients", () => {
  it("use the protocol: identity, state both ways, calls, streams, messages", async () => {
    const test = await start();
    const client = await test.connect(NoteAgent, "a");
    const other = await test.connect(NoteAgent, "a", { id: "other" });
    expect(client.identity).toEqual({ agent: "note-agent", name: "a" });
    expect(client.state).toEqual({ notes: [] });
    expect(await client.call("note", ["one"])).toBe(1);
    await test.settled();
    expect(other.state).toEqual({ notes: ["one"] });
    await other.setState({ notes: ["two"] });
    expect(client.state).toEqual({ notes: ["two"] });
    expect(await client.stream("count", [3])).toEqual({ chunks: [1, 2], result: 3 });
    client.send("hi");
    await test.settled();
    expect(client.messages).toEqual(["you said hi"]);
    expect(other.messages).toEqual(["somebody said hi"]);
    await expect(client.call("work", ["x"])).rejects.toThrow("Method work is not callable");
    await client.close();
    expect(client.closed).toEqual({ code: 1000, reason: "" });
    expect(() => client.send("more")).toThrow("is closed (1000)");
  });

  it("stay connected while the agent hibernates and while its host is lost", async () => {
    const test = await start();
    const client = await test.connect(NoteAgent, "a");
    await test.advance("2 minutes");
    expect(test.agent(NoteAgent, "a").isActive()).toBe(false);
    await deliver(test, "woken");
    expect(client.state).toEqual({ notes: ["woken"] });
    await test.crash();
    client.send("into the dark");
    await test.revive();
    await test.settled();
    expect(client.messages).toEqual(["you said into the dark"]);
    expect(client.closed).toBeUndefined();
  });
});

describe("time", () => {
  it("stands still until it is advanced, for agents' code, SQL and timers", async () => {
    const test = await start({ now: "2030-05-05T05:05:05Z" });
    const agent = test.agent(NoteAgent, "a");
    expect((await agent.random())[2]).toBe(Date.UTC(2030, 4, 5, 5, 5, 5));
    expect(await agent.sqlTime()).toEqual({ now: "2030-05-05 05:05:05" });
    // The test itself is in its own time.
    expect(new Date().getFullYear()).not.toBe(2030);
    const sleeping = deliver(test, "sleep");
    expect(await (await sleeping).text()).toBe("noted sleep");
    expect(test.now.toISOString()).toBe("2030-05-05T05:05:10.000Z");
  });

  it("runs schedules when they are due, not before, and days pass in a moment", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    await agent.remind(3600, "tea");
    await agent.remindDaily();
    expect(await agent.schedules()).toMatchObject([{ type: "delayed" }, { type: "cron" }]);
    await test.advance("59m 59s");
    expect(await agent.state()).toBeUndefined();
    await test.advance(1_000);
    expect(await agent.state()).toEqual({ notes: ["tea at 2025-01-01T01:00:00.000Z"] });
    await test.advance("3 days");
    expect((await agent.state())?.notes.slice(1)).toEqual([
      "morning at 2025-01-01T09:00:00.000Z",
      "morning at 2025-01-02T09:00:00.000Z",
      "morning at 2025-01-03T09:00:00.000Z",
    ]);
    expect(test.now.toISOString()).toBe("2025-01-04T01:00:00.000Z");
  });

  it("delays retries, and exhausted inputs are dead letters until they are redriven", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    await agent.enqueue("broken");
    await agent.enqueue("fine");
    await test.settled();
    expect(await agent.state()).toEqual({ notes: ["fine"] });
    expect(await agent.queue()).toEqual([]);
    const [letter] = await agent.deadLetters();
    expect(letter).toMatchObject({
      reason: "Error: can't do it",
      cause: { kind: "queue", type: "work", body: '"broken"' },
    });
    await test.redrive(letter!);
    expect((await agent.deadLetters()).map(({ id }) => id)).toEqual([letter!.id + 1]);
  });

  it("waits for real work within a turn, although no timer of the test knows of it", async () => {
    const test = await start();
    expect(await (await deliver(test, "read")).text()).toBe("noted read");
    expect(test.now.getTime() - Date.parse(START)).toBeLessThan(2_000);
  });

  it("waits for long real work before the webhook's deadline", async () => {
    const test = await start();
    expect(await (await deliver(test, "load")).text()).toBe("noted load");
    expect(test.now.getTime() - Date.parse(START)).toBeLessThan(2_000);
  });

  it("reports what is pending when nothing arrives", async () => {
    const test = await start();
    held.latch = new Promise(() => undefined);
    const response = await deliver(test, "wait");
    expect(response.status).toBe(202);
    await expect(test.settled()).rejects.toThrow(
      /did not come within 15 minutes of virtual time\.\nOpen now:\n.*1 input .*\n.*turns of NoteAgent\/a/,
    );
  });

  it("refuses an invalid duration", async () => {
    const test = await start();
    for (const wrong of ["3 fortnights", "", "1h 30", "h", -1, Number.NaN, "soon"])
      await expect(test.advance(wrong)).rejects.toThrow("not a duration");
  });
});

describe("outgoing requests", () => {
  it("of webhooks are recorded and answered, with the retries that the answers cause", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    const statuses = [503, 200];
    test.answerOutgoing(() => new Response(null, { status: statuses.shift()! }));
    const key = await agent.tell("https://example.com/in");
    await test.settled();
    expect(agent.sends().map(({ status }) => status)).toEqual([503, 200]);
    const [first] = agent.sends();
    expect(first).toMatchObject({
      kind: "webhook",
      url: "https://example.com/in",
      json: { notes: [] },
      headers: { "idempotency-key": key },
    });
    expect(first!.headers["x-signature"]).toMatch(/^sha256=[0-9a-f]{64}$/);
  });

  it("to private addresses are refused as in production", async () => {
    const test = await start();
    await expect(test.agent(NoteAgent, "a").tell("http://169.254.169.254/")).rejects.toThrow(
      "not an address of the public internet",
    );
    expect(test.sends()).toEqual([]);
  });

  it("of an agent's own fetch are answered by the test, after the commits before them", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    await expect(agent.ask("https://example.com/")).rejects.toThrow(
      "a test sends no real requests",
    );
    const seen: unknown[] = [];
    test.answerOutgoing(async () => {
      seen.push((await agent.events()).length);
      return new Response("an answer");
    });
    expect(await agent.ask("https://example.com/x")).toBe("an answer");
    // Its tables, the first time it asked, and what it wrote before it asked again.
    expect(seen).toEqual([3]);
    expect(agent.sends().map(({ kind, method, status }) => [kind, method, status])).toEqual([
      ["fetch", "GET", undefined],
      ["fetch", "GET", 200],
    ]);
  });
});

describe("crashes", () => {
  it("in the middle of a turn: the webhook runs again, and counts once", async () => {
    const test = await start();
    let go = (): void => undefined;
    held.latch = new Promise((resolve) => (go = resolve));
    const answer = deliver(test, "wait");
    await test.crash();
    expect(await test.agent(NoteAgent, "a").state()).toBeUndefined();
    go();
    await test.revive();
    expect(await (await answer).text()).toBe("noted wait");
    expect(await test.agent(NoteAgent, "a").state()).toEqual({ notes: ["wait"] });
  });

  it.each(["before commit", "after commit"] as const)(
    "%s: the webhook counts once",
    async (point) => {
      const test = await start();
      await deliver(test, "first");
      const crashed = test.crashAt(point, NoteAgent, "a");
      const answer = deliver(test, "second");
      await crashed;
      const stored = point === "after commit" ? ["first", "second"] : ["first"];
      expect(await test.agent(NoteAgent, "a").state()).toEqual({ notes: stored });
      await test.revive();
      expect((await answer).status).toBe(200);
      await test.settled();
      expect(await test.agent(NoteAgent, "a").state()).toEqual({ notes: ["first", "second"] });
      const kinds = (await test.agent(NoteAgent, "a").events()).map(({ cause }) => cause.kind);
      expect(kinds).toContain("claimed");
    },
  );

  it("store webhooks while no host is alive; due schedules run with the next one", async () => {
    const test = await start();
    const agent = test.agent(NoteAgent, "a");
    await agent.remind(60, "late");
    await test.crash();
    expect((await deliver(test, "stored")).status).toBe(202);
    await test.advance("10 minutes");
    await test.revive();
    await test.settled();
    expect((await agent.state())?.notes.toSorted()).toEqual([
      expect.stringMatching(/^late at 2025-01-01T00:10/),
      "stored",
    ]);
  });

  it("are refused for a missing host, as is reviving a running one", async () => {
    const test = await start();
    await expect(test.revive()).rejects.toThrow("a host is running");
    await test.crash();
    await expect(test.crash()).rejects.toThrow("no host is running");
  });
});

describe("a run", () => {
  async function trace(seed: number): Promise<string> {
    const test = await start({ seed });
    const agent = test.agent(NoteAgent, "a");
    const client = await test.connect(NoteAgent, "a");
    const random = await agent.random();
    await Promise.all(["one", "fail", "two", "sleep"].map((text) => deliver(test, text)));
    await agent.enqueue("broken");
    await agent.tell("https://example.com/in");
    const crashed = test.crashAt("before commit");
    const answer = deliver(test, "three", "b");
    await crashed;
    await test.revive();
    await answer;
    await agent.remind(1800, "later");
    await test.advance("1 hour");
    const result = {
      random,
      frames: client.frames,
      events: [await agent.events(), await test.agent(NoteAgent, "b").events()],
      sends: test.sends(),
      dead: await test.deadLetters(),
      now: test.now,
    };
    await test.close();
    open.splice(open.indexOf(test), 1);
    return JSON.stringify(result, undefined, 1);
  }

  it("is the same for the same seed, to the last id, and different for another", async () => {
    const first = await trace(7);
    expect(await trace(7)).toBe(first);
    expect(await trace(8)).not.toBe(first);
  });

  it("does not affect another, or the globals, which are restored afterwards", async () => {
    const before = [Date, setTimeout, fetch, Math.random];
    const [one, two] = [await start({ now: 0 }), await start({ now: "2040-01-01" })];
    await deliver(one, "x");
    expect(await two.agent(NoteAgent, "a").state()).toBeUndefined();
    expect((await one.agent(NoteAgent, "b").random())[2]).toBe(one.now.getTime());
    expect((await two.agent(NoteAgent, "b").random())[2]).toBe(two.now.getTime());
    for (const test of open.splice(0)) await test.close();
    expect([Date, setTimeout, fetch, Math.random]).toEqual(before);
  });

  it("reports what is wrong with a module, and accepts a complete one", async () => {
    await expect(testAgents({ agents: [] })).rejects.toThrow("no agent class is exported");
    await expect(testAgents({ agents: [NoteAgent], module: {} })).rejects.toThrow(
      "pass either `module`",
    );
    const test = await start({
      agents: [],
      webhooks: undefined as never,
      module: { NoteAgent, default: { fetch: () => new Response("mine") } },
    });
    expect(await (await test.fetch("/")).text()).toBe("mine");
  });
});
