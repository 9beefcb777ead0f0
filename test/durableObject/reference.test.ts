/** The reference's own package as Durable Objects, unmodified. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { pollUntil } from "../kit/poll.ts";
import type { TestModule } from "../kit/system.ts";
import { useSystems, type System } from "../system/kit.ts";
import { readModule } from "../../services/module/readModule.ts";

// Its modules read `WebSocket` while they are loaded; Node has one from 22 on.
const added = !("WebSocket" in globalThis);
if (added) Object.assign(globalThis, { WebSocket });
const { Agent, callable, routeAgentEmail, routeAgentRequest } = await import("reference-agents");
const { AgentClient } = await import("reference-agents/client");
const { AgentWorkflow } = await import("reference-agents/workflows");

class Tally extends Agent<object, { readonly count: number }> {
  override initialState = { count: 0 };

  override async onRequest(): Promise<Response> {
    this.sql`CREATE TABLE IF NOT EXISTS hits (n INTEGER)`;
    this.sql`INSERT INTO hits VALUES (1)`;
    this.add(1);
    const [hits] = this.sql<{ n: number }>`SELECT count(*) AS n FROM hits`;
    return Response.json({ ...this.state, name: this.name, hits: hits!.n });
  }
  add(by: number): number {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
  async later(ms: number): Promise<void> {
    await this.schedule(ms / 1000, "add", 100);
  }

  begin(): Promise<string> {
    this.sql`CREATE TABLE IF NOT EXISTS heard (text TEXT)`;
    return this.runWorkflow("ADDITION" as never, { by: 7 });
  }
  async approve(id: string): Promise<void> {
    await this.approveWorkflow(id, { metadata: { by: "Ann" } });
  }
  async statusOf(id: string): Promise<unknown> {
    const { status } = await this.getWorkflowStatus("ADDITION" as never, id);
    const heard = this.sql<{ text: string }>`SELECT text FROM heard ORDER BY rowid`;
    const tracked = this.getWorkflow(id)?.status;
    return { status, tracked, heard: heard.map(({ text }) => JSON.parse(text)) };
  }
  override async onWorkflowProgress(_: string, __: string, progress: unknown): Promise<void> {
    this.hear(progress);
  }
  override async onWorkflowComplete(_: string, __: string, result?: unknown): Promise<void> {
    this.hear(result);
  }
  /** In SQL: it may leave memory at any time. */
  private hear(what: unknown): void {
    this.sql`INSERT INTO heard VALUES (${JSON.stringify(what)})`;
  }
}
for (const name of ["add", "later", "begin", "approve", "statusOf"] as const)
  callable()(Tally.prototype[name] as never, {} as never);

/** Has tallies as its sub-agents. */
class Office extends Agent<object> {
  async addTo(name: string, by: number): Promise<number> {
    const tally = await this.subAgent(Tally as never, name);
    return (tally as unknown as { add(by: number): Promise<number> }).add(by);
  }
  names(): string[] {
    return this.listSubAgents().map(({ className, name }) => `${className} ${name}`);
  }
  async drop(name: string): Promise<void> {
    await this.deleteSubAgent(Tally as never, name);
  }
}
for (const name of ["addTo", "names", "drop"] as const)
  callable()(Office.prototype[name] as never, {} as never);
(Tally as unknown as { options: object }).options = { hibernateAfterSeconds: 0.3 };

/** Keeps what a mail was, and does with it what its subject says. */
class Post extends Agent<object, object> {
  override initialState = {};

  async onEmail(email: {
    readonly from: string;
    readonly headers: Headers;
    getRaw(): Promise<Uint8Array>;
    setReject(reason: string): void;
    forward(to: string, headers?: Headers): Promise<unknown>;
  }): Promise<void> {
    const subject = email.headers.get("subject");
    const text = new TextDecoder().decode(await email.getRaw());
    this.setState({ from: email.from, subject, text });
    if (subject === "reject") email.setReject("not here");
    if (subject === "forward") await email.forward("bob@x.org", new Headers({ "x-by": "post" }));
    if (subject === "fail") throw new Error("the letter box is full");
  }
}

/** What its agent approves, with everything that it may ask of that agent. */
class Addition extends AgentWorkflow<Tally, { readonly by: number }> {
  override async run({ payload }: { payload: { by: number } }, step: never): Promise<string> {
    const steps = step as {
      do<A>(name: string, f: () => Promise<A>): Promise<A>;
      reportComplete(result: unknown): Promise<void>;
      mergeAgentState(state: object): Promise<void>;
    };
    await this.reportProgress({ step: "asks" });
    const { by } = await this.waitForApproval<{ by: string }>(step, { timeout: "1 minute" });
    const sum = await steps.do("add", async () => this.agent.add(payload.by));
    await steps.mergeAgentState({ count: sum + 1 });
    await steps.reportComplete({ sum, by });
    return "added";
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const { agents } = readModule({ Tally, Addition, Office, Post }, "tally.ts");
  const fetch = async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  const module = { agents: Object.fromEntries(agents), fetch } as unknown as TestModule;
  system = await systems.start(module);
});
afterAll(() => {
  if (added) Reflect.deleteProperty(globalThis, "WebSocket");
});

const connect = async (name: string, of: object = { agent: "tally" }) => {
  const { host } = new URL(system.url);
  const client = new AgentClient({ name, host, WebSocket, ...of } as never);
  const seen: unknown[] = [];
  client.addEventListener("message", ({ data }) => seen.push(JSON.parse(String(data))));
  await client.ready;
  return { client, seen, call: (...[method, args]: [string, unknown[]]) => client.call(method as never, args as never) }; // prettier-ignore
};

test("the reference's agent keeps its state and SQL when the object is evicted", async () => {
  const hit = async () => (await fetch(`${system.url}/agents/tally/a`)).json();
  expect(await hit()).toEqual({ count: 1, name: "a", hits: 1 });
  const { host } = system.host;
  await pollUntil("it has left memory", () => host.agentsActive === 0);
  expect(await hit()).toEqual({ count: 2, name: "a", hits: 2 });
});

test("its client calls methods, and sets and receives the state, through hibernation", async () => {
  const { client, seen, call } = await connect("b");
  expect(await call("add", [5])).toBe(5);
  client.setState({ count: 50 });
  expect(await call("add", [1])).toBe(51);
  await pollUntil("it has left memory", () => system.host.host.agentsActive === 0);
  expect(await call("add", [1])).toBe(52);
  expect(seen).toContainEqual({ type: "cf_agent_state", state: { count: 52 } });
  client.close();
});

test("its schedules run on the object's alarm", async () => {
  const { client, call } = await connect("c");
  await call("later", [20]);
  await pollUntil("it ran", async () => {
    const count = await call("add", [0]);
    return count === 100 || { done: false, saw: count };
  });
  client.close();
});

test("its workflow waits for its agent's approval, and reports to it", async () => {
  const { client, call } = await connect("d");
  const id = String(await call("begin", []));
  const status = async () => (await call("statusOf", [id])) as { status: string; heard: unknown[] };
  const reaches = (wanted: string) =>
    pollUntil(`it is ${wanted}`, async () => {
      const seen = await status();
      return seen.status === wanted ? { done: true, value: seen } : { done: false, saw: seen };
    });
  await reaches("waiting");
  await call("approve", [id]);
  expect(await reaches("complete")).toEqual({
    status: "complete",
    tracked: "complete",
    heard: [{ step: "asks" }, { sum: 7, by: "Ann" }],
  });
  expect(await call("add", [0])).toBe(8);
  client.close();
});

test("its sub-agents are called, listed, reached by a client, and deleted with their data", async () => {
  const { client, call } = await connect("o", { agent: "office" });
  expect([await call("addTo", ["x", 2]), await call("addTo", ["x", 3])]).toEqual([2, 5]);
  expect(await call("addTo", ["y", 1])).toBe(1);
  expect(await call("names", [])).toEqual(["Tally x", "Tally y"]);

  const below = await connect("o", { agent: "office", path: "sub/tally/x" });
  expect(await below.call("add", [10])).toBe(15);
  await call("addTo", ["x", 1]);
  await pollUntil(
    "the client is told",
    () => below.seen.some((frame) => JSON.stringify(frame).includes('"count":16')) || { done: false, saw: below.seen }, // prettier-ignore
  );
  below.client.close();

  await call("drop", ["x"]);
  expect(await call("names", [])).toEqual(["Tally y"]);
  expect(await call("addTo", ["x", 1])).toBe(1);
  client.close();
});

test("its routeAgentEmail calls the agent, which calls back on the message", async () => {
  const done: unknown[] = [];
  const send = (subject: string, text = "Hello") => {
    const raw = new TextEncoder().encode(`Subject: ${subject}\r\n\r\n${text}`);
    const message = {
      from: "ada@x.org",
      to: "post@x.org",
      headers: new Headers({ subject }),
      rawSize: raw.length,
      raw: new Blob([raw]).stream(),
      setReject: (reason: string) => void done.push(["reject", reason]),
      forward: async (to: string, headers?: Headers) => {
        done.push(["forward", to, headers?.get("x-by")]);
        return { messageId: "1" };
      },
      reply: async () => ({ messageId: "2" }),
    };
    const resolver = async () => ({ agentName: "Post", agentId: "p" });
    return routeAgentEmail(message as never, system.gateway.env as never, { resolver } as never);
  };
  await send("read");
  const { client, seen } = await connect("p", { agent: "post" });
  await pollUntil("the client has the state", () => seen.length > 0);
  expect(seen).toContainEqual({
    type: "cf_agent_state",
    state: { from: "ada@x.org", subject: "read", text: "Subject: read\r\n\r\nHello" },
  });
  client.close();
  await send("reject");
  await send("forward");
  await pollUntil("both were done", () => done.length === 2);
  expect(done).toEqual([["reject", "not here"], ["forward", "bob@x.org", "post"]]); // prettier-ignore
});
