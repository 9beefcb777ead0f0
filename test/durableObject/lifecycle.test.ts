/** `agents/lifecycle`: hooks and parts of a class that extends `DurableObject`. */
import { beforeAll, describe, expect, test } from "vitest";
import { DurableObject } from "cloudflare:workers";
import { Lifecycle, type Connection, type DurableObjectCapability } from "agents/lifecycle";
import type { ObjectState } from "../../core/durableObject/ObjectState.ts";
import { readModule } from "../../services/module/readModule.ts";
import { pollUntil } from "../kit/poll.ts";
import type { TestModule } from "../kit/system.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

/** Counts what it sees, in SQL. */
class Counting implements DurableObjectCapability {
  constructor(private readonly storage: ObjectState["storage"]) {}
  onStart(): void {
    this.storage.sql.exec("CREATE TABLE IF NOT EXISTS seen (what TEXT)");
    this.note("part starts");
  }
  onRequest({ request }: { readonly request: Request }): Response | undefined {
    if (new URL(request.url).pathname.endsWith("/seen")) return Response.json(this.seen());
    this.note("part request");
    return undefined;
  }
  onAlarm(): void {
    this.note("part alarm");
  }
  note(what: string): void {
    this.storage.sql.exec("INSERT INTO seen VALUES (?)", what);
  }
  seen(): string[] {
    const rows = this.storage.sql.exec<{ what: string }>("SELECT what FROM seen ORDER BY rowid");
    return [...rows].map(({ what }) => what);
  }
}

class Hall extends DurableObject {
  static options = { hibernateAfterSeconds: 0.2, http: "open" };
  private readonly counting = new Counting(this.ctx.storage);
  readonly lifecycle = Lifecycle.install(this).use(this.counting);

  onStart(): void {
    this.counting.note("starts");
    if (this.lifecycle.name === "broken" && this.counting.seen().length < 3)
      throw new Error("the first start fails");
  }
  async onRequest(request: Request): Promise<Response> {
    if (request.method === "PUT") await this.ctx.storage.setAlarm(Date.now());
    return Response.json({ name: this.lifecycle.name });
  }
  onAlarm(): void {
    this.counting.note("alarm");
  }
  getConnectionTags(_: Connection, { request }: { readonly request: Request }): string[] {
    return [new URL(request.url).searchParams.get("room") ?? "none"];
  }
  onConnect(connection: Connection<{ said: number }>): void {
    connection.setState({ said: 0 });
    connection.send(JSON.stringify(connection.tags));
  }
  onMessage(connection: Connection<{ said: number }>, message: unknown): void {
    const state = connection.setState((before) => ({ said: before!.said + 1 }));
    if (message === "all") this.lifecycle.broadcast("to all", [connection.id]);
    else if (message === "room")
      for (const each of this.lifecycle.getConnections("red")) each.send("to red"); // prettier-ignore
    else connection.send(`${connection.id} ${state!.said} ${new URL(connection.uri!).pathname}`);
  }
  onClose(connection: Connection, code: number): void {
    this.counting.note(`closed ${connection.id} ${code}`);
  }
  /** A method: only `start` has the table made. */
  async ask(): Promise<string[]> {
    await this.lifecycle.start();
    return this.lifecycle.sql<{ what: string }>`SELECT what FROM seen WHERE what <> ${"x"}`.map(
      ({ what }) => what,
    );
  }
}

/** Its own `fetch` stays. */
class Fronted extends DurableObject {
  static options = { http: "open" };
  readonly lifecycle = Lifecycle.install(this);
  fetch(request: Request): Response | Promise<Response> {
    return request.method === "GET" ? new Response("its own") : this.lifecycle.fetch(request);
  }
}

const systems = useSystems();
let system: Awaited<ReturnType<typeof systems.start>>;
let halls: { getByName(name: string): { ask(): Promise<string[]> } };
beforeAll(async () => {
  const { agents } = readModule({ Hall, Fronted }, "lifecycle.ts");
  system = await systems.start({ agents: Object.fromEntries(agents) as TestModule["agents"] });
  halls = system.gateway.env["Hall"] as never;
});
const urlOf = (path: string) => `${system.url}/agents/${path}`;
const open = (query: string) => TestSocket.open(urlOf(`hall/sockets?${query}`));

describe("a Durable Object with a lifecycle", () => {
  test("starts its parts, then itself; a request goes to a part that handles it, else to the object", async () => {
    const answer = await fetch(urlOf("hall/one"));
    expect([answer.status, await answer.json()]).toEqual([200, { name: "one" }]);
    const seen = (await (await fetch(urlOf("hall/one/seen"))).json()) as string[];
    // It starts more often where a busy machine lets it hibernate in between.
    expect(seen.join()).toMatch(/^(part starts,starts,)+part request/);
  });

  test("passes an alarm to its parts, then to itself", async () => {
    await fetch(urlOf("hall/alarmed"), { method: "PUT" });
    await pollUntil("the alarm has run", async () => {
      const seen = await halls.getByName("alarmed").ask();
      const alarms = seen.filter((what) => what.endsWith("alarm")).join(", ");
      return alarms === "part alarm, alarm" || { done: false, saw: seen };
    });
  });

  test("starts by start() in a method, and again after a failed start", async () => {
    expect(await halls.getByName("asked").ask()).toEqual(["part starts", "starts"]);
    const broken = halls.getByName("broken");
    await expect(broken.ask()).rejects.toThrow("the first start fails");
    expect((await broken.ask()).slice(-2)).toEqual(["part starts", "starts"]);
  });

  test("has sockets with id, tags and state, which survive eviction from memory", async () => {
    const [ada, bob] = [await open("_pk=ada&room=red"), await open("_pk=bob&room=blue")];
    expect([...(await ada.first(1)), ...(await bob.first(1))]).toEqual([
      '["ada","red"]',
      '["bob","blue"]',
    ]);
    let asked = 0;
    await pollUntil(
      "it was started again",
      async () => {
        ada.socket.send("hello");
        expect((await ada.first(++asked + 1)).at(-1)).toBe(`ada ${asked} /agents/hall/sockets`);
        const starts = await halls.getByName("sockets").ask();
        return starts.filter((what) => what === "starts").length > 1;
      },
      { intervalMs: 600 },
    );
    ada.socket.send("all");
    expect((await bob.first(2)).at(-1)).toBe("to all");
    bob.socket.send("room");
    expect((await ada.first(asked + 2)).at(-1)).toBe("to red");
    bob.socket.close(4001);
    await pollUntil("its close is told", async () =>
      (await halls.getByName("sockets").ask()).includes("closed bob 4001"),
    );
    ada.socket.close();
  });

  test("keeps its own handler; without onRequest it answers 404", async () => {
    expect(await (await fetch(urlOf("fronted/a"))).text()).toBe("its own");
    expect((await fetch(urlOf("fronted/a"), { method: "POST" })).status).toBe(404);
  });
});

test("parts are added before the start, handlers once, and a nameless object does not start", async () => {
  const ctx = { id: {}, blockConcurrencyWhile: (f: () => unknown) => f() };
  const lifecycle = Lifecycle.install({ ctx });
  expect(() => lifecycle.installHandlers()).toThrow(/call installHandlers\(\) once/);
  await expect(lifecycle.start()).rejects.toThrow(/has no name: address it with getByName/);
  const named = Lifecycle.install({ ctx: { ...ctx, id: { name: "a" } } });
  await named.start();
  expect(() => named.use({})).toThrow(/add capabilities in its constructor/);
});
