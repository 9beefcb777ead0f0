/**
 * A workbench of tools: each user has one, adds MCP servers to it, sees their current tools, runs
 * them, and finds every run again later. README.md says how to try it.
 */
import { readFileSync } from "node:fs";
import { Agent, callable, routeAgentRequest } from "agents";

export interface Run {
  readonly id: number;
  readonly server: string;
  readonly tool: string;
  readonly input: string;
  /** Text of the answer, or of the error. */
  readonly output: string;
  readonly failed: boolean;
}

/** As many as the page shows without scrolling far. */
const RUNS_SHOWN = 20;

interface RunRow extends Omit<Run, "failed"> {
  readonly failed: number;
}

export class WorkbenchAgent extends Agent {
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS runs (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      server TEXT NOT NULL,
      tool TEXT NOT NULL,
      input TEXT NOT NULL,
      output TEXT NOT NULL,
      failed INTEGER NOT NULL
    )`;
    this.mcp.configureOAuthCallback({ successRedirect: "/", errorRedirect: "/" });
  }

  /** Connects to a server. If `authUrl` is present, its user has to go there first. */
  @callable()
  connectServer(name: string, url: string) {
    return this.addMcpServer(name, url);
  }

  @callable()
  removeServer(id: string): Promise<void> {
    return this.removeMcpServer(id);
  }

  /** Runs a tool and keeps the run, whether or not it succeeds. */
  @callable()
  async runTool(serverId: string, tool: string, input: Record<string, unknown>): Promise<Run> {
    const server = this.mcp.listServers().find(({ id }) => id === serverId)?.name ?? serverId;
    try {
      const result = await this.mcp.callTool({ serverId, name: tool, arguments: input });
      const texts = result.content.map((part) => String(part["text"] ?? `(${part.type})`));
      return this.keep({
        server,
        tool,
        input,
        output: texts.join("\n"),
        failed: result.isError === true,
      });
    } catch (error) {
      return this.keep({ server, tool, input, output: (error as Error).message, failed: true });
    }
  }

  /** The latest runs, newest first. */
  @callable()
  runs(): Run[] {
    const rows = this.sql<RunRow>`SELECT * FROM runs ORDER BY id DESC LIMIT ${RUNS_SHOWN}`;
    return rows.map((row) => ({ ...row, failed: row.failed === 1 }));
  }

  private keep(run: Omit<Run, "id" | "input"> & { readonly input: object }): Run {
    const input = JSON.stringify(run.input);
    const [row] = this.sql<{ id: number }>`INSERT INTO runs (server, tool, input, output, failed)
      VALUES (${run.server}, ${run.tool}, ${input}, ${run.output}, ${run.failed}) RETURNING id`;
    return { ...run, input, id: row!.id };
  }
}

const page = readFileSync(new URL("./page.html", import.meta.url), "utf8");

export default {
  async fetch(request: Request, env: Record<string, unknown>): Promise<Response> {
    const routed = await routeAgentRequest(request, env);
    if (routed !== null) return routed;
    if (new URL(request.url).pathname === "/")
      return new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } });
    return new Response("Not found", { status: 404 });
  },
};
