/** Agents of hostile clients: a room with all that sockets read, and an MCP server. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { Agent, callable, routeAgentRequest, type Connection } from "agents";
import { McpAgent } from "agents/mcp";
import { z } from "zod";

interface RoomState {
  readonly count: number;
}

/** Each ends a call of `wait`. */
const waiting: Array<() => void> = [];

export class Room extends Agent<object, RoomState> {
  override initialState = { count: 0 };

  override onMessage(connection: Connection, message: unknown): void {
    if (message === "hello") connection.send("hello");
  }

  @callable()
  add(n: number): number {
    this.setState({ count: this.state.count + n });
    return this.state.count;
  }

  @callable()
  async write(key: string, chunks: number, size: number): Promise<void> {
    const stream = this.stream(key);
    for (let n = 0; n < chunks; n += 1) stream.write("z".repeat(size));
    await stream.end("over");
  }

  @callable()
  async wait(text: string): Promise<number> {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return text.length;
  }

  /** Ends the calls of `wait` of all rooms. */
  @callable()
  release(): number {
    const ended = waiting.splice(0);
    for (const end of ended) end();
    return ended.length;
  }

  @callable()
  keep(times: number, size: number): void {
    for (let n = 0; n < times; n += 1) this.broadcast("k".repeat(size), { keep: 3600 });
  }
}

export class Counter extends McpAgent<object, { readonly count: number }> {
  override initialState = { count: 0 };
  readonly server = new McpServer({ name: "counter", version: "1.0.0" });

  init(): void {
    this.server.registerTool("add", { inputSchema: { n: z.number() } }, ({ n }) => {
      this.setState({ count: this.state.count + n });
      return text(`${this.state.count}`);
    });
    this.server.registerTool("large", { inputSchema: { size: z.number() } }, ({ size }) =>
      text("x".repeat(size)),
    );
  }
}

const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

const mcp = Counter.serve("/mcp", { binding: "Counter" });
const sse = Counter.serveSSE("/sse", { binding: "Counter" });

export default {
  async fetch(request: Request, env: object, ctx: unknown): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/mcp") return mcp.fetch(request, env, ctx);
    if (pathname.startsWith("/sse")) return sse.fetch(request, env, ctx);
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
