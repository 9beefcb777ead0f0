/** Rate limits: buckets, addresses behind proxies, and the gateway's 429 responses. */
import { describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, sign, webhook, type Verifier } from "agents/webhooks";
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import { addressOf } from "../../core/http/clientAddress.ts";
import { RateLimit } from "../../services/gateway/RateLimit.ts";
import { TestSocket, useSystems } from "./kit.ts";

describe("a bucket", () => {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };

  test("allows its burst at once, then its rate, and returns how long to wait", () => {
    const limit = new RateLimit({ perSecond: 2, burst: 3 }, clock);
    expect([1, 2, 3].map(() => limit.take("a"))).toEqual([0, 0, 0]);
    expect(limit.take("a")).toBe(1);
    clock.nowMs += 500;
    expect(limit.take("a")).toBe(0);
    expect(limit.take("a")).toBe(1);
    expect(limit.take("b")).toBe(0);
    clock.nowMs += 60_000;
    expect([1, 2, 3].map(() => limit.take("a"))).toEqual([0, 0, 0]);
    expect(limit.take("a")).toBe(1);
  });

  test("uses no token for a refused request", () => {
    const limit = new RateLimit({ perSecond: 1, burst: 1 }, clock);
    expect(limit.take("a")).toBe(0);
    for (let n = 0; n < 100; n++) expect(limit.take("a")).toBe(1);
    clock.nowMs += 1_000;
    expect(limit.take("a")).toBe(0);
  });

  test("uses bounded memory whatever the number of callers", () => {
    const limit = new RateLimit({ perSecond: 1, burst: 1 }, clock);
    for (let n = 0; n < 250_000; n++) limit.take(`caller-${n}`);
    const { size } = (limit as unknown as { buckets: Map<string, unknown> }).buckets;
    expect(size).toBeLessThanOrEqual(100_000);
  });
});

describe("a caller's address", () => {
  const from = (remoteAddress: string, ...forwarded: string[]): HttpRequest =>
    ({
      remoteAddress,
      headers: forwarded.length === 0 ? {} : { "x-forwarded-for": forwarded },
    }) as unknown as HttpRequest;

  test("is the connection's address, whatever the caller claims", () => {
    expect(addressOf(from("10.0.0.1", "1.2.3.4"), 0)).toBe("10.0.0.1");
    expect(addressOf(from("::ffff:10.0.0.1"), 0)).toBe("10.0.0.1");
  });

  test("behind trusted proxies is what the outermost of them saw", () => {
    expect(addressOf(from("10.0.0.1", "6.6.6.6, 1.2.3.4"), 1)).toBe("1.2.3.4");
    expect(addressOf(from("10.0.0.1", "6.6.6.6, 1.2.3.4", "10.0.0.2"), 2)).toBe("1.2.3.4");
    expect(addressOf(from("10.0.0.1"), 1)).toBe("10.0.0.1");
  });

  test("for IPv6 is its network", () => {
    expect(addressOf(from("2001:db8:1:2:3:4:5:6"), 0)).toBe("2001:db8:1:2");
    expect(addressOf(from("2001:db8::1"), 0)).toBe("2001:db8:0:0");
  });
});

/** Takes a JSON array for a batch. */
const batching = (): Verifier => ({
  provider: "batching",
  deadlineMs: 5_000,
  signs: ["body"],
  verify: ({ body: bytes }) => ({
    _tag: "Verified",
    items: (JSON.parse(Buffer.from(bytes).toString()) as unknown[]).map((item) => ({
      body: Buffer.from(JSON.stringify(item)),
    })),
  }),
});

describe("the gateway", () => {
  const SECRET = "limits";
  class Busy extends Agent {
    static override options = { http: "open" };
    override async onRequest(): Promise<Response> {
      return new Response("done");
    }
  }
  const module = {
    agents: { Busy },
    env: { SECRET },
    webhooks: [
      webhook("/hooks", {
        agent: Busy,
        verify: github({ secret: "SECRET" }),
        entity: body("name"),
      }),
    ],
  };
  const systems = useSystems();
  const entityRate = { perSecond: 0.01, burst: 2 };

  const send = (url: string, name: string, id: string) => {
    const text = JSON.stringify({ name });
    const headers = sign.github(text, SECRET, { id, event: "push" });
    return fetch(`${url}/hooks`, { method: "POST", body: text, headers });
  };

  /** Some seconds have passed where the machine is busy. */
  const expectWait = ({ headers }: Response, seconds: number): void => {
    const wait = Number(headers.get("retry-after"));
    expect(wait).toBeLessThanOrEqual(seconds);
    expect(wait).toBeGreaterThan(0.7 * seconds);
  };

  test("limits an agent's webhooks and sockets, and no other agent's", async () => {
    const system = await systems.start(module, { gateway: { entityRate } });
    const statuses = [];
    for (const id of ["1", "2", "3"]) statuses.push((await send(system.url, "hot", id)).status);
    expect(statuses).toEqual([200, 200, 429]);
    expectWait(await send(system.url, "hot", "4"), 100);
    expect((await send(system.url, "cold", "5")).status).toBe(200);
    const socket = await TestSocket.open(`${system.url}/agents/busy/hot`);
    expect(socket.refused?.status).toBe(429);
  });

  test("limits the events of a batch as if each had arrived alone, and refuses the batch whole", async () => {
    const batches = {
      agents: { Busy },
      env: { SECRET: "whsec_" + Buffer.from(SECRET).toString("base64") },
      webhooks: [
        webhook("/batch", { agent: Busy, verify: batching(), entity: body("name") }),
        ...module.webhooks,
      ],
    };
    const system = await systems.start(batches, { gateway: { entityRate } });
    const post = async (...names: ReadonlyArray<string>) => {
      const text = JSON.stringify(names.map((name) => ({ name })));
      return fetch(`${system.url}/batch`, { method: "POST", body: text });
    };
    expect((await post("hot", "hot", "hot", "warm")).status).toBe(200);
    const refused = await post("cold", "hot");
    expect(refused.status).toBe(429);
    expectWait(refused, 200);
    expect((await post("cold", "cold")).status).toBe(200);
  });

  test("limits an address before any other work", async () => {
    const gateway = { addressRate: { perSecond: 0.01, burst: 2 }, trustedProxies: 1 };
    const { url } = await systems.start(module, { gateway });
    const get = (caller: string) =>
      fetch(`${url}/agents/busy/a`, { headers: { "x-forwarded-for": caller } });
    const statuses = [];
    for (const caller of ["1.1.1.1", "1.1.1.1", "1.1.1.1", "2.2.2.2"])
      statuses.push((await get(caller)).status);
    expect(statuses).toEqual([200, 200, 429, 200]);
  });
});
