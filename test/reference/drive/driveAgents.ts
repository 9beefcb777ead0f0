/** The examples of agents without other services: access, webhooks, mail, workflows, MCP. */
import { createHmac } from "node:crypto";
import type { Drive } from "./Drive.ts";
import type { Driver } from "./Driver.ts";
import type { LocalServices } from "./LocalServices.ts";

const SECRET = "It's a Secret to Everybody";
const NO_LOADER = "the binding `worker_loaders` is not here";

export const AGENT_DRIVES: Readonly<Record<string, Drive>> = {
  "examples/a2a": { run: driveA2a },
  "examples/cross-domain": { run: driveCrossDomain },
  "examples/dynamic-workers": { run: driveWorkers, reasons: { code: NO_LOADER } },
  "examples/email-agent": {
    env: ({ smtpUrl }) => ({ EMAIL_SECRET: SECRET, SMTP_URL: smtpUrl }),
    run: driveMail,
  },
  "examples/github-webhook": { env: () => ({ GITHUB_WEBHOOK_SECRET: SECRET }), run: driveGithub },
  "examples/mcp-client": {
    run: driveMcpClient,
    reasons: { "no such server": "the error says which, and is no `TypeError`" },
  },
  "examples/next/lifecycle": { run: driveLifecycle },
  "examples/push-notifications": { run: drivePush },
  "examples/workflows": { run: driveWorkflows },
};

async function driveCrossDomain(driver: Driver): Promise<void> {
  const path = "/agents/my-agent/room";
  const token = "demo-token-123";
  await driver.see("no token", () => driver.http(path));
  await driver.see("wrong token", () => driver.http(`${path}?token=x`));
  await driver.see("token", () => driver.http(path, { headers: { authorization: `Bearer ${token}` } })); // prettier-ignore
  await driver.see("preflight", async () => {
    const { status, headers } = await fetch(driver.url + path, { method: "OPTIONS" });
    return [status, headers.get("access-control-allow-origin"), headers.get("access-control-allow-headers")]; // prettier-ignore
  });
  const query = { token, userId: "ada" };
  const one = await driver.socket({ agent: "my-agent", name: "room", query });
  await driver.seeLater("welcome", () => one.messages[0]);
  const two = await driver.socket({ agent: "my-agent", name: "room", query });
  await driver.seeLater("second welcome", () => two.messages[0]);
  two.client.send("hello");
  await driver.seeLater("its answer", () => two.messages[1]);
  await driver.seeLater("what the other hears", () => one.messages[1]?.replace(/Client \S+/, "Client")); // prettier-ignore
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveGithub(driver: Driver): Promise<void> {
  const repository = {
    full_name: "Acme/Site",
    html_url: "https://example.com/acme/site",
    stargazers_count: 3,
    forks_count: 2,
    open_issues_count: 1,
  };
  const sender = { login: "ada", avatar_url: "https://example.com/ada.png" };
  const send = (event: string | undefined, payload: object, secret = SECRET): Promise<object> => {
    const body = JSON.stringify(payload);
    const signature = createHmac("sha256", secret).update(body).digest("hex");
    return driver.http("/webhooks/github/acme/site", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-hub-signature-256": `sha256=${signature}`,
        ...(event === undefined ? {} : { "x-github-event": event }),
      },
      body,
    });
  };
  const page = await driver.socket({ agent: "repo-agent", name: "acme-site" });
  await driver.seeLater("state at first", () => page.client.state);
  await driver.see("ping", () => send("ping", { repository, sender, zen: "Design for failure." }));
  await driver.see("wrong signature", () => send("ping", { repository }, "another"));
  await driver.see("no event", () => send(undefined, { repository }));
  await driver.see("no repository", () => send("ping", { zen: "x" }));
  const commits = [{ message: "One\nmore", url: "https://example.com/1" }];
  await driver.see("push", () => send("push", { repository, sender, ref: "refs/heads/main", commits })); // prettier-ignore
  const issue = { number: 7, title: "Broken", html_url: "https://example.com/7" };
  await driver.see("issue", () => send("issues", { repository, sender, action: "opened", issue }));
  await driver.see("star", () => send("star", { repository: { ...repository, stargazers_count: 4 }, sender, action: "created" })); // prettier-ignore
  await driver.see("unknown event", () => send("gollum", { repository, sender }));
  const stars = (): number => (page.client.state as { stats: { stars: number } }).stats.stars;
  await driver.seeLater("state", () => (stars() === 3 ? page.client.state : undefined));
  await driver.see("events", async () => {
    const events = (await page.call("getEvents", 10)) as Array<{ type: string }>;
    return events.toSorted((a, b) => a.type.localeCompare(b.type));
  });
  await driver.see("stats", () => page.call("getStats"));
  await driver.see("clear", () => page.call("clearEvents"));
  await driver.see("events after it", () => page.call("getEvents"));
  await driver.see("a method that is not callable", () => page.call("processWebhook", "ping", {}));
  await driver.see("agent name", () => driver.http("/api/agent-name?repo=Acme/Site"));
  await driver.see("agent name of nothing", () => driver.http("/api/agent-name"));
  await driver.see("another path", () => driver.http("/nowhere"));
  await driver.see("GET of an agent", () => driver.http("/agents/repo-agent/acme-site"));
}

async function drivePush(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "reminder-agent", name: "ada" });
  const subscription = { endpoint: "https://push.example.com/1", expirationTime: null, keys: { p256dh: "a", auth: "b" } }; // prettier-ignore
  await driver.seeLater("state at first", () => page.client.state);
  await driver.see("subscribe", () => page.call("subscribe", subscription));
  await driver.see("subscribe again", () => page.call("subscribe", subscription));
  await driver.see("state", () => page.client.state);
  await driver.see("unsubscribe", () => page.call("unsubscribe", subscription.endpoint));
  await driver.see("reminder", () => page.call("createReminder", "Tea", 600));
  const { reminders } = page.client.state as unknown as { reminders: Array<{ id: string }> };
  await driver.see("cancel", () => page.call("cancelReminder", reminders[0]?.id));
  await driver.see("cancel what is not there", () => page.call("cancelReminder", "nothing"));
  await driver.see("state at last", () => page.client.state);
  await driver.see("no keys", () => page.call("sendTestNotification"));
}

async function driveWorkflows(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "task-agent", name: "ada" });
  await driver.see("nothing yet", () => page.call("listWorkflows"));
  await driver.see("submitted", () => page.call("submitTask", "Tidy up"));
  await driver.seeLater("added", () =>
    page.messages.find((text) => text.includes("workflow:added")),
  );
  // Its steps fail at random: only what holds in any case is seen.
  await driver.see("list", async () => {
    const { total, nextCursor, workflows } = (await page.call("listWorkflows")) as {
      total: number;
      nextCursor: unknown;
      workflows: Array<{ taskName: string; workflowName: string }>;
    };
    return {
      total,
      nextCursor,
      names: workflows.map((each) => [each.taskName, each.workflowName]),
    };
  });
  await driver.see("approve what is not there", () => page.call("approve", "nothing"));
  await driver.see("dismiss what is not there", () => page.call("dismissWorkflow", "nothing"));
  await driver.see("terminate what is not there", () => page.call("terminate", "nothing"));
  const { workflows } = (await page.call("listWorkflows")) as { workflows: Array<{ workflowId: string }> }; // prettier-ignore
  await driver.see("dismiss", () => page.call("dismissWorkflow", workflows[0]?.workflowId));
  await driver.see("list at last", () => page.call("listWorkflows"));
}

async function driveA2a(driver: Driver): Promise<void> {
  const post = (body: object): Promise<object> =>
    driver.http("/a2a", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const ask = (method: string, params: object): Promise<object> =>
    post({ jsonrpc: "2.0", id: 1, method, params });
  await driver.see("card", () => driver.http("/.well-known/agent-card.json"));
  await driver.see("card at its older path", () => driver.http("/.well-known/agent.json"));
  await driver.see("preflight", () => driver.http("/a2a", { method: "OPTIONS" }));
  await driver.see("a task that is not there", () => ask("tasks/get", { id: "nothing" }));
  await driver.see("no such method", () => ask("tasks/none", {}));
  await driver.see("no JSON-RPC", () => post({ hello: 1 }));
  await driver.see("GET", () => driver.http("/a2a"));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveWorkers(driver: Driver): Promise<void> {
  const headers = { "content-type": "application/json" };
  await driver.see("code", () => driver.http("/api/run", { method: "POST", headers, body: "{}" }));
  await driver.see("GET", () => driver.http("/api/run"));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveLifecycle(driver: Driver): Promise<void> {
  const path = "/agents/do-agent/a";
  await driver.see("a request", () => driver.http(path));
  await driver.see("another", () => driver.http(path));
  await driver.see("stats", () => driver.http(`${path}/stats`));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveMail(driver: Driver): Promise<void> {
  const simulate = (mail: object): Promise<object> =>
    driver.http("/api/simulate-email", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(mail),
    });
  const mail = { from: "ada@example.com", subject: "Hello", body: "One\nTwo" };
  await driver.see("config", () => driver.http("/api/example-config"));
  await driver.see("a mail without a body", () => simulate({ from: "ada@example.com" }));
  const page = await driver.socket({ agent: "email-service-agent", name: "mailbox-7f3a" });
  await driver.seeLater("state at first", () => page.client.state);
  const state = (): { totalReceived: number } => page.client.state as never;
  await driver.see("a mail", () => simulate(mail));
  await driver.seeLater("state after the answer", () => ((page.client.state as { totalSent?: number }).totalSent === 1 ? state() : undefined)); // prettier-ignore
  await driver.see("no answers", () => page.call("toggleAutoReply"));
  await driver.see("another mail", () => simulate({ ...mail, subject: "Again" }));
  await driver.seeLater("state then", () => (state().totalReceived === 2 ? state() : undefined));
  await driver.see("a mail to nobody", () => simulate({ ...mail, to: "nobody@example.com" }));
  const other = await driver.socket({ agent: "email-service-agent", name: "nobody" });
  await driver.seeLater("its state", () => other.client.state);
  await driver.see("send without a subject", () => page.call("sendTransactionalEmail", { to: "bob@example.com", subject: " ", body: "x" })); // prettier-ignore
  await driver.see("send", () => page.call("sendTransactionalEmail", { to: "bob@example.com", subject: "Hi", body: "x" })); // prettier-ignore
  await driver.see("cleared", () => page.call("clearActivity"));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveMcpClient(driver: Driver, { mcpUrl }: LocalServices): Promise<void> {
  const page = await driver.socket({ agent: "my-agent", name: "a" });
  type Servers = { servers: Record<string, { state: string }>; tools: object[] };
  const latest = (): Servers | undefined => page.mcpServers.at(-1) as Servers | undefined;
  const id = (): string => Object.keys(latest()?.servers ?? {})[0] ?? "none";
  const shown = (): unknown => {
    const { servers, tools } = latest()!;
    return [Object.values(servers), tools.map((tool) => ({ ...tool, serverId: undefined }))];
  };
  await driver.seeLater("servers at first", latest);
  await driver.see("added", () => page.call("addServer", "tools", mcpUrl));
  await driver.seeLater("ready", () => (latest()?.servers[id()]?.state === "ready" && latest()?.tools.length === 2 ? shown() : undefined)); // prettier-ignore
  await driver.see("a tool", () => page.call("callTool", id(), "add", { a: 1, b: 2 }));
  await driver.see("wrong arguments", () => page.call("callTool", id(), "add", { a: "x" }));
  await driver.see("no such tool", () => page.call("callTool", id(), "subtract", {}));
  await driver.see("no such server", () => page.call("callTool", "nothing", "add", { a: 1, b: 2 }));
  const asking = page.call("callTool", id(), "ask", {});
  const question = (): { id: string; params: object } | undefined => {
    const text = page.messages.find((each) => each.includes("mcp-elicitation"));
    return text === undefined ? undefined : (JSON.parse(text) as { id: string; params: object });
  };
  await driver.seeLater("a question for the user", () => question()?.params);
  await driver.see("its answer", () => page.call("respondToElicitation", question()?.id, { action: "accept", content: { colour: "red" } })); // prettier-ignore
  await driver.see("what the tool says then", () => asking);
  await driver.see("disconnected", () => page.call("disconnectServer", id()));
  await driver.seeLater("servers at last", () => (id() === "none" ? latest() : undefined));
  await driver.see("another path", () => driver.http("/nowhere"));
}
