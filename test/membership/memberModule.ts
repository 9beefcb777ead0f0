/**
 * Agents of the membership program. A webhook counts in the state, after as long a turn as its body
 * asks for (`slowMs`), and fails where it asks for that; clients count by RPC; `tick` is a schedule
 * that sets itself anew each second and notes how late it ran.
 */
import { Agent, callable } from "agents";
import { body, github, webhook } from "agents/webhooks";

interface MemberState {
  readonly count: number;
  /** Milliseconds that each tick was late. */
  readonly late: ReadonlyArray<number>;
  /** Jobs of the queue that ran, in order. */
  readonly jobs: ReadonlyArray<number>;
}

interface Input {
  readonly slowMs?: number;
  readonly fail?: boolean;
}

const TICK_MS = 1_000;

export class Member extends Agent<unknown, MemberState> {
  static override options = { http: "open", retry: { maxAttempts: 3 } };
  override initialState = { count: 0, late: [], jobs: [] };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const { slowMs = 0, fail = false } = (await request.json()) as Input;
    if (slowMs > 0) await after(slowMs);
    if (fail) throw new Error("this webhook is poison");
    this.setState({ ...this.state, count: this.state.count + 1 });
    return new Response("OK");
  }

  @callable()
  add(): number {
    this.setState({ ...this.state, count: this.state.count + 1 });
    return this.state.count;
  }

  @callable()
  async start(): Promise<void> {
    await this.plan();
  }

  /** Queues jobs of so long a turn each. */
  @callable()
  async enqueue(jobs: number, slowMs: number): Promise<void> {
    for (let n = 0; n < jobs; n++) await this.queue("work", { n, slowMs });
  }

  async work({ n, slowMs }: { n: number; slowMs: number }): Promise<void> {
    await after(slowMs);
    this.setState({ ...this.state, jobs: [...this.state.jobs, n] });
  }

  async tick(dueMs: number): Promise<void> {
    this.setState({ ...this.state, late: [...this.state.late, Date.now() - dueMs] });
    await this.plan();
  }

  private async plan(): Promise<void> {
    // Due times are whole seconds.
    const dueMs = (Math.floor(Date.now() / TICK_MS) + 1) * TICK_MS;
    await this.schedule(new Date(dueMs), "tick", dueMs);
  }
}

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: Member,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
      deadlineMs: 9_500,
    }),
  ],
};
