/** The module of the kill test: work in steps, without deduplication: a repeated step shows. */
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type FiberContext, type FiberRecoveryContext } from "agents";
import { passHalfway } from "../faults/halfway.ts";

const STEPS = 40;
const STEP_MS = 100;

export class Worker extends Agent {
  static override options = { keepAliveIntervalMs: 1_000 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS steps (n INTEGER PRIMARY KEY, step INTEGER)`;
    this.sql`CREATE TABLE IF NOT EXISTS recoveries (n INTEGER PRIMARY KEY, step INTEGER)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST")
      await this.startFiber("steps", (context) => this.work(context, 0), { idempotencyKey: "all" });
    const steps = this.sql<{ step: number }>`SELECT step FROM steps ORDER BY n`;
    const [recoveries] = this.sql<{ count: number }>`SELECT count(*) AS count FROM recoveries`;
    const fiber = await this.inspectFiberByKey("all");
    return Response.json({
      steps: steps.map(({ step }) => step),
      recoveries: recoveries!.count,
      status: fiber?.status,
      rows: this.sql`SELECT 1 FROM cf_agents_fibers`.length,
    });
  }

  /** The interrupted fiber is resolved when the one that replaces it has ended. */
  override onFiberRecovered({ id, name, snapshot }: FiberRecoveryContext): void {
    const from = snapshot as { step: number; of: string } | null;
    this.sql`INSERT INTO recoveries (step) VALUES (${from?.step ?? 0})`;
    const kept = name === "steps" ? id : from!.of;
    void this.runFiber("more", async (context) => {
      context.stash({ step: from?.step ?? 0, of: kept });
      await this.work(context, from?.step ?? 0, kept);
      await this.resolveFiber(kept, { status: "completed" });
    });
  }

  private async work({ stash, id }: FiberContext, from: number, of = id): Promise<void> {
    for (let step = from; step < STEPS; step++) {
      await passHalfway(step, STEPS);
      await sleep(STEP_MS);
      this.sql`INSERT INTO steps (step) VALUES (${step})`;
      stash({ step: step + 1, of });
    }
  }
}

export default {};
