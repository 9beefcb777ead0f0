/**
 * The module that the processes of the fault tests run: an agent that counts its webhooks in its
 * state and writes each one's id to SQL, without deduplication, so that one applied twice or by
 * half shows.
 *
 * A host whose `FREEZE_FILE` exists stops itself (SIGSTOP) in the middle of its next turn, after
 * the writes and before their commit. A stale append is then certain to follow when it is thawed.
 */
import { Agent, query, type AgentNamespace } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { holdThread } from "../kit/holdThread.ts";
import { freezeIfAsked } from "./freezeIfAsked.ts";

interface LedgerState {
  readonly count: number;
}

interface Env {
  readonly Ledger: AgentNamespace;
}

export class Ledger extends Agent<Env, LedgerState> {
  static override options = { http: "open", hibernateAfterSeconds: 1, retry: { maxAttempts: 20 } };
  override initialState = { count: 0 };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS deliveries (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, noise BLOB)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET" && request.url.endsWith("?of=all"))
      return Response.json(
        await query(this.env.Ledger, "SELECT sum(state->>'count') AS count FROM Ledger"),
      );
    if (request.method === "GET") {
      const rows = this.sql<{ id: string }>`SELECT id FROM deliveries ORDER BY n`;
      return Response.json({ state: this.state, ids: rows.map((row) => row.id) });
    }
    const { id, holdMs = 0 } = (await request.json()) as { id: string; holdMs?: number };
    holdThread(holdMs);
    await tick();
    this.setState({ count: this.state.count + 1 });
    // Random bytes: a rebuild that ran the SQL again would differ.
    this.sql`INSERT INTO deliveries (id, noise) VALUES (${id}, randomblob(40))`;
    // Thawed, it goes straight on to its commit: nothing else may be heard first.
    if (freezeIfAsked(this.name)) return new Response("OK");
    // Others run and end here: their commit must not take this half of a turn along.
    await tick();
    return new Response("OK");
  }
}

const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: Ledger,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
      deadlineMs: Number(process.env["DEADLINE_MS"] ?? 3000),
    }),
  ],
};
