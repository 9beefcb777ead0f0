/** The module of the MCP tests, in any process: an agent that passes on what `this.mcp` does. */
import { Agent, callable } from "agents";

/** Passes on what `this.mcp` does. */
export class ToolAgent extends Agent {
  static override options = { hibernateAfterSeconds: 1 };

  @callable()
  add(name: string, url: string, options: object = {}) {
    return this.addMcpServer(name, url, options);
  }
  @callable()
  servers() {
    return this.getMcpServers();
  }
  @callable()
  rows() {
    return this.mcp.listServers();
  }
  @callable()
  call(serverId: string, name: string, args: Record<string, unknown>, timeout?: number) {
    const options = timeout === undefined ? {} : { timeout };
    return this.mcp.callTool({ serverId, name, arguments: args }, options);
  }
  @callable()
  async read(serverId: string, uri: string) {
    return this.mcp.readResource({ serverId, uri });
  }
  @callable()
  prompt(serverId: string, name: string, args: Record<string, string>) {
    return this.mcp.getPrompt({ serverId, name, arguments: args });
  }
  @callable()
  templates() {
    return this.mcp.listResourceTemplates();
  }
  @callable()
  remove(id: string) {
    return this.removeMcpServer(id);
  }
  @callable()
  async waited() {
    await this.mcp.waitForConnections({ timeout: 20_000 });
    return this.getMcpServers();
  }
  @callable()
  async keys() {
    return [...(await this.ctx.storage.list()).keys()];
  }
  /** One of the `ai` package's tools, run as it runs them. */
  @callable()
  async ai(tool: string, input: unknown) {
    const tools = this.mcp.getAITools();
    return { names: Object.keys(tools), result: await tools[tool]?.execute(input, {}) };
  }
  @callable()
  establish(id: string) {
    return this.mcp.establishConnection(id);
  }
  @callable()
  ping() {
    return "pong";
  }
}
