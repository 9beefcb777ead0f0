/** An agent that leaves errors unhandled as a webhook's `how` says, and notes its `onError`. */
import { Agent, routeAgentRequest } from "agents";
import { body, github, webhook } from "agents/webhooks";

interface State {
  readonly runs: number;
  readonly errors: ReadonlyArray<string>;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Long enough that the error comes while the turn runs. */
const RUNS_MS = 200;

export class Careless extends Agent<unknown, State> {
  static override options = { http: "open", retry: { maxAttempts: 2, baseDelayMs: 1 } };
  override initialState: State = { runs: 0, errors: [] };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const { how } = (await request.json()) as { how: string };
    this.setState({ ...this.state, runs: this.state.runs + 1 });
    switch (how) {
      case "rejection":
        void pause(1).then(() => Promise.reject(new Error("rejected")));
        await pause(RUNS_MS);
        break;
      case "timer":
        setTimeout(() => {
          throw new Error("thrown in a timer");
        }, 1);
        await pause(RUNS_MS);
        break;
      case "schedule":
        void this.schedule("0 25 * * *", "never");
        break;
      case "handled":
        await this.schedule("0 25 * * *", "never").catch(() => undefined);
        break;
      case "late":
        setTimeout(() => {
          throw new Error("after the turn");
        }, RUNS_MS);
        break;
    }
    return new Response("OK");
  }

  never(): void {}

  override onError(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    this.setState({ ...this.state, errors: [...this.state.errors, text] });
    throw error;
  }
}

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: Careless,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
      deadlineMs: 9_000,
    }),
  ],
  fetch: async (request: Request, env: unknown) => {
    const response = await routeAgentRequest(request, env as never);
    if (response !== null) return response;
    void Promise.reject(new Error("of the gateway's own code"));
    return new Response("fetched");
  },
};
