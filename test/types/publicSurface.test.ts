/** Types of what a module is written with: what compiles, what does not (`npm run check`). */
import { describe, expectTypeOf, it } from "vitest";
import {
  Agent,
  callable,
  getAgentByName,
  getCurrentAgent,
  routeAgentRequest,
  SqlError,
  type AgentNamespace,
  type AgentStaticOptions,
  type AgentStub,
  type Connection,
  type ConnectionContext,
  type QueueItem,
  type LogShape,
  type Schedule,
  type SqlParameter,
  type SqlRow,
  type SqlValue,
  type StateSource,
  type StreamingResponse,
  type McpServersState,
} from "agents";
import { subscribe } from "agents/observability";
import type { ElicitRequest } from "agents/mcp/client";
import type { UseAgentOptions } from "agents/react";
import {
  getSchedulePrompt,
  type ParsedSchedule,
  type Schedule as ReferenceSchedule,
} from "agents/schedule";
import {
  body,
  constant,
  github,
  header,
  hmac,
  path,
  slug,
  stripe,
  unsigned,
  webhook,
  type WebhookRoute,
} from "agents/webhooks";

interface Env {
  readonly Orders: AgentNamespace<Orders>;
  readonly API_KEY: string;
}
interface State {
  readonly total: number;
}
type Props = { readonly plan: "free" | "paid" };
interface Seat {
  readonly color: string;
}

class Orders extends Agent<Env, State, Props> {
  static override options: AgentStaticOptions = {
    hibernate: true,
    hungScheduleTimeoutSeconds: 60,
    retry: { maxAttempts: 5 },
  };
  override initialState: State = { total: 0 };

  override onStart(props?: Props): void {
    expectTypeOf(props?.plan).toEqualTypeOf<"free" | "paid" | undefined>();
    expectTypeOf(this.env.API_KEY).toEqualTypeOf<string>();
    // @ts-expect-error: no such binding
    void this.env.MISSING;
    // @ts-expect-error: the environment is not the agent's to change
    this.env = {} as Env;
  }
  override validateStateChange(next: State, source: StateSource): void {
    expectTypeOf(source).toEqualTypeOf<Connection | "server">();
    expectTypeOf(next.total).toEqualTypeOf<number>();
  }
  override async onConnect(connection: Connection<Seat>, { request }: ConnectionContext) {
    expectTypeOf(request).toEqualTypeOf<Request>();
    connection.setState({ color: "red" });
    connection.setState((before) => ({ color: before?.color ?? "blue" }));
    // @ts-expect-error: not this connection's state
    connection.setState({ colour: "red" });
    // @ts-expect-error: a frame is text or bytes
    connection.send({ an: "object" });
    // @ts-expect-error: its id is the client's
    connection.id = "x";
  }
  override onMessage(_connection: Connection, message: string | ArrayBuffer) {
    // @ts-expect-error: it may be bytes
    void message.length;
  }
  /** May be async, and may give nothing but a Response. */
  override async onRequest(request: Request) {
    return Response.json({ url: request.url });
  }

  rows(): void {
    const rows = this.sql<{
      id: string;
      n: number;
    }>`SELECT id, n FROM t WHERE n > ${1} AND b = ${true}`;
    expectTypeOf(rows).toEqualTypeOf<Array<{ id: string; n: number }>>();
    expectTypeOf(this.sql`SELECT 1 AS n`).toEqualTypeOf<SqlRow[]>();
    expectTypeOf<SqlRow[string]>().toEqualTypeOf<null | number | string | Uint8Array>();
    expectTypeOf<SqlRow[string] | bigint>().toEqualTypeOf<SqlValue>();
    expectTypeOf<boolean | bigint>().toExtend<SqlParameter>();
    const [first] = this.sql`SELECT 1 AS flag`;
    // @ts-expect-error: SQLite has no booleans: they come back as numbers
    const flag: boolean = first!["flag"]!;
    void flag;
    // @ts-expect-error: a parameter is text, a number, a boolean, bytes or null
    void this.sql`SELECT ${{ an: "object" }}`;
  }
  async jobs(): Promise<void> {
    expectTypeOf(await this.schedule("later", { time: new Date() })).toEqualTypeOf<string>();
    expectTypeOf(await this.schedule("later", { intervalSeconds: 5 })).toEqualTypeOf<string>();
    expectTypeOf(await this.schedule(new Date(), "later", { a: 1 })).toEqualTypeOf<
      Schedule<{ a: number }>
    >();
    expectTypeOf(await this.schedule(60, "later", "soon")).toEqualTypeOf<Schedule<string>>();
    expectTypeOf(
      await this.schedule(new Date() as Date | number | string, "later", 1),
    ).toEqualTypeOf<Schedule<number>>();
    expectTypeOf(await this.schedule("* * * * *", "later")).toEqualTypeOf<Schedule<unknown>>();
    expectTypeOf(await this.scheduleEvery(5, "later", 1)).toEqualTypeOf<Schedule<number>>();
    expectTypeOf(await this.getScheduleById<string>("x")).toEqualTypeOf<
      Schedule<string> | undefined
    >();
    expectTypeOf(await this.cancelSchedule("x")).toEqualTypeOf<boolean>();
    expectTypeOf(await this.getQueue<number>("x")).toEqualTypeOf<QueueItem<number> | undefined>();
    expectTypeOf(await this.queue("later", {}, { maxAttempts: 2 })).toEqualTypeOf<string>();
    expectTypeOf(await this.retry(async (attempt) => attempt)).toEqualTypeOf<number>();
    void this.retry(async () => 1, { shouldRetry: (_error, next) => next < 3 });
    // @ts-expect-error: a schedule says when
    void this.schedule("later", { payload: 1 });
    // @ts-expect-error: a time is a Date
    void this.schedule("later", { time: "tomorrow" });
    // @ts-expect-error: shouldRetry is of retry() only: it can't be stored
    void this.queue("later", 1, { shouldRetry: () => true });
    // @ts-expect-error: what is tried gives a promise
    void this.retry(() => 1);
    // @ts-expect-error: an interval is in seconds
    void this.scheduleEvery("5s", "later");
  }
  later(payload: unknown, schedule?: Schedule): void {
    expectTypeOf(schedule?.type).toEqualTypeOf<
      "scheduled" | "delayed" | "cron" | "interval" | undefined
    >();
    void payload;
  }
  sockets(): void {
    for (const connection of this.getConnections<Seat>("tag"))
      expectTypeOf(connection.state).toEqualTypeOf<Seat | null>();
    this.broadcast("text", ["not-this-one"]);
    this.broadcast(new ArrayBuffer(1));
    // @ts-expect-error: raw messages only
    this.broadcast({ type: "x" });
    // @ts-expect-error: a connection, not its id
    this.setConnectionReadonly("id");
  }

  @callable({ description: "adds" })
  add(n: number): number {
    return n;
  }
  @callable({ streaming: true })
  feed(stream: StreamingResponse<number, string>): void {
    stream.send(1);
    stream.end("done");
    // @ts-expect-error: chunks have their type
    stream.send("1");
    // @ts-expect-error: so has the end
    stream.end(1);
  }
  // @ts-expect-error: metadata that there is not
  @callable({ stream: true })
  wrong(): void {}
}

/** A state that is not given is unknown, and takes no field for granted. */
class Untyped extends Agent<Env> {
  look(): void {
    expectTypeOf(this.state).toEqualTypeOf<unknown>();
    // @ts-expect-error: unknown has no fields
    void this.state.total;
  }
}

// @ts-expect-error: options that there are not
class _Misspelt extends Agent {
  static override options = { hibernat: true, hibernate: "no" };
}

/** Never runs: only its types matter. */
async function compiled(env: Env, request: Request): Promise<void> {
  const stub = await getAgentByName(env.Orders, "a", { props: { plan: "paid" } });
  expectTypeOf(stub).toEqualTypeOf<AgentStub<Orders>>();
  expectTypeOf(stub.add(1)).toEqualTypeOf<Promise<number>>();
  expectTypeOf(stub.fetch(request)).toEqualTypeOf<Promise<Response>>();
  expectTypeOf(env.Orders.get(env.Orders.idFromName("a")).add(1)).toEqualTypeOf<Promise<number>>();
  // @ts-expect-error: a binding, not a string of the environment
  void getAgentByName(env.API_KEY, "a");
  // @ts-expect-error: a name is text
  void getAgentByName(env.Orders, 7);
  // @ts-expect-error: results have types
  const text: string = await stub.add(1);
  void text;
  expectTypeOf(
    await routeAgentRequest(request, env, { cors: true, prefix: "api" }),
  ).toEqualTypeOf<Response | null>();
  void routeAgentRequest(request, env, {
    onBeforeConnect: (upgrade, { className, name }) =>
      new Response(upgrade.url + className + name, { status: 401 }),
  });
  // @ts-expect-error: a hook answers with a Response or a Request
  void routeAgentRequest(request, env, { onBeforeRequest: () => "no" });
  expectTypeOf(getCurrentAgent<Orders>().agent).toEqualTypeOf<Orders | undefined>();
  expectTypeOf(new SqlError("SELECT", null).query).toEqualTypeOf<string>();
  expectTypeOf<ReferenceSchedule>().toEqualTypeOf<ParsedSchedule>();
  expectTypeOf<ParsedSchedule>().toExtend<Parameters<Orders["scheduleFrom"]>[0]>();
  // @ts-expect-error: a stored schedule is something else
  expectTypeOf<Schedule>().toExtend<ParsedSchedule>();
  expectTypeOf<Orders["log"]>().toEqualTypeOf<LogShape>();
  expectTypeOf(getSchedulePrompt({ date: new Date() })).toEqualTypeOf<string>();
  expectTypeOf(subscribe("rpc", (event) => void event.type)).toEqualTypeOf<() => void>();
  // @ts-expect-error: no such channel
  subscribe("rcp", () => undefined);
  void Untyped;
}

/** Never runs either. */
function routes(): ReadonlyArray<WebhookRoute> {
  // @ts-expect-error: who may call must be said
  webhook("/webhooks/x", { agent: Orders, entity: body("id") });
  // @ts-expect-error: and so must which agent
  webhook("/webhooks/x", { agent: Orders, verify: unsigned({}) });
  // @ts-expect-error: an entity is a source, not a field's name
  webhook("/webhooks/x", { agent: Orders, verify: unsigned({}), entity: "id" });
  // @ts-expect-error: a class or its name, not an agent
  webhook("/webhooks/x", { agent: 7, verify: unsigned({}), entity: body("id") });
  // @ts-expect-error: there are two kinds of answer
  webhook("/x", { agent: Orders, verify: unsigned({}), entity: body("id"), answer: "never" });
  // @ts-expect-error: GitHub signs no time that could be tolerated
  github({ secret: "GITHUB_SECRET", toleranceSeconds: 5 });
  // @ts-expect-error: a secret is needed
  stripe({});
  return [
    webhook("/webhooks/github", {
      agent: Orders,
      verify: github({ secret: "GITHUB_SECRET" }),
      entity: body("repository.full_name", slug),
    }),
    webhook("/webhooks/stripe/:customer", {
      agent: "Orders",
      verify: stripe({ secret: "STRIPE_SECRET", toleranceSeconds: 60 }),
      entity: path("customer", { trust: true }),
      answer: "stored",
    }),
    webhook("/webhooks/own", {
      agent: Orders,
      verify: hmac({ secret: "OWN_SECRET" }),
      entity: header("x-team", (value) => value.trim(), { name: "team" }),
    }),
    webhook("/webhooks/one", { agent: Orders, verify: unsigned({}), entity: constant("only") }),
  ];
}

describe("the public types", () => {
  it("type onStart's argument by the third parameter", () => {
    expectTypeOf<Parameters<Orders["onStart"]>>().toEqualTypeOf<[props?: Props | undefined]>();
    expectTypeOf<Parameters<Agent["onStart"]>>().toEqualTypeOf<
      [_props?: Record<string, unknown> | undefined]
    >();
  });
  it("type agents, connections, jobs and routing, and accept nothing else", () => {
    expectTypeOf<typeof compiled>().returns.toEqualTypeOf<Promise<void>>();
  });
  it("require agent, verifier and entity of a declared route, and reject options that its provider lacks", () => {
    expectTypeOf<typeof routes>().returns.toEqualTypeOf<ReadonlyArray<WebhookRoute>>();
  });
});

it("a page's handler for MCP servers accepts the agent's own type of them", () => {
  type Handler = NonNullable<UseAgentOptions["onMcpUpdate"]>;
  expectTypeOf<(mcp: McpServersState) => void>().toExtend<Handler>();
  expectTypeOf<ElicitRequest["params"]["requestedSchema"]>().toExtend<
    { readonly properties?: Readonly<Record<string, unknown>> } | undefined
  >();
});
