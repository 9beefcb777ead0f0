/** The examples that are MCP servers, by the SDK's client and by requests of no client. */
import type { Drive } from "./Drive.ts";
import type { Driver } from "./Driver.ts";

const NO_LOADER = "the binding `worker_loaders` is not here";

export const MCP_DRIVES: Readonly<Record<string, Drive>> = {
  "examples/codemode-mcp": {
    run: driveCodemode,
    reasons: { "codemode: tools": NO_LOADER, "codemode: code": NO_LOADER },
  },
  "examples/mcp": { run: driveMcp },
  "examples/mcp-elicitation": { run: driveElicitation },
  "examples/mcp-elicitation-mrtr": {
    env: () => ({ MRTR_REQUEST_STATE_KEY: "a key of at least thirty-two bytes" }),
    run: driveRounds,
  },
  "examples/mcp-server": { run: (driver) => driveHello(driver, "/") },
  "examples/mcp-worker": { run: (driver) => driveHello(driver, "/mcp") },
  "examples/mcp-worker-authenticated": { run: (driver) => driveHello(driver, "/mcp") },
  "examples/webmcp": { run: driveWebMcp },
  "openai-sdk/chess-app": { run: driveChess },
  "openai-sdk/pizzaz": { run: drivePizza },
};

/** The HTTP side that servers with sessions have in common. */
async function driveSessions(driver: Driver, session: string | undefined): Promise<void> {
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
  };
  const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const post = (more: object, body = list): Promise<object> =>
    driver.http("/mcp", { method: "POST", headers: { ...headers, ...more }, body });
  const statusOf = async (answer: Promise<object>): Promise<unknown> =>
    ((await answer) as { readonly status: number }).status;
  await driver.see("no session", () => statusOf(post({})));
  await driver.see("unknown session", () => statusOf(post({ "mcp-session-id": "0".repeat(64) })));
  await driver.see("no JSON", () => statusOf(post({ "mcp-session-id": session }, "{")));
  await driver.see("no Accept", () => statusOf(post({ "mcp-session-id": session, accept: "text/html" }))); // prettier-ignore
  await driver.see("another content type", () => statusOf(post({ "mcp-session-id": session, "content-type": "text/plain" }))); // prettier-ignore
  await driver.see("another path", () => statusOf(driver.http("/nowhere")));
  const end = (): Promise<object> => driver.http("/mcp", { method: "DELETE", headers: { "mcp-session-id": session! } }); // prettier-ignore
  await driver.see("its end", () => statusOf(end()));
  await driver.see("after its end", () => statusOf(post({ "mcp-session-id": session })));
}

async function driveMcp(driver: Driver): Promise<void> {
  const { client, transport } = await driver.mcp("/mcp");
  const uri = "mcp://resource/counter";
  await driver.see("server", () => [client.getServerVersion()?.name, client.getServerCapabilities()]); // prettier-ignore
  await driver.see("tools", () => client.listTools());
  await driver.see("resources", () => client.listResources());
  await driver.see("counter", () => client.readResource({ uri }));
  await driver.see("add", () => client.callTool({ name: "add", arguments: { a: 4 } }));
  await driver.see("add again", () => client.callTool({ name: "add", arguments: { a: -1 } }));
  await driver.see("counter then", () => client.readResource({ uri }));
  await driver.see("wrong arguments", () =>
    client.callTool({ name: "add", arguments: { a: "x" } }),
  );
  await driver.see("unknown tool", () => client.callTool({ name: "subtract", arguments: {} }));
  await driver.see("unknown resource", () => client.readResource({ uri: "mcp://nothing" }));
  const other = await driver.mcp("/mcp");
  await driver.see("another session", () => other.client.readResource({ uri }));
  await driveSessions(driver, transport.sessionId);
}

async function driveWebMcp(driver: Driver): Promise<void> {
  const { client, transport } = await driver.mcp("/mcp");
  await driver.see("tools", () => client.listTools());
  await driver.see("greet", () => client.callTool({ name: "greet", arguments: { name: "Ada" } }));
  await driver.see("add", () => client.callTool({ name: "add", arguments: { a: 2 } }));
  await driver.see("counter", () => client.callTool({ name: "get_counter", arguments: {} }));
  await driveSessions(driver, transport.sessionId);
}

async function driveHello(driver: Driver, path: string): Promise<void> {
  const { client } = await driver.mcp(path);
  await driver.see("server", () => [client.getServerVersion()?.name, client.getServerCapabilities()]); // prettier-ignore
  await driver.see("tools", () => client.listTools());
  await driver.see("hello", () => client.callTool({ name: "hello", arguments: {} }));
  await driver.see("hello Ada", () =>
    client.callTool({ name: "hello", arguments: { name: "Ada" } }),
  );
  await driver.see("wrong arguments", () => client.callTool({ name: "hello", arguments: { name: 1 } })); // prettier-ignore
  await driver.see("unknown tool", () => client.callTool({ name: "bye", arguments: {} }));
  await driver.see("GET", async () => (await fetch(driver.url + path)).status);
  await driver.see("no JSON", () => driver.http(path, { method: "POST", headers: { "content-type": "application/json", accept: "application/json, text/event-stream" }, body: "{" })); // prettier-ignore
  await driver.see("page of another origin", async () => (await fetch(driver.url + path, { method: "POST", headers: { origin: "https://evil.example.com" }, body: "{}" })).status); // prettier-ignore
}

async function driveElicitation(driver: Driver): Promise<void> {
  const answers: Array<object> = [
    { action: "accept", content: { amount: 30 } },
    { action: "decline" },
    { action: "accept" },
  ];
  const asked: object[] = [];
  const answer = (params: object): object => (asked.push(params), answers.shift()!);
  const { client, transport } = await driver.mcp("/mcp", { answer });
  const increase = (confirm: boolean): Promise<unknown> =>
    client.callTool({ name: "increase-counter", arguments: { confirm } });
  await driver.see("tools", () => client.listTools());
  await driver.see("accepted", () => increase(true));
  await driver.see("declined", () => increase(true));
  await driver.see("not confirmed", () => increase(false));
  await driver.see("by a link", () => client.callTool({ name: "connect-account", arguments: {} }));
  await driver.see("what was asked", () => asked);
  const silent = await driver.mcp("/mcp");
  await driver.see("a client that can't be asked", () => silent.client.callTool({ name: "increase-counter", arguments: { confirm: true } })); // prettier-ignore
  await driveSessions(driver, transport.sessionId);
}

async function driveRounds(driver: Driver): Promise<void> {
  await driver.see("a client of the older protocol", async () => (await driver.mcp("/mcp")).client.listTools()); // prettier-ignore
  const answers: Array<object> = [
    { action: "accept", content: { amount: 5 } },
    { action: "accept", content: { confirm: true } },
    { action: "decline" },
  ];
  const asked: object[] = [];
  const answer = (params: object): object => (asked.push(params), answers.shift()!);
  const { client } = await driver.mcp("/mcp", { answer, rounds: true });
  const increase = (): Promise<unknown> =>
    client.callTool({ name: "increase-counter", arguments: { current: 37 } });
  await driver.see("tools", () => client.listTools());
  await driver.see("two rounds", increase);
  await driver.see("declined", increase);
  await driver.see("what was asked", () => asked);
  await driver.see("wrong arguments", () => client.callTool({ name: "increase-counter", arguments: {} })); // prettier-ignore
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveCodemode(driver: Driver): Promise<void> {
  const { client } = await driver.mcp("/mcp");
  await driver.see("tools", () => client.listTools());
  await driver.see("add", () => client.callTool({ name: "add", arguments: { a: 1, b: 2 } }));
  await driver.see("greet", () => client.callTool({ name: "greet", arguments: { name: "Ada", language: "fr" } })); // prettier-ignore
  await driver.see("list", () => client.callTool({ name: "list_items", arguments: { category: "docs" } })); // prettier-ignore
  await driver.see("another path", () => driver.http("/nowhere"));
  const code = "async () => codemode.add({ a: 1, b: 2 })";
  await driver.see("codemode: tools", async () => (await driver.mcp("/codemode")).client.listTools()); // prettier-ignore
  await driver.see("codemode: code", async () => (await driver.mcp("/codemode")).client.callTool({ name: "code", arguments: { code } })); // prettier-ignore
}

async function driveChess(driver: Driver): Promise<void> {
  const { client } = await driver.mcp("/mcp");
  await driver.see("tools", () => client.listTools());
  await driver.see("resources", () => client.listResources());
  await driver.see("play", () => client.callTool({ name: "playChess", arguments: {} }));
  const [ada, bob] = [
    await driver.socket({ agent: "chess", name: "g" }),
    await driver.socket({ agent: "chess", name: "g" }),
  ];
  await driver.seeLater("board", () => ada.client.state);
  await driver.see("joins as white", () => ada.call("join", { playerId: "ada", preferred: "w" }));
  await driver.see("joins as black", () => bob.call("join", { playerId: "bob", preferred: "w" }));
  await driver.see("a move out of turn", () => bob.call("move", { from: "e7", to: "e5" }));
  await driver.see("a move", () => ada.call("move", { from: "e2", to: "e4" }));
  await driver.see("no move of chess", () => bob.call("move", { from: "e7", to: "e2" }));
  await driver.see("gives up", () => bob.call("resign"));
  await driver.seeLater("what the other sees", () => (JSON.stringify(ada.client.state).includes("resigned") ? ada.client.state : undefined)); // prettier-ignore
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function drivePizza(driver: Driver): Promise<void> {
  const { client } = await driver.mcp("/");
  await driver.see("tools", () => client.listTools());
  await driver.see("resources", () => client.listResources());
  await driver.see("a widget", () => client.readResource({ uri: "ui://widget/pizzaz-list.html" }));
  await driver.see("a map", () => client.callTool({ name: "pizzaz-map", arguments: { pizzaTopping: "olives" } })); // prettier-ignore
  await driver.see("wrong arguments", () => client.callTool({ name: "pizzaz-map", arguments: {} }));
}
