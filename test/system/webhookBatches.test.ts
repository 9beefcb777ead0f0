/** Batches and handshakes end to end, on both HTTP servers: an input for each event, once. */
import { generateKeyPairSync } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import {
  body,
  constant,
  discord,
  intercom,
  meta,
  paypal,
  sendgrid,
  sign,
  webhook,
} from "agents/webhooks";
import { makeCertificate } from "../webhooks/certificate.ts";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, read, useSystems, type System } from "./kit.ts";
import { adapters } from "../http/kit.ts";

interface Seen {
  readonly events: ReadonlyArray<unknown>;
}

class InboxAgent extends Agent<Record<string, unknown>, Seen> {
  static override options = { http: "open" };
  override initialState: Seen = { events: [] };

  override async onRequest(request: Request) {
    if (request.method === "GET") return Response.json(this.state);
    // Before the state is read: turns of one agent take turns where they wait.
    const event: unknown = await request.json();
    this.setState({ events: [...this.state.events, event] });
    return new Response("done");
  }
}

const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const ed = generateKeyPairSync("ed25519");
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = (key: typeof ec.privateKey) => key.export({ type: "pkcs8", format: "pem" }).toString();
const hex = (part: "d" | "x") =>
  Buffer.from(ed.privateKey.export({ format: "jwk" })[part]!, "base64url").toString("hex");
const DAY_MS = 24 * 3600 * 1000;
/** What PayPal's host answers with; undefined: it can't be reached. */
const paypalHost: { certificate: string | undefined } = { certificate: undefined };

const agent = InboxAgent;
const routes = [
  webhook("/webhooks/sendgrid", {
    agent,
    verify: sendgrid({
      publicKey: { value: ec.publicKey.export({ type: "spki", format: "pem" }).toString() },
    }),
    entity: body("email"),
  }),
  webhook("/webhooks/meta", {
    agent,
    verify: meta({ secret: "META_SECRET", verifyToken: "META_TOKEN" }),
    entity: body("entry.0.id"),
  }),
  webhook("/webhooks/discord", {
    agent,
    verify: discord({ publicKey: { value: hex("x") } }),
    entity: constant("discord"),
  }),
  webhook("/webhooks/intercom", {
    agent,
    verify: intercom({ secret: "META_SECRET" }),
    entity: constant("intercom"),
  }),
  webhook("/webhooks/paypal", {
    agent,
    verify: paypal({
      webhookId: { value: "WEBHOOK1" },
      fetch: () =>
        paypalHost.certificate === undefined
          ? Promise.reject(new TypeError("no route"))
          : Promise.resolve(new Response(paypalHost.certificate)),
    }),
    entity: body("resource.id"),
  }),
];

const systems = useSystems();

describe.each(adapters.map(({ name }) => name))("on %s", (http) => {
  let system: System & { readonly options: Parameters<typeof journalOf>[0] };
  beforeAll(async () => {
    system = await systems.start(
      {
        agents: { InboxAgent },
        webhooks: routes,
        env: { META_SECRET: "app secret", META_TOKEN: "our token" },
      },
      { http },
    );
  });

  const post = async (path: string, text: string, headers: Record<string, string>) => {
    const init = { method: "POST", body: text, headers };
    const { status, text: answer } = await read(await fetch(`${system.url}${path}`, init));
    return [status, answer];
  };
  const seen = async (name: string, count: number): Promise<ReadonlyArray<unknown>> => {
    const url = `${system.url}/agents/inbox-agent/${name}`;
    return pollUntil(`${name} has ${count} events`, async () => {
      const { events } = (await (await fetch(url)).json()) as Seen;
      return events.length >= count ? { done: true, value: events } : { done: false, saw: events };
    });
  };

  test("each event of a batch becomes an input of its agent, in order, once", async () => {
    const events = Array.from({ length: 40 }, (_, n) => ({
      email: `${http}-${n % 4}`,
      sg_event_id: `e${n}`,
      event: n % 2 === 0 ? "open" : "click",
      n,
    }));
    const send = (list: ReadonlyArray<unknown>) => {
      const text = JSON.stringify(list);
      return post("/webhooks/sendgrid", text, sign.sendgrid(text, pem(ec.privateKey)));
    };
    expect(await send(events)).toEqual([200, "OK"]);
    expect(await send(events.toReversed())).toEqual([200, "OK"]);
    expect(await send([...events, { email: `${http}-0`, sg_event_id: "last", n: 40 }])).toEqual([
      200,
      "OK",
    ]);
    const first = await seen(`${http}-0`, 11);
    expect(first.map((event) => (event as { n: number }).n)).toEqual([
      0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40,
    ]);
    const journal = await journalOf(system.options, "InboxAgent", `${http}-3`);
    const causes = journal.flatMap(({ turns }) => turns.map(({ cause }) => cause));
    expect(causes.filter(({ kind }) => kind === "webhook")).toHaveLength(10);
  });

  test("a batch whose signature is wrong stores nothing", async () => {
    const text = `[{"email":"${http}-forged","sg_event_id":"1"}]`;
    const headers = sign.sendgrid(`${text} `, pem(ec.privateKey));
    expect(await post("/webhooks/sendgrid", text, headers)).toEqual([401, "Invalid signature"]);
    expect(await journalOf(system.options, "InboxAgent", `${http}-forged`)).toEqual([]);
  });

  test("Meta subscribes by GET and sends batches by POST, whose agents read one entry each", async () => {
    const query = "hub.mode=subscribe&hub.challenge=42&hub.verify_token=";
    const get = async (token: string) =>
      read(await fetch(`${system.url}/webhooks/meta?${query}${encodeURIComponent(token)}`));
    expect(await get("our token")).toMatchObject({ status: 200, text: "42" });
    expect(await get("another")).toMatchObject({ status: 401 });
    const put = await fetch(`${system.url}/webhooks/meta`, { method: "PUT", body: "{}" });
    expect([put.status, put.headers.get("allow")]).toEqual([405, "POST, GET"]);
    const entry = (id: string) => ({ id, time: 1, changes: [{ field: "feed" }] });
    const text = JSON.stringify({
      object: "page",
      entry: [entry(`${http}-p`), entry(`${http}-q`)],
    });
    expect(await post("/webhooks/meta", text, sign.meta(text, "app secret"))).toEqual([200, "OK"]);
    for (const name of [`${http}-p`, `${http}-q`])
      expect(await seen(name, 1)).toEqual([{ object: "page", entry: [entry(name)] }]);
  });

  test("Discord's ping is answered 204 without a body, a wrong signature 401, an event by its agent", async () => {
    const send = (text: string, signed = text) =>
      post("/webhooks/discord", text, sign.discord(signed, hex("d")));
    expect(await send('{"type":0}')).toEqual([204, ""]);
    expect(await send('{"type":0}', "{}")).toEqual([401, "Invalid signature"]);
    expect(await send('{"type":1,"event":{"type":"X"}}')).toEqual([200, "done"]);
  });

  test("Intercom's HEAD is answered 200 without a body", async () => {
    const response = await fetch(`${system.url}/webhooks/intercom`, { method: "HEAD" });
    expect([response.status, await response.text()]).toEqual([200, ""]);
  });

  test("PayPal's certificate is fetched before its request is verified; 503 while it is unavailable", async () => {
    const text = JSON.stringify({ id: `WH-${http}`, resource: { id: `${http}-sale` } });
    const send = (certificate: string) => {
      const certUrl = `https://api.paypal.com/v1/notifications/certs/CERT-${certificate}`;
      const options = { webhookId: "WEBHOOK1", certUrl };
      return post("/webhooks/paypal", text, sign.paypal(text, pem(rsa.privateKey), options));
    };
    paypalHost.certificate = undefined;
    expect(await send(`${http}-1`)).toEqual([503, "Service Unavailable"]);
    const now = Date.now();
    paypalHost.certificate = makeCertificate(rsa, { fromMs: now - DAY_MS, toMs: now + DAY_MS });
    expect(await send(`${http}-1`), "not asked for again at once").toEqual([
      503,
      "Service Unavailable",
    ]);
    expect(await send(`${http}-2`)).toEqual([200, "done"]);
    expect(await send(`${http}-2`), "by another transmission").toEqual([200, "OK"]);
    expect(await seen(`${http}-sale`, 1)).toHaveLength(1);
  });
});
