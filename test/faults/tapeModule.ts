/** The module of `socketOrder.test.ts`: an agent that keeps its messages' numbers in order. */
import { Agent, routeAgentRequest } from "agents";

export class Tape extends Agent<unknown, { readonly last: number }> {
  static override options = { hibernateAfterSeconds: 1 };
  override initialState = { last: 0 };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS heard (n INTEGER PRIMARY KEY AUTOINCREMENT, message INTEGER)`;
  }

  override onMessage(_connection: unknown, message: string): void {
    this.sql`INSERT INTO heard (message) VALUES (${Number(message)})`;
    this.setState({ last: Number(message) });
  }

  override onRequest(): Response {
    const rows = this.sql<{ message: number }>`SELECT message FROM heard ORDER BY n`;
    return Response.json(rows.map(({ message }) => message));
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
