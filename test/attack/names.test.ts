/** Names from outside are never paths: sub-agents are reached by the documented URL only. */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Agent,
  getAgentByName,
  routeAgentEmail,
  routeAgentRequest,
  type AgentEmail,
  type AgentNamespace,
} from "agents";
import {
  createAddressBasedEmailResolver,
  createSecureReplyEmailResolver,
  emailRoute,
  signAgentHeaders,
} from "agents/email";
import { WorkflowBinding } from "../../core/workflow/WorkflowBinding.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import { topLevelId } from "../../schemas/AgentPath.ts";
import { body, header, meta, path, unsigned, webhook } from "agents/webhooks";
import { adapters } from "../http/kit.ts";
import { deliver, start } from "../email/kit.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, read, TestSocket, useSystems, type System } from "../system/kit.ts";

const META = "the app's secret";
const REPLIES = "the secret of signed replies";
/** The sub-agent that attackers want to reach, by its stored name, and one that does not exist. */
const CASE = "/Vault/p/c";
const NEW_CASE = "/Vault/p/new";

/** What cases were given, of both kinds of system. */
const reached: string[] = [];

class Case extends Agent {
  override onRequest() {
    reached.push(`request ${this.name}`);
    return new Response("the case");
  }
  override onEmail() {
    reached.push(`mail ${this.name}`);
  }
  override onConnect() {
    reached.push(`socket ${this.name}`);
  }
}

class Vault extends Agent {
  override onBeforeSubAgent(request: Request): Response | void {
    if (request.headers.get("x-key") !== "right") return new Response("locked", { status: 403 });
  }
  async fill(): Promise<void> {
    await this.subAgent(Case, "c");
  }
}

interface Env {
  readonly Vault: AgentNamespace<Vault>;
  readonly Case: AgentNamespace<Case>;
}

const agent = Case;
const trusted = { trust: true };
const webhooks = [
  webhook("/hooks/body", { agent, verify: unsigned(), entity: body("name", trusted) }),
  webhook("/hooks/path/:name", { agent, verify: unsigned(), entity: path("name", trusted) }),
  webhook("/hooks/header", { agent, verify: unsigned(), entity: header("x-name", trusted) }),
  webhook("/hooks/transformed", {
    agent,
    verify: unsigned(),
    entity: body("name", trusted, (name) => `/Vault/${name}`),
  }),
  webhook("/hooks/source", {
    agent,
    verify: unsigned(),
    // The module made the name, so nothing has checked it.
    entity: { from: "body", trust: true, resolve: () => ({ _tag: "Entity", name: CASE }) },
  }),
  webhook("/hooks/batch", {
    agent,
    verify: meta({ secret: { value: META }, verifyToken: { value: "token" } }),
    entity: body("entry.0.id"),
  }),
];

const fetchModule = async (request: Request, given: unknown): Promise<Response> => {
  const env = given as Env;
  const asked = new URL(request.url).searchParams.get("name");
  if (asked === null)
    return (await routeAgentRequest(request, env)) ?? new Response("no", { status: 404 });
  return (await getAgentByName(env.Case, asked)).fetch(request);
};

test("a workflow's id can't be a path to a sub-agent", () => {
  const binding = new WorkflowBinding("Case", () => {
    throw new Error("nobody is called");
  });
  expect(() => binding.idOf(CASE)).toThrow(InvalidAddress);
  expect(() => topLevelId("Case", CASE)).toThrow(/begins with "\/"/);
  expect(topLevelId("Case", "Vault/p/c")).toEqual({ class: "Case", name: "Vault/p/c" });
});

const systems = useSystems();

describe.each(adapters.map(({ name }) => name))("over HTTP, on %s", (http) => {
  let system: System & { readonly options: Parameters<typeof journalOf>[0] };
  beforeAll(async () => {
    const agents = { Vault, Case };
    system = await systems.start({ agents, webhooks, fetch: fetchModule }, { http });
    await (system.gateway.env["Vault"] as Env["Vault"]).getByName("p").fill();
  });

  const post = async (target: string, text: string, headers: Record<string, string> = {}) =>
    read(await fetch(system.url + target, { method: "POST", body: text, headers }));
  const named = (name: string): string => JSON.stringify({ name });
  const batch = (...ids: string[]) => {
    const text = JSON.stringify({ object: "page", entry: ids.map((id) => ({ id })) });
    const mac = createHmac("sha256", META).update(text).digest("hex");
    return post("/hooks/batch", text, { "x-hub-signature-256": `sha256=${mac}` });
  };
  const journals = async () => [
    await journalOf(system.options, "Case", CASE),
    await journalOf(system.options, "Case", NEW_CASE),
  ];

  test("a webhook's entity can't be a path, whatever it is read from: 400, and nothing is stored", async () => {
    const before = await journals();
    reached.length = 0;
    for (const name of [CASE, NEW_CASE, "/", "//", "/Vault/p/c/", "/Vault%2Fp/c"]) {
      const answers = [
        await post("/hooks/body", named(name)),
        await post(`/hooks/path/${encodeURIComponent(name)}`, ""),
        await post("/hooks/header", "", { "x-name": name }),
        await post("/hooks/transformed", named(name)),
        await post("/hooks/source", named(name)),
        await batch(name),
      ];
      for (const [i, { status, text }] of answers.entries())
        expect([i, status, text]).toEqual([i, 400, expect.stringContaining(`begin`)]);
    }
    expect(reached).toEqual([]);
    expect(await journals()).toEqual(before);
  });

  test("an event of a batch whose entity is a path is dropped, and the others are stored", async () => {
    reached.length = 0;
    expect(await batch("free", CASE, NEW_CASE)).toMatchObject({ status: 200 });
    await pollUntil("the other event has run", () => reached.length > 0);
    expect(reached).toEqual(["request free"]);
  });

  test("a name in a URL stays raw, and is not read as a path", async () => {
    const before = await journals();
    const encoded = await read(
      await fetch(`${system.url}/agents/case/${encodeURIComponent(CASE)}`),
    );
    expect([encoded.status, reached.at(-1)]).toEqual([200, `request ${encodeURIComponent(CASE)}`]);
    const socket = await TestSocket.open(`${system.url}/agents/case/${encodeURIComponent(CASE)}`);
    expect(socket.json[0] ?? (await socket.first(1)).map((f) => JSON.parse(String(f)))[0]).toMatchObject({
      name: encodeURIComponent(CASE),
    }); // prettier-ignore
    await socket.close();
    expect(await journals()).toEqual(before);
  });

  test("a name that the module takes from a query can't be a path: 400", async () => {
    for (const name of [CASE, NEW_CASE])
      expect(await read(await fetch(`${system.url}/?name=${encodeURIComponent(name)}`))).toMatchObject(
        { status: 400, text: expect.stringContaining(`begins with "/"`) as string },
      ); // prettier-ignore
  });

  test("only the documented URL reaches the sub-agent, through its parent's hook", async () => {
    const url = `${system.url}/agents/vault/p/sub/case/c`;
    reached.length = 0;
    expect(await read(await fetch(url))).toMatchObject({ status: 403, text: "locked" });
    const refused = await TestSocket.open(url);
    await refused.until("it is refused", () => refused.closed !== undefined);
    expect(refused.closed?.code).toBe(4403);
    expect(reached).toEqual([]);
    const headers = { "x-key": "right" };
    expect(await read(await fetch(url, { headers }))).toMatchObject({ text: "the case" });
    const socket = await TestSocket.open(url, headers);
    await socket.first(1);
    await socket.close();
    expect(reached).toEqual(["request c", "socket c"]);
  });
});

describe("by SMTP", () => {
  const byAddress = createAddressBasedEmailResolver("Case");
  const secure = createSecureReplyEmailResolver(REPLIES);
  const namespace = "mail";
  let nats: TestNats;
  let own: Awaited<ReturnType<typeof start>>;
  let declared: Awaited<ReturnType<typeof start>>;

  beforeAll(async () => {
    nats = await startNats();
    const email = (message: AgentEmail, env: Env) =>
      routeAgentEmail(message, env, {
        resolver: async (mail, given) =>
          (await secure(mail, given)) ?? (await byAddress(mail, given)),
      });
    own = await start({
      role: "dev",
      nats: nats.url,
      namespace,
      module: { Vault, Case, default: { email } },
    });
    declared = await start({
      role: "dev",
      nats: nats.url,
      namespace: "declared",
      module: {
        Vault,
        Case,
        default: {
          email: [
            emailRoute("case+*@example.com", { agent: Case }),
            emailRoute("any@example.com", { agent: Case, entity: () => CASE }),
          ],
        },
      },
    });
  });
  afterAll(async () => {
    await own?.stop();
    await declared?.stop();
    await nats?.stop();
  });

  const send = (port: number, to: string, headers: Record<string, string> = {}) =>
    deliver(port, { from: "a@example.org", to, subject: "s", text: "t", headers });
  const inCase = () =>
    journalOf({ nats: nats.url, namespace, module: { agents: {} } }, "Case", CASE);

  test("neither an address nor a declared route reaches a sub-agent: 550", async () => {
    reached.length = 0;
    for (const to of [`case+${CASE}@example.com`, `Case+${NEW_CASE}@x.org`, `${CASE}@example.com`])
      expect(await send(own.smtpPort, to)).toMatchObject({ code: 550 });
    for (const to of [`case+${CASE}@example.com`, "any@example.com"])
      expect(await send(declared.smtpPort, to)).toMatchObject({ code: 550 });
    expect(await inCase()).toEqual([]);
    expect(reached).toEqual([]);
  });

  test("neither unsigned headers nor a signature for another name reach a sub-agent", async () => {
    const signed = await signAgentHeaders(REPLIES, "case", "free");
    const forged = { ...signed, "X-Agent-ID": CASE };
    const unsignedHeaders = { "X-Agent-Name": "case", "X-Agent-ID": CASE };
    for (const headers of [forged, unsignedHeaders])
      expect(await send(own.smtpPort, `case+${CASE}@example.com`, headers)).toMatchObject({
        code: 550,
      });
    expect(await inCase()).toEqual([]);
  });

  test("a signed reply to the sub-agent's own mail reaches it", async () => {
    reached.length = 0;
    const signed = await signAgentHeaders(REPLIES, "case", CASE);
    expect(await send(own.smtpPort, "case+any@example.com", signed)).toMatchObject({ code: 250 });
    await pollUntil("the reply has come", () => reached.length > 0);
    expect(reached).toEqual(["mail c"]);
    expect(await inCase()).not.toEqual([]);
  });
});
