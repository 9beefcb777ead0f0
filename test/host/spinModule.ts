/** An agent that holds its thread when it is sent a POST. */
import { Agent, routeAgentRequest } from "agents";

export class Holder extends Agent {
  static override options = { http: "open", cpuSeconds: 1 } as const;

  override onRequest(request: Request): Response {
    if (request.method === "POST") for (;;);
    return new Response("OK");
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
