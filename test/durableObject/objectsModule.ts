/** A module of Durable Objects, as one is written for the reference's platform. */
import { DurableObject } from "cloudflare:workers";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import type { ObjectState } from "../../core/durableObject/ObjectState.ts";
import type { WebSocketRequestResponsePair as Pair } from "../../core/durableObject/ObjectSockets.ts";
import { body, github, webhook } from "agents/webhooks";

declare const WebSocketPair: new () => { readonly 0: ObjectSocket; readonly 1: ObjectSocket };
declare const WebSocketRequestResponsePair: new (request: string, response: string) => Pair;

interface Env {
  readonly COUNTER: ObjectNamespace<Counter>;
  readonly ROOM: ObjectNamespace<Room>;
  readonly LEGACY: ObjectNamespace;
  readonly Counter: ObjectNamespace<Counter>;
}

class OutOfStock extends Error {
  override readonly name = "OutOfStock";
}

/** The counter of every introduction: a read, an addition and a write between awaits. */
export class Counter extends DurableObject<Env> {
  static options = { hibernateAfterSeconds: 0.3 };
  state = "a name of the user's own";
  constructed = 0;
  ran: string[] = [];

  constructor(ctx: ObjectState, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      this.constructed = ((await ctx.storage.get<number>("constructed")) ?? 0) + 1;
      await ctx.storage.put("constructed", this.constructed);
    });
  }

  async increment(by = 1): Promise<number> {
    const before = (await this.ctx.storage.get<number>("value")) ?? 0;
    await this.ctx.storage.put("value", before + by);
    return before + by;
  }
  async value() {
    return (await this.ctx.storage.get<number>("value")) ?? 0;
  }
  about() {
    const { id } = this.ctx;
    return { id: id.toString(), name: id.name, constructed: this.constructed, bound: this.env.COUNTER.className }; // prettier-ignore
  }
  echo(...values: unknown[]) {
    return values;
  }
  give(what: string): unknown {
    const things: Record<string, () => unknown> = {
      instance: () => this,
      function: () => () => 1,
      stub: () => this.env.COUNTER.getByName("other"),
    };
    return things[what]!();
  }
  fail(how: string): never {
    if (how === "range") throw new RangeError("too far");
    throw new OutOfStock("nothing left", { cause: { shelf: 7 } });
  }
  async _underscored() {
    return "a method like any other";
  }
  async wake() {
    await this.ctx.storage.setAlarm(Date.now() + 1);
  }
  async other(name: string, by: number) {
    return this.env.COUNTER.getByName(name).increment(by);
  }

  // Storage

  async store(task: string): Promise<unknown> {
    const { storage } = this.ctx;
    const tasks: Record<string, () => unknown> = {
      undone: async () => {
        await storage.put("kept", 1);
        storage.sql.exec("CREATE TABLE IF NOT EXISTS t (n)");
        const failed = await storage
          .transaction(async (txn) => {
            await txn.put("kept", 2);
            await storage.put("other", 3);
            storage.sql.exec("INSERT INTO t VALUES (1)");
            throw new Error("not so");
          })
          .catch((error: Error) => error.message);
        const rolled = await storage.transaction(async (txn) => {
          await txn.delete("kept");
          txn.rollback();
          return "returned";
        });
        const stored = await storage.transaction(async (txn) => {
          await txn.put("second", 2);
          return (await txn.list()).size;
        });
        const rows = storage.sql.exec("SELECT * FROM t").toArray().length;
        return [failed, rolled, stored, rows, [...(await storage.list({ end: "t" }))]];
      },
      list: async () => {
        await storage.put({ a: 1, b: 2, "c/1": 3, "c/2": 4 });
        const keys = async (options: object) => [...(await storage.list(options)).keys()].join();
        return [
          await keys({ prefix: "c/" }),
          await keys({ start: "b", end: "c/2" }),
          await keys({ startAfter: "b", limit: 1 }),
          await keys({ reverse: true, limit: 2, end: "d" }),
          [...(await storage.get(["a", "b", "none"]))],
          await storage.delete(["a", "none"]),
          storage.kv.get("b"),
        ];
      },
      sql: () => {
        storage.sql.exec("CREATE TABLE s (n INTEGER PRIMARY KEY, data BLOB)");
        const made = storage.sql.exec("INSERT INTO s VALUES (1, ?), (2, NULL)", new Uint8Array([1, 2]).buffer); // prettier-ignore
        const read = storage.sql.exec<{ n: number; data: unknown }>("SELECT * FROM s ORDER BY n");
        const one = storage.sql.exec<{ n: number }>("SELECT max(n) AS n FROM s").one();
        const [first] = read.toArray();
        return [
          made.rowsWritten, read.columnNames, read.rowsRead, one.n,
          first!.data instanceof ArrayBuffer,
          storage.sql.exec("SELECT n FROM s ORDER BY n").raw().toArray(),
          storage.sql.databaseSize > 0,
        ]; // prettier-ignore
      },
    };
    return tasks[task]!();
  }
}

/** An alarm whose handler does what it was given, run by run. */
export class Waker extends DurableObject<Env> {
  static options = { hibernateAfterSeconds: 0.2 };

  async arm(inMs: number, plan: string[] = []) {
    await this.ctx.storage.put({ plan, runs: [] });
    await this.ctx.storage.setAlarm(Date.now() + inMs);
    return this.ctx.storage.getAlarm();
  }
  async disarm() {
    await this.ctx.storage.deleteAlarm();
    return this.ctx.storage.getAlarm();
  }
  async runs() {
    return { runs: await this.ctx.storage.get<unknown[]>("runs"), alarm: await this.ctx.storage.getAlarm() }; // prettier-ignore
  }
  async empty() {
    const { storage } = this.ctx;
    storage.sql.exec("CREATE TABLE parent (id INTEGER PRIMARY KEY)");
    storage.sql.exec("CREATE TABLE child (of INTEGER REFERENCES parent (id))");
    storage.sql.exec("INSERT INTO parent VALUES (1)");
    storage.sql.exec("INSERT INTO child VALUES (1)");
    storage.sql.exec("CREATE VIEW v AS SELECT * FROM child");
    await storage.setAlarm(Date.now() + 3_600_000);
    await storage.put("k", 1);
    await storage.deleteAll();
    const left = storage.sql.exec("SELECT name FROM sqlite_master WHERE tbl_name NOT LIKE 'svc_%'");
    const seen = [left.toArray(), await storage.getAlarm(), (await storage.list()).size];
    await storage.put("k", 2);
    return [...seen, await storage.get("k")];
  }
  async alarm(info: { readonly isRetry: boolean; readonly retryCount: number }) {
    const { storage } = this.ctx;
    const runs = (await storage.get<unknown[]>("runs")) ?? [];
    const [step, ...plan] = (await storage.get<string[]>("plan")) ?? [];
    await storage.put({ runs: [...runs, { ...info, alarm: await storage.getAlarm() }], plan });
    if (step === "again") await storage.setAlarm(new Date(Date.now() + 1));
    if (step === "fail") throw new Error("the alarm failed");
  }
}

/** Sockets that outlive the object's time in memory. */
export class Room extends DurableObject<Env> {
  static options = { hibernateAfterSeconds: 0.2 };
  readonly sessions = new Map<ObjectSocket, string>();

  constructor(ctx: ObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    for (const socket of ctx.getWebSockets())
      this.sessions.set(socket, `${(socket.deserializeAttachment() as { name: string }).name} (again)`); // prettier-ignore
  }

  fetch(request: Request): Response {
    const { searchParams } = new URL(request.url);
    const name = searchParams.get("name");
    if (name === null)
      return new Response("Who are you?", { status: 403, headers: { "x-a": "1" } });
    if (searchParams.has("throw")) throw new Error("secret reason");
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, searchParams.getAll("tag"));
    server.serializeAttachment({ name, since: new Date(0) });
    this.sessions.set(server, name);
    server.send(`welcome ${name}`);
    if (searchParams.has("reject")) server.close(4001, "not you");
    return new Response(null, { status: 101, webSocket: client } as ResponseInit);
  }

  webSocketMessage(socket: ObjectSocket, message: string | ArrayBuffer): void | Promise<void> {
    const { ctx } = this;
    if (message instanceof ArrayBuffer) return socket.send(new Uint8Array(message).toReversed());
    const [what, tag] = message.split(" ");
    if (what === "work") return new Promise(() => undefined);
    if (what === "abort") return ctx.abort("it was asked to");
    if (what === "say") return socket.send(tag!);
    const others = ctx.getWebSockets().filter((other) => other !== socket);
    const answers: Record<string, () => unknown> = {
      who: () => this.sessions.get(socket),
      attachment: () => socket.deserializeAttachment(),
      tags: () => ctx.getTags(socket),
      tagged: () => ctx.getWebSockets(tag).length,
      auto: () => [ctx.getWebSocketAutoResponse()?.request, ctx.getWebSocketAutoResponseTimestamp(socket) !== null], // prettier-ignore
      others: () => others.forEach((other) => other.send(`from ${this.sessions.get(socket)}`)),
      bye: () => socket.close(4000, "as you wish"),
    };
    const answer = answers[what!]?.();
    if (what === "throw") throw new Error("in webSocketMessage");
    socket.send(answer === undefined ? `echo ${message}` : JSON.stringify(answer));
  }
  async webSocketClose(_socket: ObjectSocket, code: number, reason: string, wasClean: boolean) {
    const closes = (await this.ctx.storage.get<unknown[]>("closes")) ?? [];
    await this.ctx.storage.put("closes", [...closes, [code, reason, wasClean]]);
  }
  async closes() {
    return this.ctx.storage.get("closes");
  }
  /** Like `destroy` of the reference's agents. */
  end() {
    void this.ctx.storage.deleteAll();
    for (const socket of this.ctx.getWebSockets()) socket.close(1001, "The room is gone");
    this.ctx.abort("it has ended");
  }
}

/** An object that keeps its sockets' listeners in memory. */
export class Live extends DurableObject<Env> {
  static options = { hibernateAfterSeconds: 0.2 };
  count = 0;

  fetch(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener("message", ({ data }) =>
      server.send(`${++this.count} ${String(data)}`),
    );
    server.addEventListener("close", ({ code }) => this.ctx.storage.put("closed", code));
    return new Response(null, { status: 101, webSocket: client } as ResponseInit);
  }
  async abort() {
    this.ctx.abort("as the test says");
  }
  async closed() {
    return [await this.ctx.storage.get("closed"), this.ctx.getWebSockets().length];
  }
}

/** As modules had them before the platform had a base class; a configuration file binds it. */
export class Legacy {
  readonly #state: ObjectState;

  constructor(state: ObjectState) {
    this.#state = state;
  }

  async fetch(request: Request): Promise<Response> {
    const seen = ((await this.#state.storage.get<number>("seen")) ?? 0) + 1;
    await this.#state.storage.put("seen", seen);
    const text = request.method === "POST" ? await request.text() : "";
    return Response.json({ seen, text, path: new URL(request.url).pathname });
  }
}

/** What a webhook's route sends here is applied once. */
export class Ledger extends DurableObject<Env> {
  async fetch(request: Request): Promise<Response> {
    const { amount } = (await request.json()) as { amount: number };
    const sum = ((await this.ctx.storage.get<number>("sum")) ?? 0) + amount;
    await this.ctx.storage.put("sum", sum);
    return Response.json({ sum });
  }
  async sum() {
    return this.ctx.storage.get("sum");
  }
}

const KINDS = {
  counter: "COUNTER",
  room: "Room",
  legacy: "LEGACY",
  live: "Live",
  none: "Waker",
} as const;

export default {
  webhooks: [
    webhook("/ledger", {
      agent: "Ledger",
      verify: github({ secret: "SECRET" }),
      entity: body("account"),
    }),
  ],
  /** `/counter/<name>`: the number of calls; `/room/<name>` …: the object's own `fetch`. */
  async fetch(request: Request, env: Record<string, unknown>): Promise<Response> {
    const [, kind, name = ""] = new URL(request.url).pathname.split("/");
    const binding = env[KINDS[kind as keyof typeof KINDS]] as Env["COUNTER"] | undefined;
    if (binding === undefined) return new Response("Not found", { status: 404 });
    const stub = binding.get(binding.idFromName(name));
    return kind === "counter" ? Response.json(await stub.increment()) : stub.fetch(request);
  },
};
