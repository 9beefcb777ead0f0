/** The module of the benches of WebSockets and requests: a board with 1 KB of state; an echo. */
import { Agent, callable, routeAgentRequest } from "agents";

/** With its names and the counter: a state of 1 KB. */
const TEXT = "x".repeat(1000);

interface BoardState {
  readonly n: number;
  readonly text: string;
}

export class Board extends Agent<unknown, BoardState> {
  static override options = { hibernateAfterSeconds: 3600 };
  override initialState = { n: 0, text: TEXT };

  /** Every message is a change that everyone should see. */
  override onMessage(): void {
    this.setState({ n: this.state.n + 1, text: TEXT });
  }
}

export class Echo extends Agent {
  static override options = { hibernateAfterSeconds: 3600 };

  override async onRequest(request: Request): Promise<Response> {
    return new Response(request.method === "POST" ? await request.text() : "hello");
  }

  @callable()
  echo(text: string): string {
    return text;
  }
}

export default {
  async fetch(request: Request, env: unknown): Promise<Response> {
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
