/** Webhooks when something fails: the agent's code, the broker, sizes, too many callers. */
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, getCurrentAgent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import {
  deadLetterOf,
  journalOf,
  makeLatch,
  postGithub,
  SECRET,
  useSystems,
  type Latch,
  type System,
} from "./kit.ts";

interface Env {
  /** How often an agent's next runs fail. */
  readonly failures: Map<string, number>;
  /** Attempts that an agent was informed of. */
  readonly attempts: Map<string, number[]>;
  readonly latches: Map<string, Latch>;
}

class FragileAgent extends Agent<Env, number> {
  static override options = { retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 40 } };
  override initialState = 0;

  override async onRequest() {
    const { failures, attempts, latches } = this.env;
    attempts.set(this.name, [...(attempts.get(this.name) ?? []), getCurrentAgent().attempt]);
    await latches.get(this.name)?.opened;
    this.setState(this.state + 1);
    const left = failures.get(this.name) ?? 0;
    failures.set(this.name, left - 1);
    if (left > 0) throw new Error("broken as ordered");
    return new Response("OK");
  }
}

class ForgivingAgent extends FragileAgent {
  override onError(error: unknown) {
    this.setState(-1);
    this.env.attempts.set(`${this.name}:error`, [getCurrentAgent().attempt]);
    void error;
  }
}

class LargeAgent extends Agent<Env> {
  static override options = { http: "open" };
  override async onRequest(request: Request) {
    const given = new Uint8Array(await request.arrayBuffer());
    const answer = new Uint8Array(3 * 1024 * 1024).map((_, i) => i % 251);
    return new Response(answer, {
      headers: { "x-size": String(given.length), "x-hash": hash(given) },
    });
  }
}

const hash = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

const failures = new Map<string, number>();
const attempts = new Map<string, number[]>();
const latches = new Map<string, Latch>();
const route = (path: string, agent: typeof FragileAgent | typeof LargeAgent, more = {}) =>
  webhook(path, {
    agent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
    ...more,
  });
const module = {
  agents: { FragileAgent, ForgivingAgent, LargeAgent },
  env: { SECRET, failures, attempts, latches },
  webhooks: [
    route("/webhooks/fragile", FragileAgent),
    route("/webhooks/forgiving", ForgivingAgent),
    route("/webhooks/large", LargeAgent, { deadlineMs: 60_000 }),
    route("/webhooks/hurried", FragileAgent, { deadlineMs: 300 }),
  ],
};
const about = (name: string, more: object = {}) => ({ repository: { full_name: name }, ...more });

describe("an agent that throws", () => {
  const systems = useSystems();
  let system: System & { readonly options: Parameters<typeof journalOf>[0] };
  beforeAll(async () => {
    system = await systems.start(module);
  });
  const post = (path: string, name: string, id: string) =>
    postGithub(system.url + path, about(name), { id });
  const turnsOf = async (className: string, name: string) =>
    (await journalOf(system.options, className, name)).flatMap((event) => event.turns);

  test("runs again with backoff until it succeeds, and each run knows its attempt number", async () => {
    failures.set("twice", 2);
    const answer = await post("/webhooks/fragile", "twice", "a");
    expect([answer.status, answer.text]).toEqual([200, "OK"]);
    expect(attempts.get("twice")).toEqual([1, 2, 3]);
  });

  test("has each failed run in its journal, with its attempt and error", async () => {
    failures.set("told", 1);
    await post("/webhooks/fragile", "told", "a");
    const turns = await turnsOf("FragileAgent", "told");
    expect(turns.filter((t) => t.cause.kind === "webhook")).toMatchObject([
      { state: { set: 1 }, error: "Error: broken as ordered" },
      { cause: { attempt: 2 }, done: ["github:a"] },
    ]);
  });

  test("is answered 500 without its message after the last attempt, and the input is a dead letter", async () => {
    failures.set("doomed", 99);
    const answer = await post("/webhooks/fragile", "doomed", "a");
    expect([answer.status, answer.text]).toEqual([500, "Internal Server Error"]);
    expect(attempts.get("doomed")).toEqual([1, 2, 3]);
    expect(await deadLetterOf(system.options, "FragileAgent", "doomed")).toMatchObject({
      agent: ["FragileAgent", "doomed"],
      reason: "Error: broken as ordered",
      host: "host-a",
    });
  });

  test("can receive a dead input again, which runs from its first attempt", async () => {
    failures.set("risen", 3);
    expect((await post("/webhooks/fragile", "risen", "a")).status).toBe(500);
    expect((await post("/webhooks/fragile", "risen", "a")).status).toBe(200);
    expect(attempts.get("risen")).toEqual([1, 2, 3, 1]);
  });

  test("with an onError that returns is a plain 500 at once, and does not run again", async () => {
    failures.set("forgiven", 1);
    const answer = await post("/webhooks/forgiving", "forgiven", "a");
    expect([answer.status, answer.text]).toEqual([500, "Internal Server Error"]);
    expect(attempts.get("forgiven")).toEqual([1]);
    expect((await post("/webhooks/forgiving", "forgiven", "a")).status).toBe(200);
    expect(attempts.get("forgiven")).toEqual([1]);
  });

  test("runs its onError in the failed turn, including its writes", async () => {
    failures.set("same-turn", 1);
    await post("/webhooks/forgiving", "same-turn", "a");
    expect(attempts.get("same-turn:error")).toEqual([1]);
    const turns = await turnsOf("ForgivingAgent", "same-turn");
    expect(turns.at(-1)).toMatchObject({
      cause: { kind: "webhook" },
      state: { set: -1 },
      done: ["github:a"],
    });
    expect(turns.filter((t) => t.cause.kind === "background")).toEqual([]);
  });
});

describe("the broker's payload limit", () => {
  const systems = useSystems({ maxPayload: 1024 * 1024 });
  test("limits neither bodies nor answers: 5 MiB in, 3 MiB out", async () => {
    const system = await systems.start(module);
    const payload = JSON.stringify(about("large", { pad: "x".repeat(5 * 1024 * 1024) }));
    const answer = await postGithub(`${system.url}/webhooks/large`, payload);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-size")).toBe(String(payload.length));
    expect(answer.headers.get("x-hash")).toBe(hash(payload));
    expect(answer.bytes.length).toBe(3 * 1024 * 1024);
    expect(answer.bytes.every((byte, i) => byte === i % 251)).toBe(true);
    const direct = await fetch(`${system.url}/agents/large-agent/direct`, {
      method: "POST",
      body: payload,
    });
    expect(direct.headers.get("x-hash")).toBe(hash(payload));
    expect((await direct.arrayBuffer()).byteLength).toBe(3 * 1024 * 1024);
  });
});

describe("more callers than the gateway holds", () => {
  const systems = useSystems();
  test("are answered 429 with Retry-After, and are admitted again later", async () => {
    const system = await systems.start(module, { gateway: { webhooksWaitingMax: 2 } });
    const latch = makeLatch();
    latches.set("busy", latch);
    const url = `${system.url}/webhooks/fragile`;
    const held = [postGithub(url, about("busy")), postGithub(url, about("busy"))];
    await pollUntil("both run", () => attempts.get("busy")?.length === 2);
    const refused = await postGithub(url, about("busy"));
    expect([refused.status, refused.text]).toEqual([429, "Too many requests"]);
    expect(refused.headers.get("retry-after")).toBe("1");
    latch.open();
    expect((await Promise.all(held)).map((h) => h.status)).toEqual([200, 200]);
    expect((await postGithub(url, about("busy"))).status).toBe(200);
  });
});

describe("an unavailable broker", () => {
  const systems = useSystems();
  test("causes a 503 at the deadline, and a webhook that can wait for it is answered by its agent", async () => {
    const system = await systems.start(module);
    const url = `${system.url}/webhooks`;
    expect((await postGithub(`${url}/fragile`, about("outage"), { id: "before" })).status).toBe(
      200,
    );
    await systems.nats.kill();
    const refused = await postGithub(`${url}/hurried`, about("outage"), { id: "refused" });
    expect([refused.status, refused.text]).toEqual([503, "Service Unavailable"]);
    expect(refused.headers.get("retry-after")).toBe("1");
    const held = Array.from({ length: 5 }, (_, i) =>
      postGithub(`${url}/fragile`, about("outage"), { id: `held-${i}` }),
    );
    await systems.nats.restart();
    expect((await Promise.all(held)).map((h) => [h.status, h.text])).toEqual(
      Array(5).fill([200, "OK"]),
    );
    const again = await postGithub(`${url}/fragile`, about("outage"), { id: "before" });
    expect(again.status).toBe(200);
    const keys = (await journalOf(system.options, "FragileAgent", "outage"))
      .flatMap((e) => e.turns)
      .flatMap((t) => t.done ?? []);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toEqual(expect.arrayContaining(["github:before", "github:held-4"]));
  });
});
