/** Declared webhooks, end to end: a signed request to its agent, the agent's own answer back. */
import { createRequire } from "node:module";
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, header, path, sign, slug, stripe, unsigned, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import {
  journalOf,
  makeLatch,
  postGithub,
  read,
  SECRET,
  TestSocket,
  useSystems,
  type Latch,
  type System,
} from "./kit.ts";

const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as ReadonlyArray<{
  readonly name: string;
  readonly examples: ReadonlyArray<{ readonly repository?: { readonly full_name: string } }>;
}>;

interface Env {
  /** By agent name: its turn waits for it. */
  readonly latches: Map<string, Latch>;
}

interface Counted {
  readonly count: number;
  readonly last: string;
}

class RepoAgent extends Agent<Env, Counted> {
  static override options = { http: "open" };
  override initialState = { count: 0, last: "" };

  override onStart() {
    this.sql`CREATE TABLE IF NOT EXISTS events
      (id TEXT PRIMARY KEY, type TEXT NOT NULL, payload TEXT, n INTEGER)`;
  }

  override async onRequest(request: Request) {
    if (request.method === "GET")
      return Response.json({
        state: this.state,
        rows: this.sql`SELECT id, type, n FROM events ORDER BY n`,
      });
    if (request.method !== "POST") return new Response("Method not allowed", { status: 405 });
    await this.env.latches.get(this.name)?.opened;
    const id = request.headers.get("x-github-delivery") ?? "";
    const type = request.headers.get("x-github-event") ?? "";
    const count = this.state.count + 1;
    this
      .sql`INSERT INTO events VALUES (${id}, ${type}, ${await request.text()}, ${this.state.count + 1})`;
    this.setState({ count: this.state.count + 1, last: id });
    return new Response(count > 0 ? "OK" : "");
  }
}

/** Answers with what the request asks for. */
class EchoAgent extends Agent<Env> {
  override async onRequest(request: Request) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    switch (new URL(request.url).searchParams.get("want")) {
      case "cookies": {
        const headers = new Headers({ "content-type": "text/x-own", "x-own": "yes" });
        headers.append("set-cookie", "a=1; Path=/");
        headers.append("set-cookie", "b=2");
        return new Response("made", { status: 201, headers });
      }
      case "nothing":
        return new Response(null, { status: 204 });
      case "binary":
        return new Response(Uint8Array.from([0, 255, 10, 13, 128]), {
          headers: { "content-type": "application/octet-stream" },
        });
      case "teapot":
        return new Response("short and stout", { status: 418 });
    }
    return Response.json({
      name: this.name,
      url: request.url,
      size: bytes.length,
      test: request.headers.get("x-test"),
      type: request.headers.get("content-type"),
      forged: request.headers.get("x-agents-lifecycle-props"),
    });
  }
}

const routes = [
  webhook("/webhooks/github", {
    agent: RepoAgent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
  }),
  webhook("/webhooks/guarded", {
    agent: RepoAgent,
    verify: github({ secret: "SECRET", replayGuard: true }),
    entity: body("repository.full_name", slug),
  }),
  webhook("/webhooks/hurried", {
    agent: RepoAgent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
    deadlineMs: 100,
  }),
  webhook("/webhooks/stored", {
    agent: RepoAgent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
    answer: "stored",
  }),
  webhook("/webhooks/small", {
    agent: RepoAgent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
    bodyBytesMax: 1000,
  }),
  webhook("/webhooks/unset", {
    agent: RepoAgent,
    verify: github({ secret: "NOT_SET" }),
    entity: body("repository.full_name", slug),
  }),
  webhook("/webhooks/stripe/:customer", {
    agent: EchoAgent,
    verify: stripe({ secret: "STRIPE" }),
    entity: path("customer", { trust: true }),
  }),
  webhook("/webhooks/team", {
    agent: EchoAgent,
    verify: unsigned(),
    entity: header("x-team-id", { trust: true }),
  }),
  webhook("/webhooks/:device", {
    agent: EchoAgent,
    verify: unsigned(),
    entity: path("device", { trust: true }),
  }),
];

const systems = useSystems();
const latches = new Map<string, Latch>();
let system: System & { readonly options: Parameters<typeof journalOf>[0] };

beforeAll(async () => {
  system = await systems.start({
    agents: { RepoAgent, EchoAgent },
    env: { SECRET, STRIPE: "whsec_test", latches },
    webhooks: routes,
  });
});

const post = (target: string, payload: object | string, options = {}) =>
  postGithub(system.url + target, payload, options);
const about = (name: string, more: object = {}) => ({ repository: { full_name: name }, ...more });
const look = async (name: string) =>
  (await (await fetch(`${system.url}/agents/repo-agent/${name}`)).json()) as {
    state: Counted;
    rows: unknown[];
  };

describe("a valid webhook", () => {
  test("with a real GitHub payload reaches its repository's agent: answered OK, in SQL, in state, in the journal", async () => {
    const payloads = examples
      .flatMap(({ name, examples: of }) => of.map((payload) => ({ name, payload })))
      .filter(({ payload }) => payload.repository?.full_name === "Codertocat/Hello-World")
      .slice(0, 20);
    expect(payloads).toHaveLength(20);
    const socket = await TestSocket.open(`${system.url}/agents/repo-agent/codertocat-hello-world`);
    for (const [i, { name, payload }] of payloads.entries()) {
      const answer = await post("/webhooks/github", payload, { id: `real-${i}`, event: name });
      expect([answer.status, answer.text]).toEqual([200, "OK"]);
    }
    const { state, rows } = await look("codertocat-hello-world");
    expect(state).toEqual({ count: 20, last: "real-19" });
    expect(rows).toEqual(
      payloads.map(({ name }, i) => ({ id: `real-${i}`, type: name, n: i + 1 })),
    );
    await socket.until("the last state", () => socket.states.length === 21);
    expect(socket.states).toEqual([
      { count: 0, last: "" },
      ...payloads.map((_, i) => ({ count: i + 1, last: `real-${i}` })),
    ]);
    const events = await journalOf(system.options, "RepoAgent", "codertocat-hello-world");
    const turns = events.flatMap((event) => event.turns).filter((t) => t.cause.kind === "webhook");
    expect(turns.map((t) => t.done)).toEqual(payloads.map((_, i) => [`github:real-${i}`]));
    expect(turns[0]).toMatchObject({
      cause: {
        kind: "webhook",
        id: "github:real-0",
        provider: "github",
        type: payloads[0]!.name,
        method: "POST",
        body: JSON.stringify(payloads[0]!.payload),
      },
      state: { set: { count: 1, last: "real-0" } },
      sql: [expect.stringContaining("INSERT INTO events")],
    });
    await socket.close();
  });

  test("has updated a client's state by the time its answer is read", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/repo-agent/live`);
    await socket.first(3);
    const answer = await post("/webhooks/github", about("live"));
    expect(answer.text).toBe("OK");
    await look("live");
    await socket.until("the state", () => socket.states.length === 2);
    expect(socket.states[1]).toMatchObject({ count: 1 });
    await socket.close();
  });

  test("is one event", async () => {
    await post("/webhooks/github", about("one-event"), { id: "only" });
    const events = await journalOf(system.options, "RepoAgent", "one-event");
    expect(events.map((e) => e.turns.map((t) => t.cause.kind))).toEqual([["start", "webhook"]]);
  });
});

describe("a repeated webhook", () => {
  test("is answered 200 OK and not run, whether sequential or concurrent", async () => {
    const payload = about("twice");
    await post("/webhooks/github", payload, { id: "a" });
    const again = await post("/webhooks/github", payload, { id: "a" });
    expect([again.status, again.text]).toEqual([200, "OK"]);
    const together = await Promise.all(
      Array.from({ length: 8 }, () => post("/webhooks/github", payload, { id: "b" })),
    );
    expect(together.map((t) => [t.status, t.text])).toEqual(Array(8).fill([200, "OK"]));
    expect((await look("twice")).state.count).toBe(2);
  });

  test("under another id runs again, unless the route has the replay guard", async () => {
    const payload = about("replayed");
    await post("/webhooks/github", payload, { id: "a" });
    await post("/webhooks/github", payload, { id: "b" });
    expect((await look("replayed")).state.count).toBe(2);
    const guarded = about("guarded");
    await post("/webhooks/guarded", guarded, { id: "a" });
    const again = await post("/webhooks/guarded", guarded, { id: "b" });
    expect([again.status, again.text]).toEqual([200, "OK"]);
    const other = await post("/webhooks/guarded", about("guarded", { n: 2 }), { id: "c" });
    expect(other.status).toBe(200);
    expect((await look("guarded")).state.count).toBe(2);
  });

  test("for another agent is not a duplicate", async () => {
    await post("/webhooks/github", about("left"), { id: "same" });
    await post("/webhooks/github", about("right"), { id: "same" });
    expect((await look("left")).state.count).toBe(1);
    expect((await look("right")).state.count).toBe(1);
  });
});

describe("the entity", () => {
  const nameOf = async (response: Response) => ((await response.json()) as { name: string }).name;

  test("comes from the second path segment, unless a literal segment matches", async () => {
    const response = await fetch(`${system.url}/webhooks/sensor-7`, { method: "POST", body: "{}" });
    expect(await nameOf(response)).toBe("sensor-7");
  });

  test("comes from the third path segment, percent-decoded", async () => {
    const payload = JSON.stringify({ id: "evt_1", type: "x" });
    const response = await fetch(`${system.url}/webhooks/stripe/cus%2F9`, {
      method: "POST",
      body: payload,
      headers: sign.stripe(payload, "whsec_test"),
    });
    expect(await nameOf(response)).toBe("cus/9");
  });

  test("comes from a header", async () => {
    const response = await fetch(`${system.url}/webhooks/team`, {
      method: "POST",
      body: "{}",
      headers: { "x-team-id": "T012" },
    });
    expect(await nameOf(response)).toBe("T012");
  });

  test("may have any name of up to 1,024 bytes", async () => {
    const name = "ž".repeat(512);
    const response = await fetch(`${system.url}/webhooks/${encodeURIComponent(name)}`, {
      method: "POST",
      body: "{}",
    });
    expect(await nameOf(response)).toBe(name);
  });
});

describe("an invalid webhook", () => {
  const answer = ({ status, text }: { status: number; text: string }) => [status, text];

  test("is answered 401 Invalid signature when the signature is wrong or missing, and wakes no agent", async () => {
    const payload = about("forged");
    expect(answer(await post("/webhooks/github", payload, { secret: "wrong" }))).toEqual([
      401,
      "Invalid signature",
    ]);
    const without = await fetch(`${system.url}/webhooks/github`, {
      method: "POST",
      body: JSON.stringify(payload),
    });
    expect(answer(await read(without))).toEqual([401, "Invalid signature"]);
    expect(await journalOf(system.options, "RepoAgent", "forged")).toEqual([]);
  });

  test("is answered 400 Missing repository, and 400 Invalid JSON", async () => {
    expect(answer(await post("/webhooks/github", { zen: "x" }))).toEqual([
      400,
      "Missing repository",
    ]);
    expect(answer(await post("/webhooks/github", "no json"))).toEqual([400, "Invalid JSON"]);
  });

  test("is answered 400 if the name is longer than 1,024 bytes", async () => {
    const refused = await post("/webhooks/github", about("x".repeat(1025)));
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("1024 bytes");
  });

  test("is answered 405 Method not allowed with Allow", async () => {
    const response = await read(await fetch(`${system.url}/webhooks/github`));
    expect(answer(response)).toEqual([405, "Method not allowed"]);
    expect(response.headers.get("allow")).toBe("POST");
    expect(response.headers.get("content-type")).toMatch(/^text\/plain/);
  });

  test("is answered 413 if its body exceeds the route's limit", async () => {
    const large = await post("/webhooks/small", about("big", { pad: "x".repeat(1000) }));
    expect(large.status).toBe(413);
    expect((await post("/webhooks/small", about("big"))).status).toBe(200);
  });

  test("is answered 413 without a signature, if its body has nothing but lists", async () => {
    const unverified = (lists: number) =>
      fetch(`${system.url}/webhooks/lamp`, { method: "POST", body: `[${"[],".repeat(lists)}0]` });
    expect((await unverified(600_000)).status).toBe(413);
    expect((await unverified(1_000)).status).toBe(200);
  });

  test("is answered 404 Not found if no route is declared", async () => {
    expect(answer(await post("/webhooks/github/deeper/still", about("x")))).toEqual([
      404,
      "Not found",
    ]);
    expect(answer(await post("/elsewhere", about("x")))).toEqual([404, "Not found"]);
  });

  test("is answered 500 without details if the route's secret is not set", async () => {
    const refused = await post("/webhooks/unset", about("x"));
    expect(answer(refused)).toEqual([500, "Webhook not configured"]);
    expect(system.gateway.log.lines.at(-1)).toMatchObject({
      level: "error",
      fields: { why: expect.stringContaining("NOT_SET") },
    });
  });

  test("cannot set internal headers", async () => {
    const response = await fetch(`${system.url}/webhooks/forger`, {
      method: "POST",
      body: "{}",
      headers: { "x-agents-lifecycle-props": "e30=", "x-test": "kept" },
    });
    expect(await response.json()).toMatchObject({ test: "kept", forged: null });
  });

  test("cannot pass JSON for a form: its agent sees the content type that the body has", async () => {
    const typeOf = async (payload: string, type: string): Promise<unknown> => {
      const headers = { "content-type": type };
      const url = `${system.url}/webhooks/typed`;
      const response = await fetch(url, { method: "POST", body: payload, headers });
      return ((await response.json()) as { type: unknown }).type;
    };
    const form = "application/x-www-form-urlencoded";
    expect(await typeOf('{"title":"&payload=x"}', form)).toBe("application/json");
    expect(await typeOf("payload=x", "application/json")).toBe(form);
    expect(await typeOf('{"title":"x"}', "text/plain")).toBe("text/plain");
    expect(await typeOf("payload=x", `${form};charset=UTF-8`)).toBe(`${form};charset=UTF-8`);
  });
});

describe("the answer", () => {
  test("is 202 Accepted past the deadline, and the webhook is applied once", async () => {
    const latch = makeLatch();
    latches.set("slow", latch);
    // A busy machine may not have stored it by the deadline, and answers 503: senders ask again.
    const answered = (...wanted: readonly [number, string]): Promise<unknown> =>
      pollUntil(`it is answered ${wanted}`, async () => {
        const { status, text } = await post("/webhooks/hurried", about("slow"), { id: "late" });
        if (status !== 503) expect([200, 202]).toContain(status);
        return (status === wanted[0] && text === wanted[1]) || { done: false, saw: [status, text] };
      });
    await answered(202, "Accepted");
    await answered(202, "Accepted");
    latch.open();
    await answered(200, "OK");
    expect((await look("slow")).state.count).toBe(1);
  });

  test("is 202 Accepted at once if the route says stored, and the agent runs later", async () => {
    const latch = makeLatch();
    latches.set("background", latch);
    const stored = await post("/webhooks/stored", about("background"));
    expect([stored.status, stored.text]).toEqual([202, "Accepted"]);
    latch.open();
    await pollUntil("it ran", async () => (await look("background")).state.count === 1);
  });

  const want = async (what: string) =>
    read(await fetch(`${system.url}/webhooks/echo?want=${what}`, { method: "POST", body: "{}" }));

  test("is the agent's own: status, headers, each cookie, body", async () => {
    const made = await want("cookies");
    expect([made.status, made.text]).toEqual([201, "made"]);
    expect(made.headers.get("x-own")).toBe("yes");
    expect(made.headers.get("content-type")).toBe("text/x-own");
    expect(made.headers.getSetCookie()).toEqual(["a=1; Path=/", "b=2"]);
    const nothing = await want("nothing");
    expect([nothing.status, nothing.bytes.length]).toEqual([204, 0]);
    const binary = await want("binary");
    expect([...binary.bytes]).toEqual([0, 255, 10, 13, 128]);
    expect(binary.headers.get("content-type")).toBe("application/octet-stream");
    expect([(await want("teapot")).status, (await want("teapot")).text]).toEqual([
      418,
      "short and stout",
    ]);
  });

  test("comes from a request with the URL as the caller sent it", async () => {
    const response = await fetch(`${system.url}/webhooks/seen?a=1&b=%20`, {
      method: "POST",
      body: "{}",
    });
    expect(await response.json()).toMatchObject({ url: `${system.url}/webhooks/seen?a=1&b=%20` });
  });
});

describe("many webhooks", () => {
  test("of one agent run in the order in which they were stored", async () => {
    for (let i = 0; i < 100; i++)
      expect((await post("/webhooks/stored", about("ordered"), { id: `n-${i}` })).status).toBe(202);
    const { rows } = await pollUntil("all ran", async () => {
      const seen = await look("ordered");
      return seen.state.count === 100
        ? { done: true, value: seen }
        : { done: false, saw: seen.state };
    });
    expect(rows.map((row) => (row as { id: string }).id)).toEqual(
      Array.from({ length: 100 }, (_, i) => `n-${i}`),
    );
  });

  test("of a slow agent do not hold up the others", async () => {
    const latch = makeLatch();
    latches.set("stuck", latch);
    for (let i = 0; i < 400; i++) await post("/webhooks/stored", about("stuck"), { id: `s-${i}` });
    const others = await Promise.all(
      Array.from({ length: 40 }, (_, i) => post("/webhooks/github", about(`free-${i}`))),
    );
    expect(others.map((o) => o.status)).toEqual(Array(40).fill(200));
    latch.open();
    await pollUntil("the slow one did all of its own", async () => {
      const { state } = await look("stuck");
      return state.count === 400 ? { done: true, value: true } : { done: false, saw: state };
    });
  });
});
