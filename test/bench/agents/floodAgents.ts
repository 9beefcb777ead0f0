/** The module of the flood and hold benches: a state write a request, and an endless turn. */
import { Agent, routeAgentRequest } from "agents";

export class Counter extends Agent<{}, { readonly count: number }> {
  static override options = { http: "open" } as const;
  override initialState = { count: 0 };

  override onRequest(): Response {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

export class Holder extends Agent {
  static override options = { http: "open", retry: { maxAttempts: 1 } } as const;

  override onRequest(): Response {
    for (;;);
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
