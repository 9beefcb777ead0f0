/** The module of tests of MCP sessions: a counter, a question to the user, an endless tool. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { FetchContext } from "agents";
import { McpAgent } from "agents/mcp";
import { z } from "zod";

/** A counter per session. */
export class CounterMcp extends McpAgent<object, { readonly count: number }> {
  static override options = { hibernateAfterSeconds: 0.3 };
  override initialState = { count: 0 };
  readonly server = new McpServer({ name: "counter", version: "1.0.0" });

  init(): void {
    this.server.registerTool(
      "add",
      { description: "Adds to the counter", inputSchema: { amount: z.number() } },
      async ({ amount }) => {
        this.setState({ count: this.state.count + amount });
        return text(`${this.state.count}`);
      },
    );
    this.server.registerTool(
      "ask",
      { description: "Asks by how much", inputSchema: {} },
      async (_args, { requestId }) => {
        const answer = await this.elicitInput(
          {
            message: "By how much?",
            requestedSchema: { type: "object", properties: { amount: { type: "number" } } },
          },
          { relatedRequestId: requestId },
        );
        this.setState({ count: this.state.count + Number(answer.content?.["amount"] ?? 0) });
        return text(`${answer.action}: ${this.state.count}`);
      },
    );
    this.server.registerTool(
      "hang",
      { description: "Never answers", inputSchema: {} },
      async () => {
        this.setState({ count: this.state.count + 100 });
        return new Promise<never>(() => undefined);
      },
    );
    this.server.registerTool("whoami", { description: "The caller", inputSchema: {} }, async () =>
      text(JSON.stringify({ session: this.getSessionId(), props: this.props })),
    );
  }
}

const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

const streamable = CounterMcp.serve("/mcp");
const sse = CounterMcp.serveSSE("/sse");
const sseAnywhere = CounterMcp.serveSSE("/");
const auto = CounterMcp.serve("/auto", { transport: "auto" });

export default {
  fetch(request: Request, env: object, ctx: FetchContext): Promise<Response> {
    const { pathname } = new URL(request.url);
    const user = request.headers.get("x-user");
    if (user !== null) ctx.props["user"] = user;
    const route = pathname.startsWith("/sse")
      ? sse
      : pathname.startsWith("/auto")
        ? auto
        : pathname.startsWith("/any")
          ? sseAnywhere
          : streamable;
    return route.fetch(request, env, ctx);
  },
};
