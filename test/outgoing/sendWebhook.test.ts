/** Webhooks that agents send: what arrives, when it is tried again, and what is never sent. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Webhook } from "standardwebhooks";
import {
  Agent,
  getAgentByName,
  getCurrentAgent,
  type AgentNamespace,
  type OutgoingWebhookFailed,
  type SendWebhookOptions,
} from "agents";
import { body, github, webhook } from "agents/webhooks";
import { makeWebhook } from "../../core/outgoing/OutgoingWebhook.ts";
import { nodeOutgoing } from "../../services/node/NodeOutgoing.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import {
  deadLetterOf,
  journalOf,
  postGithub,
  SECRET,
  useSystems,
  type System,
} from "../system/kit.ts";

const STANDARD_SECRET = `whsec_${Buffer.from("twenty-four secret bytes").toString("base64")}`;

interface Env {
  readonly SenderAgent: AgentNamespace<SenderAgent>;
  readonly StrictAgent: AgentNamespace<SenderAgent>;
  readonly SIGNING_KEY: string;
  readonly log: string[];
}

class SenderAgent extends Agent<Env> {
  static override options: {
    retry: { maxAttempts: number; baseDelayMs: number; maxDelayMs: number };
    allowPrivateHosts?: boolean;
  } = {
    retry: { maxAttempts: 3, baseDelayMs: 1, maxDelayMs: 5 },
    allowPrivateHosts: true,
  };

  send(url: string, content: unknown, options?: SendWebhookOptions) {
    return this.sendWebhook(url, content, options);
  }
  sendSigned(url: string, content: unknown) {
    return this.sendWebhook(url, content, { secret: this.env.SIGNING_KEY });
  }
  async sendWithoutSecret(url: string) {
    return this.sendWebhook(url, 1, { secret: undefined as unknown as string });
  }
  async sendMany(url: string) {
    for (let i = 0; i < 5; i++) await this.sendWebhook(url, { i });
    await this.queue("job");
  }
  job() {
    this.env.log.push("job");
  }
  async sendAndAbort(url: string) {
    await this.sendWebhook(url, "never");
    this.ctx.abort("before the commit");
  }
  rows() {
    return this.sql`SELECT * FROM svc_agents_outgoing`.length;
  }
  override async onRequest(request: Request) {
    const { url } = (await request.json()) as { url: string };
    await this.sendWebhook(url, { forwarded: true });
    await this.sendWebhook(url, { forwarded: "twice" });
    if (getCurrentAgent().attempt === 1) throw new Error("again");
    return new Response("OK");
  }
  override onError(error: unknown) {
    const { name, message, status } = error as OutgoingWebhookFailed & Error;
    if (message === "again") throw error;
    this.env.log.push(`${name} ${status ?? "-"}: ${message}`);
  }
}
class StrictAgent extends SenderAgent {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 5 } };
}

interface Received {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}
const received: Received[] = [];
/** Statuses to answer with, the first request first; then 204. */
const statuses: number[] = [];
let target: Server;
let at: string;

const systems = useSystems();
const log: string[] = [];
let system: System & { readonly options: Parameters<typeof journalOf>[0] };

beforeAll(async () => {
  target = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      received.push({ url: request.url!, headers: request.headers, body: text });
      response.writeHead(statuses.shift() ?? 204).end("an answer that nobody reads");
    });
  });
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  at = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
  system = await systems.start({
    agents: { SenderAgent, StrictAgent },
    env: { log, SECRET, SIGNING_KEY: "a key of the environment" },
    webhooks: [
      webhook("/webhooks/github", {
        agent: SenderAgent,
        verify: github({ secret: "SECRET" }),
        entity: body("name"),
      }),
    ],
  });
});
afterAll(async () => {
  await system.stop();
  target.close();
});
beforeEach(() => {
  received.length = statuses.length = log.length = 0;
});

const sender = (name: string) =>
  getAgentByName((system.gateway.env as unknown as Env).SenderAgent, name);
const arrived = (count: number) =>
  pollUntil(`${count} requests`, () =>
    received.length >= count ? { done: true, value: true } : { done: false, saw: received },
  );
const hex = (key: string, text: string) =>
  `sha256=${createHmac("sha256", key).update(text).digest("hex")}`;

describe("the receiver", () => {
  test("receives a POST of JSON with an idempotency key, and the caller's headers", async () => {
    const id = await (
      await sender("plain")
    ).send(
      `${at}/in?x=1`,
      { ž: [1] },
      {
        headers: { "X-Kind": "test", authorization: "Bearer t" },
      },
    );
    await arrived(1);
    expect(received[0]).toMatchObject({ url: "/in?x=1", body: '{"ž":[1]}' });
    expect(received[0]!.headers).toMatchObject({
      "content-type": "application/json",
      "idempotency-key": id,
      "x-kind": "test",
      authorization: "Bearer t",
    });
    expect(received[0]!.headers["x-signature"]).toBeUndefined();
  });

  test("can verify the body by X-Signature", async () => {
    await (await sender("signed")).send(`${at}/`, { a: 1 }, { secret: "s3cret" });
    await arrived(1);
    expect(received[0]!.headers["x-signature"]).toBe(hex("s3cret", received[0]!.body));
  });

  test("can verify it with the Standard Webhooks library", async () => {
    await (
      await sender("standard")
    ).send(`${at}/`, { type: "a.b" }, { secret: STANDARD_SECRET, standardWebhooks: true });
    await arrived(1);
    const { headers, body: text } = received[0]!;
    expect(new Webhook(STANDARD_SECRET).verify(text, headers as Record<string, string>)).toEqual({
      type: "a.b",
    });
    expect(headers["webhook-id"]).toBe(headers["idempotency-key"]);
    expect(headers["x-signature"]).toBe(hex(STANDARD_SECRET, text));
  });

  test("receives webhooks in the order of the calls", async () => {
    statuses.push(500);
    await (await sender("ordered")).sendMany(`${at}/`);
    await arrived(6);
    expect(received.map(({ body: text }) => (JSON.parse(text) as { i: number }).i)).toEqual([
      0, 0, 1, 2, 3, 4,
    ]);
    await pollUntil("the job of the queue", () => log.includes("job"));
  });
});

describe("a secret", () => {
  test("of the environment is stored as its variable's name only, without a signature", async () => {
    await (await sender("secretive")).sendSigned(`${at}/`, { a: 1 });
    await arrived(1);
    expect(received[0]!.headers["x-signature"]).toBe(
      hex("a key of the environment", received[0]!.body),
    );
    const events = JSON.stringify(await journalOf(system.options, "SenderAgent", "secretive"));
    expect(events).toContain("SIGNING_KEY");
    expect(events).not.toContain("a key of the environment");
    expect(events).not.toContain("sha256=");
  });
  test("that is not of the environment is not stored; its signature is", async () => {
    await (await sender("literal")).send(`${at}/`, 1, { secret: "literally" });
    await arrived(1);
    const events = JSON.stringify(await journalOf(system.options, "SenderAgent", "literal"));
    expect(events).toContain("sha256=");
    expect(events).not.toContain("literally");
  });
});

describe("an answer that is not 2xx", () => {
  test("is retried with the same idempotency key until it is 2xx", async () => {
    statuses.push(500, 302);
    const id = await (await sender("again")).send(`${at}/`, { n: 1 });
    await arrived(3);
    expect(received.map(({ headers }) => headers["idempotency-key"])).toEqual([id, id, id]);
    await pollUntil("it is done with", async () => (await (await sender("again")).rows()) === 0);
    expect(log).toEqual([]);
  });

  test("to the last attempt goes to onError with the status, and to the dead letters; the next webhook is sent", async () => {
    statuses.push(503, 503, 503);
    const agent = await sender("dead");
    await agent.send(`${at}/gone?token=secret`, { n: 1 });
    await agent.send(`${at}/next`, { n: 2 });
    await arrived(4);
    expect(received.map(({ url }) => url)).toEqual([
      ...Array.from({ length: 3 }, () => "/gone?token=secret"),
      "/next",
    ]);
    await pollUntil("onError", () => log.length > 0);
    expect(log).toEqual([`OutgoingWebhookFailed 503: The webhook to ${at}/gone was answered 503`]);
    expect(await deadLetterOf(system.options, "SenderAgent", "dead")).toMatchObject({
      reason: expect.stringContaining("answered 503"),
    });
  });

  test("uses the call's own retry options first", async () => {
    statuses.push(500, 500, 500);
    await (await sender("once")).send(`${at}/`, 1, { retry: { maxAttempts: 1 } });
    await pollUntil("onError", () => log.length > 0);
    expect(received).toHaveLength(1);
  });
});

describe("a webhook is never sent", () => {
  test.each([
    ["a URL that is none", "nowhere", {}, "is not an http or https URL"],
    ["another protocol", "file:///etc/passwd", {}, "is not an http or https URL"],
    [
      "a header of the runtime",
      "http://a.test/",
      { headers: { "X-Signature": "x" } },
      "x-signature",
    ],
    ["a header that can't be", "http://a.test/", { headers: { "a b": "x" } }, "a b"],
    [
      "a bad policy",
      "http://a.test/",
      { retry: { maxAttempts: 0 } },
      "retry.maxAttempts must be >= 1",
    ],
    [
      "an option that there is not",
      "http://a.test/",
      { header: {} } as object,
      'unknown option "header"',
    ],
    ["a secret that is null", "http://a.test/", { secret: null } as object, "secret is null"],
    ["a secret that is no text", "http://a.test/", { secret: 123 } as object, "secret is number"],
    ["an empty secret", "http://a.test/", { secret: "" }, "secret is empty"],
    ["Standard Webhooks unsigned", "http://a.test/", { standardWebhooks: true }, "needs a secret"],
    [
      "Standard Webhooks with another secret",
      "http://a.test/",
      { standardWebhooks: true, secret: "plain" },
      "whsec_ followed by base64",
    ],
  ])("when %s: the call rejects", async (_what, url, options, message) => {
    await expect((await sender("rejecting")).send(url, 1, options)).rejects.toThrow(message);
  });

  test("when its body has a Map, of which JSON would keep {}: the call throws with its place", () => {
    const call = { url: "http://a.test/", body: { seen: new Map() }, options: {}, id: "msg_1", env: {}, allowPrivate: true, nowMs: 0 }; // prettier-ignore
    expect(() => makeWebhook(call, nodeOutgoing)).toThrow(
      "sendWebhook: the body: .seen is a Map, which JSON can't represent",
    );
  });

  test("when its secret is that of a variable that is not set: the call rejects", async () => {
    const agent = await sender("unset");
    await expect(agent.sendWithoutSecret("http://a.test/")).rejects.toThrow("secret is undefined");
  });

  test("to a private address, unless the class or the call allows it", async () => {
    const strict = await getAgentByName(
      (system.gateway.env as unknown as Env).StrictAgent,
      "strict",
    );
    await expect(strict.send(`${at}/`, 1)).rejects.toThrow("not an address of the public internet");
    await expect(strict.send("http://169.254.169.254/", 1)).rejects.toThrow("public internet");
    expect(await strict.send(`${at}/allowed`, 1, { allowPrivate: true })).toMatch(/^msg_/);
    await arrived(1);
    expect(received.map(({ url }) => url)).toEqual(["/allowed"]);
    const open = await sender("open");
    await expect(open.send(`${at}/`, 1, { allowPrivate: false })).rejects.toThrow(
      "public internet",
    );
  });

  test("by a turn that did not commit", async () => {
    const agent = await sender("aborted");
    await agent.sendAndAbort(`${at}/aborted`).catch(() => undefined);
    await agent.send(`${at}/after`, 1);
    await arrived(1);
    expect(received.map(({ url }) => url)).toEqual(["/after"]);
  });
});

describe("a host that ends", () => {
  test("leaves unsent webhooks to the next host, which sends them", async () => {
    const options = systems.options(
      { agents: { SenderAgent }, env: { log, SIGNING_KEY: "k" } },
      { leaseTtlMs: 2000 },
    );
    const first = await startTestHost(options, "host-a");
    const gateway = await startTestGateway(options, "gateway-a");
    const agent = await getAgentByName((gateway.env as unknown as Env).SenderAgent, "moving");
    statuses.push(...Array.from({ length: 400 }, () => 500));
    await agent.send(
      `${at}/`,
      { moved: true },
      {
        retry: { maxAttempts: 500, baseDelayMs: 1, maxDelayMs: 20 },
      },
    );
    await arrived(2);
    const second = await startTestHost(options, "host-b");
    const stopped = first.stop();
    await arrived(5);
    statuses.length = 0;
    await pollUntil("it is done with", async () => (await agent.rows()) === 0, {
      timeoutMs: 20_000,
    });
    expect(new Set(received.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    await stopped;
    await gateway.stop();
    await second.stop();
  });
});

test("a webhook turn that runs again sends the same webhooks under the same keys", async () => {
  const url = `${system.url}/webhooks/github`;
  const sent = await postGithub(url, { name: "keyed", url: `${at}/` }, { id: "d-1" });
  expect(sent.status).toBe(200);
  await pollUntil("all is sent", async () => (await (await sender("keyed")).rows()) === 0);
  const bodies = new Map(
    received.map(({ headers, body: text }) => [headers["idempotency-key"], text]),
  );
  expect([...bodies.values()]).toEqual(['{"forwarded":true}', '{"forwarded":"twice"}']);
  for (const key of bodies.keys()) expect(key).toMatch(/^msg_[0-9a-f]{32}$/);
});
