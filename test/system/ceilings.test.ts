/** What one agent may have at once: beyond a limit a request is refused with its name. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, callable, getAgentByName, type AgentStub, type Connection } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { makeLatch, postGithub, TestSocket, useSystems, type Latch, type System } from "./kit.ts";

interface Env {
  readonly latch: Latch;
}

class Below extends Agent {
  override onRequest(): Response {
    return new Response("below");
  }
}

class Bounded extends Agent<Env> {
  static override options = {
    http: "open",
    sqlRowsMax: 10,
    queueMax: 3,
    schedulesMax: 3,
    outgoingMax: 3,
    connectionsMax: 2,
    subAgentsMax: 2,
    waitingMax: 5,
    allowPrivateHosts: true,
    retry: { maxAttempts: 1 },
  };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY)`;
  }
  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return new Response("here");
    const { op } = (await request.json()) as { op: string };
    if (op === "waits") await this.env.latch.opened;
    this.sql`INSERT INTO numbers DEFAULT VALUES`;
    return new Response("done");
  }

  fill(rows: number): number {
    for (let n = 0; n < rows; n++) this.sql`INSERT INTO numbers DEFAULT VALUES`;
    return this.count();
  }
  count(): number {
    return this.sql<{ n: number }>`SELECT count(*) AS n FROM numbers`[0]!.n;
  }
  read(): number {
    return this.sql`SELECT * FROM numbers`.length;
  }
  removeAll(): number {
    return this.ctx.storage.sql.exec("DELETE FROM numbers RETURNING n").rowsRead;
  }
  async enqueue(count: number, id?: string): Promise<void> {
    // In one turn, so that none has run meanwhile.
    for (let n = 0; n < count; n++) await this.queue("nothing", n, id === undefined ? {} : { id });
  }
  async plan(count: number, hours: number, callback: "nothing" | "_own" = "nothing") {
    for (let n = 0; n < count; n++) await this.schedule(hours * 3600 + n, callback, n);
  }
  /** Sets and removes the runtime's own alarm. */
  async fibers(count: number): Promise<void> {
    for (let n = 0; n < count; n++) await this.runFiber("short", async () => n);
  }
  async daily(): Promise<void> {
    await this.schedule("0 9 * * *", "nothing");
  }
  async cancelAll(): Promise<void> {
    for (const { id } of this.getSchedules()) await this.cancelSchedule(id);
  }
  async send(count: number): Promise<void> {
    for (let n = 0; n < count; n++) await this.sendWebhook("http://127.0.0.1:1/", { n });
  }
  override async getConnectionTags(connection: Connection): Promise<string[]> {
    // So long that a burst of upgrades is under way at once.
    if (new URL(connection.uri!).pathname.endsWith("burst"))
      await new Promise((resolve) => setTimeout(resolve, 200));
    return [];
  }
  async make(name: string): Promise<number> {
    await this.subAgent(Below, name);
    return this.listSubAgents().length;
  }
  planned(): number {
    return this.getSchedules().length;
  }
  nothing(): void {}
  _own(): void {}
  @callable()
  ping(): string {
    return "pong";
  }
  override onError(): void {}
}

const systems = useSystems();
let system: System;
let env: Env & Record<string, unknown>;
beforeAll(async () => {
  env = { SECRET: "It's a Secret to Everybody", latch: makeLatch() };
  system = await systems.start({
    agents: { Bounded, Below },
    env,
    webhooks: [
      webhook("/bounded", {
        agent: Bounded,
        verify: github({ secret: "SECRET" }),
        entity: body("agent"),
        deadlineMs: 500,
      }),
    ],
  });
});

const agent = (name: string): Promise<AgentStub<Bounded>> =>
  getAgentByName<Bounded>(system.gateway.env["Bounded"] as never, name);
const refused = (option: string) => ({
  message: expect.stringContaining(`${option} of the class's options`) as string,
});

describe("an agent", () => {
  test("reads at most sqlRowsMax rows; statements that write and return rows are not limited", async () => {
    const one = await agent("rows");
    await one.fill(10);
    expect(await one.read()).toBe(10);
    await one.fill(1);
    await expect(one.read()).rejects.toMatchObject({ name: "SqlError", ...refused("sqlRowsMax") });
    expect(await one.removeAll()).toBe(11);
    expect(await one.read()).toBe(0);
  });

  test("queues at most queueMax items; a replacement does not count", async () => {
    const one = await agent("queue");
    await expect(one.enqueue(4)).rejects.toMatchObject(refused("queueMax"));
    // What ran makes room: first the three of the call that failed.
    const enqueue = (count: number, id?: string) =>
      pollUntil("room", async () => {
        await one.enqueue(count, id);
        return true;
      });
    await enqueue(20, "same");
    await enqueue(3);
  });

  test("has at most schedulesMax schedules; an identical one does not count", async () => {
    const one = await agent("schedules");
    await one.daily();
    await one.plan(2, 1);
    await expect(one.plan(1, 2)).rejects.toMatchObject(refused("schedulesMax"));
    await one.daily();
    expect(await one.planned()).toBe(3);
    await one.cancelAll();
    await one.plan(3, 1, "_own");
    await one.fibers(5);
    await expect(one.plan(1, 2, "_own")).rejects.toMatchObject(refused("schedulesMax"));
    expect(await one.planned()).toBe(3);
  });

  test("has at most outgoingMax unsent webhooks", async () => {
    const one = await agent("outgoing");
    await expect(one.send(4)).rejects.toMatchObject(refused("outgoingMax"));
  });

  test("has at most connectionsMax sockets: an upgrade is refused with 429 until one closes", async () => {
    const url = `${system.gateway.url}/agents/bounded/sockets`;
    const [first, second] = [await TestSocket.open(url), await TestSocket.open(url)];
    const third = await TestSocket.open(url);
    expect(third.refused).toMatchObject({ status: 429 });
    first.socket.close();
    await pollUntil("room", async () => {
      const again = await TestSocket.open(url);
      again.socket.close();
      return again.refused === undefined;
    });
    second.socket.close();
  });

  test("has at most subAgentsMax sub-agents that URLs create; its own code creates more", async () => {
    const get = async (child: string): Promise<number> =>
      (await fetch(`${system.gateway.url}/agents/bounded/above/sub/below/${child}`)).status;
    expect([await get("a"), await get("b"), await get("c"), await get("a")]).toEqual([
      200, 200, 429, 200,
    ]);
    const socket = await TestSocket.open(`${system.gateway.url}/agents/bounded/above/sub/below/c`);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed).toMatchObject({ code: 4429 });
    expect(await (await agent("above")).make("own")).toBe(3);
    expect(await get("own")).toBe(200);
  });

  test("has at most connectionsMax sockets, also of upgrades that are under way at once", async () => {
    const url = `${system.gateway.url}/agents/bounded/burst`;
    const all = await Promise.all([1, 2, 3, 4, 5, 6].map(() => TestSocket.open(url)));
    expect(all.filter(({ refused: no }) => no === undefined)).toHaveLength(2);
    for (const { socket } of all) socket.close();
  });
});

test("a webhook past waitingMax is 429 with Retry-After and not stored; the others are processed once", async () => {
  const post = (op: string, delivery: string) =>
    postGithub(`${system.gateway.url}/bounded`, { agent: "flooded", op }, { id: delivery });
  const accepted: string[] = [];
  // As many as may wait are answered 202 at their deadline.
  const refusal = await pollUntil("a refusal", async () => {
    const delivery = `d${accepted.length}`;
    const response = await post("waits", delivery);
    if (response.status === 429) return response;
    expect(response.status).toBe(202);
    accepted.push(delivery);
    return undefined;
  });
  expect(Number(refusal.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(refusal.text).toContain("waitingMax");
  expect(system.gateway.log.lines.map(({ fields }) => fields)).toContainEqual(
    expect.objectContaining({
      status: 429,
      name: "flooded",
      why: "too many inputs of its agent wait (waitingMax)",
    }),
  );
  expect(accepted.length).toBeGreaterThanOrEqual(5);
  // Its neighbours are not affected.
  const other = await postGithub(`${system.gateway.url}/bounded`, { agent: "other", op: "" });
  expect(other.status).toBe(200);
  env.latch.open();
  const one = await agent("flooded");
  await pollUntil("all accepted are done", async () => {
    const done = await one.count();
    return { done: done === accepted.length, saw: done, value: true };
  });
  expect((await post("", "late")).status).toBe(200);
  expect(await one.count()).toBe(accepted.length + 1);
});
