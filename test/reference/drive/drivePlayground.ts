/** The reference's playground: its core, several agents, workflows, and its MCP server. */
import type { Drive } from "./Drive.ts";
import type { Driver, Socket } from "./Driver.ts";
import type { LocalServices } from "./LocalServices.ts";

export const PLAYGROUND_DRIVE: Drive = {
  env: () => ({ EMAIL_SECRET: "It's a Secret to Everybody" }),
  run: drivePlayground,
};

async function drivePlayground(driver: Driver, services: LocalServices): Promise<void> {
  await driveState(driver);
  await driveCalls(driver);
  await driveSchedules(driver);
  await driveRetries(driver);
  await driveConnections(driver);
  await driveAgents(driver);
  await driveRuns(driver);
  await driveMcpClient(driver, services);
  await driveMcpServer(driver);
}

const open = (driver: Driver, agent: string, more: object = {}): Promise<Socket> =>
  driver.socket({ agent, name: "drive", ...more });

async function driveState(driver: Driver): Promise<void> {
  const page = await open(driver, "state-agent");
  await driver.seeLater("state", () => page.client.state);
  for (const [method, ...args] of [
    ["increment"],
    ["setCounter", 7],
    ["decrement"],
    ["addItem", "a"],
    ["addItem", "b"],
    ["removeItem", 0],
  ] as const)
    // prettier-ignore
    await driver.see(`state: ${method} ${args.join()}`, () => page.call(method, ...args));
  page.client.setState({ counter: 100, items: [], lastUpdated: null } as never);
  const other = await open(driver, "state-agent");
  await driver.seeLater("state: what a client set", () => other.client.state);
  await driver.see("state: reset", () => other.call("resetState"));
  await driver.seeLater("state: what the first sees", () => ((page.client.state as { counter?: number }).counter === 0 ? page.client.state : undefined)); // prettier-ignore
  const sql = await open(driver, "sql-agent");
  await driver.see("sql: insert", () => sql.call("insertRecord", "k", "v"));
  await driver.see("sql: replace", () => sql.call("insertRecord", "k", "w"));
  await driver.see("sql: records", () => sql.call("getRecords"));
  await driver.see("sql: schema", () => sql.call("getTableSchema", "playground_data"));
  await driver.see("sql: query", () => sql.call("executeQuery", "SELECT key, 1 + 1 AS two, NULL AS none FROM playground_data")); // prettier-ignore
  await driver.see("sql: wrong query", () =>
    sql.call("executeQuery", "SELECT nothing FROM nowhere"),
  );
  await driver.see("sql: not a query", () =>
    sql.call("executeQuery", "DELETE FROM playground_data"),
  );
  const viewer = await open(driver, "readonly-agent", { query: { mode: "view" } });
  await driver.see("readonly: permissions", () => viewer.call("getPermissions"));
  await driver.see("readonly: a method that writes", () => viewer.call("increment"));
  const editor = await open(driver, "readonly-agent");
  await driver.see("readonly: an editor", () => editor.call("increment"));
  await driver.see("readonly: gives it up", () => editor.call("setMyReadonly", true));
  await driver.see("readonly: then", () => editor.call("increment"));
  const routed = await driver.socket({ agent: "routing-agent", basePath: "custom-routing/mine" });
  await driver.seeLater("routing: name", () => (routed.client.state as { agentName?: string } | undefined)?.agentName); // prettier-ignore
}

async function driveCalls(driver: Driver): Promise<void> {
  const page = await open(driver, "callable-agent");
  await driver.see("call: add", () => page.call("add", 2, 3));
  await driver.see("call: echo", () => page.call("echo", "hi"));
  await driver.see("call: slow", () => page.call("slowOperation", 50));
  await driver.see("call: error", () => page.call("throwError", "on purpose"));
  await driver.see("call: unknown", () => page.call("nothing"));
  await driver.see("call: not callable", () => page.call("onClose"));
  await driver.see("call: methods", () => page.call("listMethods"));
  const streaming = await open(driver, "streaming-agent");
  for (const [method, ...args] of [
    ["streamNumbers", 3],
    ["streamWithError", 2],
    ["streamWithDelay", ["a", "b"], 10],
  ] as const)
    // prettier-ignore
    await driver.see(`stream: ${method}`, () => driver.chunks(streaming, method, ...args));
  await driver.see("stream: of a method that does not stream", () => driver.chunks(page, "add", 1, 2)); // prettier-ignore
}

async function driveSchedules(driver: Driver): Promise<void> {
  const page = await open(driver, "schedule-agent");
  await driver.see(
    "schedule: a task",
    async () => typeof (await page.call("scheduleTask", 1, "tea")),
  );
  await driver.seeLater("schedule: it ran", () => page.messages.find((text) => text.includes("schedule_executed"))); // prettier-ignore
  const id = await page.call("scheduleTask", 600, "later");
  await driver.see("schedule: list", async () => ((await page.call("getScheduledTasks")) as Array<{ callback: string; type: string; payload: unknown; delayInSeconds?: number }>).map(({ callback, type, payload, delayInSeconds }) => [callback, type, payload, delayInSeconds])); // prettier-ignore
  await driver.see("schedule: cancel", () => page.call("cancelTask", id));
  await driver.see("schedule: cancel again", () => page.call("cancelTask", id));
  await driver.see("schedule: list then", () => page.call("getScheduledTasks"));
}

async function driveRetries(driver: Driver): Promise<void> {
  const page = await open(driver, "retry-agent");
  const log = (): unknown =>
    (page.client.state as { log: Array<{ type: string; message: string }> }).log.map(({ type, message }) => `${type}: ${message}`); // prettier-ignore
  await driver.see("retry: on the third attempt", () => page.call("retryFlaky", 3));
  await driver.see("retry: never", () => page.call("retryFlaky", 9));
  await driver.see("retry: a permanent failure", () => page.call("retryWithFilter", 2, true));
  await driver.see("retry: a transient failure", () => page.call("retryWithFilter", 2, false));
  await driver.see("retry: log", log);
  await page.call("clearLog");
  await driver.see("retry: queued", async () => typeof (await page.call("queueWithRetry", 3)));
  await driver.seeLater("retry: queue's log", () => (JSON.stringify(log()).includes("succeeded") ? log() : undefined)); // prettier-ignore
}

async function driveConnections(driver: Driver): Promise<void> {
  const one = await open(driver, "connections-agent");
  await driver.seeLater("connections: alone", () => one.messages.find((text) => text.includes("connection_count"))); // prettier-ignore
  const two = await open(driver, "connections-agent");
  await driver.seeLater("connections: two", () => one.messages.find((text) => text.includes('"count":2'))); // prettier-ignore
  await driver.see("connections: count", () => two.call("getConnectionCount"));
  await driver.see("connections: broadcast", () => two.call("broadcastMessage", "hello"));
  await driver.seeLater("connections: heard", () => one.messages.find((text) => text.includes('"broadcast"'))); // prettier-ignore
  const heard = one.messages.length;
  two.client.close();
  await driver.seeLater("connections: one leaves", () => one.messages.slice(heard).find((text) => text.includes('"count":1'))); // prettier-ignore
}

async function driveAgents(driver: Driver): Promise<void> {
  const boss = await open(driver, "supervisor-agent");
  for (const [method, ...args] of [
    ["createChild", "a"],
    ["createChild", "b"],
    ["incrementChild", "a"],
    ["incrementAll"],
    ["getStats"],
    ["removeChild", "a"],
    ["removeChild", "c"],
    ["getChildStates"],
  ] as const)
    // prettier-ignore
    await driver.see(`agents: ${method} ${args.join()}`, () => boss.call(method, ...args));
  const lobby = await open(driver, "lobby-agent", { name: "main" });
  await driver.see("rooms: create", () => lobby.call("createRoom", "r"));
  const room = await open(driver, "room-agent", { name: "r" });
  await driver.see("rooms: join", () => room.call("join", "ada"));
  await driver.see("rooms: say", () => room.call("sendMessage", "ada", "hi"));
  await driver.seeLater("rooms: heard", () => room.messages.find((text) => text.includes("chat_message"))); // prettier-ignore
  await driver.seeLater("rooms: the lobby hears of it", () => lobby.messages.find((text) => text.includes("room_updated"))); // prettier-ignore
  await driver.see("rooms: users", () => lobby.call("getTotalUsers"));
  await driver.see("rooms: leave", () => room.call("leave", "ada"));
  await driver.see("rooms: users then", () => lobby.call("getTotalUsers"));
  const manager = await open(driver, "manager-agent");
  await driver.see("fan-out", () => manager.call("processItems", ["a", "b", "c"], 2));
  const pipeline = await open(driver, "pipeline-orchestrator-agent");
  await driver.see("pipeline", () => pipeline.call("runPipeline", " One two three "));
  await driver.see("pipeline: of nothing", () => pipeline.call("runPipeline", " "));
}

async function driveRuns(driver: Driver): Promise<void> {
  const basic = await open(driver, "basic-workflow-agent");
  await driver.see(
    "workflow: start",
    async () => typeof (await basic.call("startWorkflow", "w", 1)),
  );
  for (const type of ["workflow_progress", "workflow_complete"])
    await driver.seeLater(`workflow: ${type}`, () => {
      const found = basic.messages.find((text) => text.includes(type));
      return found?.replace(/"workflowId":"[^"]+"/, "");
    });
  const page = await open(driver, "approval-agent");
  const requests = async (): Promise<ReadonlyArray<{ id: string; status: string }>> =>
    (await page.call("listRequests")) as ReadonlyArray<{ id: string; status: string }>;
  for (const [method, status, ...args] of [
    ["approve", "approved"],
    ["reject", "rejected", "No"],
  ] as const) {
    // prettier-ignore
    const { id } = (await page.call("requestApproval", method, "A question")) as { id: string };
    await driver.seeLater(`approval: ${method}: waits`, () => (page.messages.some((text) => text.includes("approval_progress") && text.includes(id)) ? "waits" : undefined)); // prettier-ignore
    await driver.see(`approval: ${method}`, () => page.call(method, id, ...args));
    await driver.seeLater(`approval: ${method}: ${status}`, async () => (await requests()).find((each) => each.id === id && each.status === status)); // prettier-ignore
  }
}

async function driveMcpServer(driver: Driver): Promise<void> {
  const { client } = await driver.mcp("/mcp-server");
  await driver.see("mcp: tools", () => client.listTools());
  await driver.see("mcp: a tool's fields", async () => {
    const { content } = (await client.callTool({ name: "roll_dice", arguments: { sides: 6, count: 2 } })) as unknown as { content: Array<{ text: string }> }; // prettier-ignore
    return Object.keys(JSON.parse(content[0]!.text) as object);
  });
  await driver.see("mcp: wrong arguments", () => client.callTool({ name: "roll_dice", arguments: { sides: 1 } })); // prettier-ignore
}

async function driveMcpClient(driver: Driver, { mcpUrl }: LocalServices): Promise<void> {
  const page = await open(driver, "mcp-client-agent");
  await driver.see("mcp client: connect", () => page.call("connectToServer", mcpUrl));
  const { serverId } = page.client.state as unknown as { serverId: string };
  await driver.see("mcp client: a tool", () => page.call("callTool", "add", serverId, { a: 1, b: 2 })); // prettier-ignore
  await driver.see("mcp client: disconnect", () => page.call("disconnectServer"));
  await driver.see("mcp client: disconnect again", () => page.call("disconnectServer"));
}
