/** The module of the schedules bench: it keeps in memory how late each schedule ran. */
import { Agent, routeAgentRequest } from "agents";

/** Due times in ms. */
export interface Plan {
  readonly dueMs: ReadonlyArray<number>;
}

/** How late each one that ran was, and when the last one did. */
export interface Rung {
  readonly lateMs: ReadonlyArray<number>;
  readonly lastMs: number;
}

export class Alarm extends Agent {
  static override options = { hibernateAfterSeconds: 3600 };
  private readonly lateMs: number[] = [];
  private lastMs = 0;

  ring({ dueMs }: { readonly dueMs: number }): void {
    this.lastMs = Date.now();
    this.lateMs.push(this.lastMs - dueMs);
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST") {
      const plan = (await request.json()) as Plan;
      await Promise.all(
        plan.dueMs.map((dueMs) =>
          this.schedule(new Date(dueMs), "ring", { dueMs }, { idempotent: false }),
        ),
      );
    }
    const lateMs = this.lateMs.splice(0);
    return Response.json({ lateMs, lastMs: this.lastMs } satisfies Rung);
  }
}

export default {
  async fetch(request: Request, env: unknown): Promise<Response> {
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
