/** An agent that ends its process when asked to: over HTTP, by a message and by RPC. */
import { Agent, callable, getAgentByName, routeAgentRequest, type AgentNamespace } from "agents";

interface Env {
  readonly Killer: AgentNamespace<Killer>;
}

const WAYS: Readonly<Record<string, () => void>> = {
  exit: () => process.exit(1),
  abort: () => process.abort(),
};

export class Killer extends Agent {
  /** Answers with the body, where there is one. */
  override async onRequest(request: Request): Promise<Response> {
    WAYS[new URL(request.url).searchParams.get("end") ?? ""]?.();
    return new Response(request.method === "POST" ? await request.arrayBuffer() : "alive");
  }

  override onMessage(connection: { send: (text: string) => void }, message: unknown): void {
    WAYS[String(message)]?.();
    connection.send(`heard ${String(message)}`);
  }

  @callable()
  end(how: string): void {
    WAYS[how]?.();
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/rpc/"))
      return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
    try {
      await (await getAgentByName(env.Killer, pathname.slice("/rpc/".length))).end("exit");
      return new Response("returned");
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
};
