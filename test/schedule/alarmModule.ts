/** The module of the job tests that run processes: each run is a row, so that errors show. */
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
      // All in one commit: asked again after a lost answer, they are there, or have run.
      const plan = (await request.json()) as Planned[];
      if (this.getSchedules().length + this.rows().length === 0)
        for (const payload of plan)
          void this.schedule("ring", { time: new Date(payload.dueMs), payload });
      return Response.json({ armed: this.getSchedules().length });
    }
    return Response.json({ left: this.getSchedules().length, rows: this.rows() });
  }

  private rows(): unknown[] {
    return this.sql`SELECT * FROM ran ORDER BY rowid`;
  }
}

/** An agent whose items note that they ran, slowly enough that hosts die amid some. */
export class Lane extends Agent {
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS done (n INTEGER)`;
    this.sql`CREATE TABLE IF NOT EXISTS pushed AS SELECT 0 AS n`;
  }

  async item(n: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.sql`INSERT INTO done VALUES (${n})`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST") {
      const { from, to } = (await request.json()) as { from: number; to: number };
      // Asked again after a lost answer, they are there.
      const [last] = this.sql<{ n: number }>`SELECT n FROM pushed`;
      if ((last?.n ?? 0) < to) {
        this.sql`UPDATE pushed SET n = ${to}`;
        for (let n = from; n < to; n++) void this.queue("item", n);
      }
    }
    const done = this.sql<{ n: number }>`SELECT n FROM done ORDER BY rowid`.map(({ n }) => n);
    return Response.json({ done });
  }
}
