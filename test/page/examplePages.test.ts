/** The pages of examples in a real Chromium, with a server that stops and starts. */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { launchChromium } from "../kit/chromium.ts";
import { pollUntil } from "../kit/poll.ts";

type Reply = (method: string, args: ReadonlyArray<unknown>) => object | undefined;

/** Serves a page, and answers the calls of its socket; undefined: not at all. */
class PageServer {
  reply: Reply = () => ({ success: true });
  /** Sent to each client that connects. */
  greeting: ReadonlyArray<object> = [];
  private port = 0;
  private server: Server | undefined;
  private readonly sockets = new Set<WebSocket>();

  constructor(private readonly html: string) {}

  async start(): Promise<string> {
    const server = createServer((_request, response) => {
      response.setHeader("content-type", "text/html; charset=utf-8");
      response.end(this.html);
    });
    new WebSocketServer({ server }).on("connection", (socket) => {
      this.sockets.add(socket);
      for (const frame of this.greeting) socket.send(JSON.stringify(frame));
      socket.on("message", (data) => {
        const { id, method, args } = JSON.parse(String(data)) as never;
        const answer = this.reply(method, args);
        if (answer !== undefined) socket.send(JSON.stringify({ type: "rpc", id, ...answer }));
      });
    });
    await new Promise<void>((resolve) => server.listen(this.port, "127.0.0.1", resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
    return `http://127.0.0.1:${this.port}/`;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.terminate();
    this.sockets.clear();
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve) ?? resolve(undefined));
    this.server = undefined;
  }
}

const pageOf = (example: string): string =>
  readFileSync(new URL(`../../examples/${example}/page.html`, import.meta.url), "utf8");

let browser: Browser;
let page: Page;
let server: PageServer | undefined;
beforeAll(async () => void (browser = await launchChromium()));
afterAll(() => browser?.close());
beforeEach(async () => void (page = await browser.newPage()));
afterEach(async () => {
  await page.close();
  await server?.stop();
});

async function open(example: string, query = ""): Promise<PageServer> {
  server = new PageServer(pageOf(example));
  await page.goto((await server.start()) + query);
  return server;
}
const connected = (): Promise<unknown> =>
  pollUntil("the page is connected", async () => (await page.textContent("#status")) === "");
const shows = (selector: string, text: string): Promise<unknown> =>
  pollUntil(`${selector} shows ${text}`, async () => {
    const saw = (await page.textContent(selector)) ?? "";
    return saw.includes(text) ? { done: true, value: saw } : { done: false, saw };
  });

it("chat: what was typed stays until the room has it", async () => {
  const room = await open("chat");
  await connected();
  room.reply = (method) =>
    method === "say" ? { success: false, error: "too long" } : { success: true, result: [] };
  await page.fill("input", "hello");
  await page.press("input", "Enter");
  await shows("#status", "too long");
  expect(await page.inputValue("input")).toBe("hello");

  await room.stop();
  await shows("#status", "Not connected");
  await page.press("input", "Enter");
  expect(await page.inputValue("input")).toBe("hello");

  const said: unknown[] = [];
  room.reply = (method, args) => {
    if (method === "say") said.push(...args);
    return { success: true };
  };
  await room.start();
  await connected();
  await page.press("input", "Enter");
  await pollUntil("the field is empty", async () => (await page.inputValue("input")) === "");
  expect(said).toEqual(["hello"]);
});

it("chat: a message whose answer was lost stays, and the page says so", async () => {
  const room = await open("chat", "?name=");
  await connected();
  room.reply = () => undefined;
  await page.fill("input", "hello");
  await page.press("input", "Enter");
  await room.stop();
  await shows("#status", "may have been said");
  expect(await page.inputValue("input")).toBe("hello");
});

it("mcp: the page connects again, and a call that was lost ends", async () => {
  const tools = [{ serverId: "s", name: "echo" }, { serverId: "s", name: "add" }]; // prettier-ignore
  const mcp = { servers: { s: { name: "one", state: "ready" } }, tools };
  const bench = await open("mcp");
  await page.click("#run button");
  await shows("#problem", "Add a server first");

  bench.greeting = [{ type: "cf_agent_mcp_servers", mcp }];
  bench.reply = (method) => (method === "runs" ? { success: true, result: [] } : undefined);
  await bench.stop();
  await bench.start();
  await shows("#servers", "one: ready");
  await page.selectOption("select", { label: "add: " });
  await page.click("#run button");
  await bench.stop();
  await shows("#problem", "the call may have run");
  await page.click("#run button");
  await shows("#problem", "Not connected");

  const run = { tool: "add", input: "{}", output: "3", failed: false };
  bench.reply = (method) => ({ success: true, result: method === "runs" ? [run] : run });
  await bench.start();
  await shows("#runs", "3");
  expect(await page.$eval("select", (select) => select.value)).toBe('["s","add"]');
});
