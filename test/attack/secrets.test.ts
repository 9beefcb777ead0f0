/** Credentials of requests are kept nowhere: all streams, files and logs are searched. */
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent, routeAgentRequest, type Connection, type ConnectionContext } from "agents";
import { body, github, gitlabToken, meta, webhook } from "agents/webhooks";
import { sign } from "agents/webhooks";
import { adapters } from "../http/kit.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { deadLetterOf, journalOf, read, SECRET, TestSocket, useSystems, type System } from "../system/kit.ts"; // prettier-ignore

/** In every secret, and in nothing else. */
const MARK = "hunter2";
const GITLAB = `${MARK}-gitlab`;

const SECRET_HEADERS = [
  "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-access-token", "x-csrf-token",
  "x-xsrf-token", "x-gitlab-token", "private-token", "x-session-token", "x-webhook-secret", "x-hook-secret", "x-vault-token",
  "x-telegram-bot-api-secret-token", "x-goog-channel-token", "x-goog-api-key", "x-amz-security-token", "x-shopify-access-token",
  "x-forwarded-access-token", "cf-access-jwt-assertion", "ocp-apim-subscription-key", "X-Own-Credential",
]; // prettier-ignore
const SECRET_PARAMETERS = [
  "token", "access_token", "accessToken", "api_key", "apikey", "key", "secret", "client_secret", "password", "signature", "sig",
  "code", "jwt", "auth", "hub.verify_token", "X-Amz-Signature", "%74oken",
]; // prettier-ignore

const headers = Object.fromEntries(SECRET_HEADERS.map((name, i) => [name, `${MARK}-h${i}`]));
const query = `?kept=yes&${SECRET_PARAMETERS.map((name, i) => `${name}=${MARK}-q${i}`).join("&")}`;

interface Kept {
  readonly turns: number;
}

class Keeper extends Agent<unknown, Kept> {
  static override options = { hibernateAfterSeconds: 0.2, retry: { maxAttempts: 1 } };
  override initialState = { turns: 0 };

  override async onRequest(request: Request): Promise<Response> {
    this.setState({ turns: this.state.turns + 1 });
    if (request.method === "POST" && (await request.text()).includes("fail"))
      throw new Error("it fails as told");
    return Response.json({ url: request.url, headers: Object.fromEntries(request.headers) });
  }
  override onConnect(connection: Connection, { request }: ConnectionContext): void {
    this.setState({ turns: this.state.turns + 1 });
    connection.send(JSON.stringify({ url: request.url, cookie: request.headers.get("cookie") }));
  }
}

const agent = Keeper;
const entity = body("name");
const redact = { headers: ["x-own-credential"], query: ["my_pin"] };
const verify = github({ secret: "SECRET" });
const webhooks = [
  webhook("/github", { agent, verify, entity, redact }),
  webhook("/stored", { agent, verify, entity, redact, answer: "stored" }),
  webhook("/gitlab", { agent, verify: gitlabToken({ secret: { value: GITLAB } }), entity, redact }),
  webhook("/batch", {
    agent,
    verify: meta({ secret: "SECRET", verifyToken: { value: `${MARK}-verify` } }),
    entity: body("entry.0.id"),
    redact,
  }),
];

const systems = useSystems();

describe.each(adapters.map(({ name }) => name))("on %s", (http) => {
  const folder = tempFolder("secrets");
  let system: System & { readonly options: Parameters<typeof journalOf>[0] };
  beforeAll(async () => {
    const module = {
      agents: { Keeper },
      env: { SECRET },
      webhooks,
      fetch: async (request: Request, env: unknown) => {
        if (request.url.includes("/broken")) throw new Error("a defect of the module");
        return (await routeAgentRequest(request, env)) ?? new Response("no", { status: 404 });
      },
    };
    system = await systems.start(module, { http, folder: join(folder.path, "host") });
  });
  afterAll(() => folder.remove());

  /** With the routes' own parameter. */
  const post = async (route: string, text: string, signed: Record<string, string>) =>
    read(await fetch(`${system.url}${route}${query}&my-pin=${MARK}-pin`, { method: "POST", body: text, headers: { ...headers, ...signed } })); // prettier-ignore
  const hub = (text: string) => ({
    "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(text).digest("hex")}`,
  });
  const named = (more: object = {}) => JSON.stringify({ name: "a", ...more });

  test("a webhook's agent sees no credentials, but everything else, including the signature", async () => {
    const { status, text } = await post("/github", named(), { ...sign.github(named(), SECRET, { id: "1", event: "push" }) }); // prettier-ignore
    expect(status).toBe(200);
    expect(text).not.toContain(MARK);
    const seen = JSON.parse(text) as { url: string; headers: Record<string, string> };
    expect(seen.url).toContain("?kept=yes&token=REDACTED&");
    expect(seen.headers).toMatchObject({ "x-github-event": "push", ...hub(named()) });
    for (const name of SECRET_HEADERS) expect(seen.headers).not.toHaveProperty(name.toLowerCase());
    const turns = (await journalOf(system.options, "Keeper", "a")).flatMap((event) => event.turns);
    expect(turns.at(-1)?.cause).toMatchObject({ url: seen.url, headers: seen.headers });
  });

  test("GitLab's token admits its webhook and is not passed on; neither is a wrong one", async () => {
    const event = { "x-gitlab-event": "Push Hook", "idempotency-key": `gl-${http}` };
    const right = await post("/gitlab", named(), { "x-gitlab-token": GITLAB, ...event });
    expect(right.status).toBe(200);
    expect(right.text).not.toContain(MARK);
    expect(await post("/gitlab", named(), { ...event, "x-gitlab-token": `${MARK}-wrong` })).toMatchObject({ status: 401 }); // prettier-ignore
  });

  test("stored, batched and dead webhooks contain no credentials", async () => {
    expect(await post("/stored", named(), hub(named()))).toMatchObject({ status: 202 });
    const batch = JSON.stringify({ entry: [{ id: "b" }, { id: "c" }] });
    expect(await post("/batch", batch, hub(batch))).toMatchObject({ status: 200 });
    const failing = named({ name: "d", fail: true });
    expect(await post("/github", failing, hub(failing))).toMatchObject({ status: 500 });
    await pollUntil("it is dead", () => deadLetterOf(system.options, "Keeper", "d"));
    await pollUntil("the batch is done", async () => (await journalOf(system.options, "Keeper", "c")).length > 0); // prettier-ignore
  });

  test("credentials of a request or a socket are visible only while it is live", async () => {
    const url = `${system.url}/agents/keeper/a${query}`;
    const answer = JSON.parse((await read(await fetch(url, { headers }))).text) as {
      url: string;
      headers: Record<string, string>;
    };
    expect(answer.url).toContain(`token=${MARK}-q0`);
    expect(answer.headers).toMatchObject({ authorization: headers["authorization"] });
    const socket = await TestSocket.open(url, { cookie: `session=${MARK}`, authorization: MARK });
    const first = await pollUntil("onConnect has told", () =>
      socket.json.find((frame) => (frame as { url?: string }).url !== undefined),
    );
    expect(first).toEqual({ url, cookie: `session=${MARK}` });
    await socket.close();
    // A failure is logged with its URL.
    expect(await read(await fetch(`${system.url}/broken${query}`))).toMatchObject({ status: 500 });
  });

  test("credentials are nowhere in streams, files, history, dead letters, backup or logs", async () => {
    await pollUntil("nobody is in memory", () => system.host.host.agentsActive === 0);
    const cli = (...args: string[]) =>
      runAgents(args, {
        NATS_URL: system.options.nats,
        AGENTS_NAMESPACE: system.options.namespace!,
      });
    const history = await cli("history", "Keeper", "a", "--json");
    expect(history).toMatchObject({ code: 0, out: expect.stringContaining("kept=yes") as string });
    const dead = await cli("dead", "list", "--json");
    const shown = await cli("dead", "show", String((JSON.parse(dead.out.split("\n")[0]!) as { id: number }).id)); // prettier-ignore
    expect(shown).toMatchObject({ code: 0, out: expect.stringContaining("kept=yes") as string });
    expect(await cli("backup", join(folder.path, "backup"))).toMatchObject({ code: 0 });
    const messages = await storedMessages(system.options.nats);
    expect(messages).toContain("kept=yes");
    const logs = JSON.stringify([system.host.log.lines, system.gateway.log.lines]);
    expect(logs).toContain("the module's fetch failed");
    const places = {
      history: history.out, dead: dead.out + shown.out, messages, logs,
      ...filesIn(folder.path), ...filesIn(systems.nats.storeDir),
    }; // prettier-ignore
    expect(Object.keys(places).length).toBeGreaterThan(20);
    expect(Object.entries(places).filter(([, text]) => text.includes(MARK)).map(([at]) => at)).toEqual([]); // prettier-ignore
  });
});

/** Every message in a stream: subject, headers and data. */
async function storedMessages(nats: string): Promise<string> {
  const client = await connect({ servers: nats.replace("nats://", "") });
  try {
    const manager = await jetstreamManager(client);
    const texts: string[] = [];
    for await (const { config, state } of manager.streams.list())
      for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
        const message = await manager.streams.getMessage(config.name, { seq }).catch(() => null);
        if (message === null) continue;
        const { subject, header, data } = message;
        texts.push(subject, JSON.stringify(header), Buffer.from(data).toString("latin1"));
      }
    return texts.join("\n");
  } finally {
    await client.close();
  }
}

/** All files below a folder, as Latin-1. */
const filesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path, readFileSync(path, "latin1")]),
  );
