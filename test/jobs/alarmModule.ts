/**
 * The module of the test of many schedules: agents that write down each run, in its own commit, with the
 * time at which the callback began. One that ran twice, or not at all, shows in its rows.
 */
import { Agent } from "agents";

interface Planned {
  readonly n: number;
  readonly dueMs: number;
}

export class Alarm extends Agent {
  static override options = { hibernateAfterSeconds: 2 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS ran (n INTEGER, due_ms INTEGER, at_ms INTEGER)`;
  }

  ring({ n, dueMs }: Planned): void {
    this.sql`INSERT INTO ran VALUES (${n}, ${dueMs}, ${Date.now()})`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST") {
      // All in one commit: asked again after a lost answer, they are there.
      const plan = (await request.json()) as Planned[];
      const { length } = this.getSchedules();
      if (length === 0)
        for (const payload of plan)
          void this.schedule("ring", { time: new Date(payload.dueMs), payload });
      return Response.json({ armed: this.getSchedules().length });
    }
    const rows = this.sql<{ n: number; due_ms: number; at_ms: number }>`SELECT * FROM ran`;
    return Response.json({ left: this.getSchedules().length, rows });
  }
}
