/** The module of the flood bench: a state write for each request. */
import { Agent, routeAgentRequest } from "agents";

export class Counter extends Agent<{}, { readonly count: number }> {
  static override options = { http: "open" } as const;
  override initialState = { count: 0 };

  override onRequest(): Response {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
