/**
 * The module of the flood and hold benches: agents that write for each request and call, one whose
 * code floods others or itself, and an endless turn.
 */
import { setImmediate as nextPass, setTimeout as sleep } from "node:timers/promises";
import { Agent, callable, getAgentByName, routeAgentRequest, type AgentNamespace } from "agents";

/** What an unbounded flood has under way at once. */
const AT_ONCE = 64;
const BURST_MS = 5;
/** Jobs that are stored and have not run, at most: below the default of `waitingMax`. */
const JOBS_MAX = 256;
const BROADCAST = "x".repeat(1_000);

export class Counter extends Agent<{}, { readonly count: number }> {
  static override options = { http: "open" } as const;
  override initialState = { count: 0 };

  override onRequest(): Response {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

/** As `Counter`, for calls: a state would be sent to all sockets of the flood. */
export class Called extends Agent {
  static override options = { http: "open" } as const;
  private count = 0;

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS counts (id INTEGER PRIMARY KEY, count INTEGER)`;
  }

  get(): number {
    return this.count;
  }

  @callable()
  add(): number {
    this.count += 1;
    this.sql`INSERT OR REPLACE INTO counts VALUES (1, ${this.count})`;
    return this.count;
  }
}

/** How a flooder floods: `perSecond` 0 is as fast as it can. */
export interface FloodPlan {
  readonly kind: "stub" | "read" | "new" | "queue" | "schedule" | "broadcast";
  readonly perSecond: number;
  readonly ms: number;
  /** Distinguishes the new agents of one flood. */
  readonly round: number;
}

interface Env {
  readonly Called: AgentNamespace<Called>;
}

export class Flooder extends Agent<Env> {
  static override options = { http: "open" } as const;
  private jobs = 0;

  /** Floods, and answers how often. */
  override async onRequest(request: Request): Promise<Response> {
    const plan = (await request.json()) as FloodPlan;
    return new Response(String(await this.flood(plan)));
  }

  work(): void {
    this.jobs -= 1;
  }

  private async flood(plan: FloodPlan): Promise<number> {
    const startMs = performance.now();
    const endMs = startMs + plan.ms;
    let done = 0;
    const once = async (n: number): Promise<void> => {
      await this.once(plan, n);
      done += 1;
    };
    let begun = 0;
    if (plan.perSecond === 0)
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          while (performance.now() < endMs) await once(begun++);
        }),
      );
    for (; performance.now() < endMs; await sleep(BURST_MS)) {
      const due = ((performance.now() - startMs) * plan.perSecond) / 1000;
      while (begun < due) void once(begun++);
    }
    return done;
  }

  private async once({ kind, round }: FloodPlan, n: number): Promise<void> {
    switch (kind) {
      case "stub":
        return void (await (await getAgentByName(this.env.Called, "flooded")).add());
      case "read":
        return void (await (await getAgentByName(this.env.Called, "flooded")).get());
      case "new":
        return void (await (await getAgentByName(this.env.Called, `${round}-${n}`)).add());
      case "broadcast":
        this.broadcast(BROADCAST);
        return nextPass();
      default:
        while (this.jobs >= JOBS_MAX) await sleep(BURST_MS);
        this.jobs += 1;
        if (kind === "queue") await this.queue("work", n);
        else await this.schedule(0, "work", n);
    }
  }
}

export class Holder extends Agent {
  static override options = { http: "open", retry: { maxAttempts: 1 } } as const;

  override onRequest(): Response {
    for (;;);
  }
}

export default {
  fetch: async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
