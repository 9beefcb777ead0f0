/** The module of the memory bench: agents of each kind, and a page of what the process holds. */
import { Agent, routeAgentRequest } from "agents";

/** Bytes, after a collection. */
export interface Held {
  /** The heap and what hangs on it outside: buffers, the memory of WebAssembly. */
  readonly ownBytes: number;
  readonly rssBytes: number;
}

class Counting extends Agent<unknown, { readonly count: number }> {
  override initialState = { count: 0 };

  override onRequest(): Response {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

export class Plain extends Counting {
  static override options = { hibernateAfterSeconds: 3600 };
}

export class Stored extends Counting {
  static override options = { hibernateAfterSeconds: 3600 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, body TEXT)`;
    this.sql`INSERT INTO events (body) VALUES (${"x".repeat(200)})`;
  }
}

export class Sleeper extends Counting {
  static override options = { hibernateAfterSeconds: 1 };
}

/** Finalizers run between two: what they release goes at the next. */
const COLLECTIONS = 4;

async function held(): Promise<Held> {
  for (let n = 0; n < COLLECTIONS; n += 1) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { ownBytes: heapUsed + external, rssBytes: rss };
}

export default {
  async fetch(request: Request, env: unknown): Promise<Response> {
    if (new URL(request.url).pathname === "/held") return Response.json(await held());
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
