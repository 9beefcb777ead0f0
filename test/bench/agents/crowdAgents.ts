/** The module of the crowd bench: agents due at one instant, in memory and asleep. */
import { Agent, routeAgentRequest } from "agents";

/** How many have run since the process began, and when the last one did. */
export interface Crowd {
  readonly ran: number;
  readonly lastMs: number;
}

const crowd = { ran: 0, lastMs: 0 };

export class Awake extends Agent {
  static override options = { hibernateAfterSeconds: 3600 };

  ring(): void {
    crowd.ran += 1;
    crowd.lastMs = Date.now();
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST") {
      const { dueMs, each } = (await request.json()) as { dueMs: number; each: number };
      await Promise.all(
        Array.from({ length: each }, () =>
          this.schedule(new Date(dueMs), "ring", undefined, { idempotent: false }),
        ),
      );
    }
    return new Response("OK");
  }
}

export class Asleep extends Awake {
  static override options = { hibernateAfterSeconds: 2 };
}

export default {
  async fetch(request: Request, env: unknown): Promise<Response> {
    if (new URL(request.url).pathname === "/crowd") return Response.json(crowd satisfies Crowd);
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
