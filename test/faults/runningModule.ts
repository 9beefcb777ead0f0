/** The module of `lostCalls.test.ts`: calls that never end by themselves. */
import { Agent, callable, routeAgentRequest, type StreamingResponse } from "agents";

export class Runner extends Agent {
  @callable()
  forever(): Promise<never> {
    return new Promise(() => undefined);
  }

  @callable({ streaming: true })
  once(stream: StreamingResponse): Promise<never> {
    stream.send("begun");
    return this.forever();
  }

  @callable()
  echo(text: string): string {
    return text;
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
