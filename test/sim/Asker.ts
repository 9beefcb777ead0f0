/**
 * The agent of a simulation that asks people. Each petition is a fiber that waits for an approval
 * and then writes the answer; each vote is another order that decides one. The tables show a
 * question that was answered twice, by two people or not at all.
 */
import { Agent } from "../../core/agent/Agent.ts";
import {
  ApprovalClosed,
  ApprovalRejected,
  ApprovalTimedOut,
} from "../../core/approval/approvalErrors.ts";
import type { FiberContext, FiberRecoveryContext } from "../../core/fiber/Fiber.ts";
import { OPTIONS, type Order, type SubjectEnv } from "./subjects.ts";

export class Asker extends Agent<SubjectEnv> {
  // Alarms come within a run.
  static override options = { ...OPTIONS, keepAliveIntervalMs: 1_000 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS answers (petition TEXT, what TEXT, who TEXT)`;
    this.sql`CREATE TABLE IF NOT EXISTS votes (petition TEXT, what TEXT, who TEXT, taken TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json({});
    const order = (await request.json()) as Order;
    if (order.do === "vote") await this.#vote(order);
    else
      await this.startFiber("petition", (fiber) => this.#ask(fiber, order), {
        idempotencyKey: order.id,
        metadata: order as never,
      });
    return new Response("applied");
  }

  override async onFiberRecovered({ snapshot, metadata }: FiberRecoveryContext): Promise<void> {
    const order = metadata as unknown as Order;
    await this.startFiber("petition", async (fiber) => {
      if (snapshot !== ANSWERED) await this.#ask(fiber, order);
    });
  }

  override onError(error: unknown): void {
    throw error;
  }

  async #ask(fiber: FiberContext, { id, ms = 0 }: Order): Promise<void> {
    const [what, who] = await this.approval(id, { timeout: ms }).then(
      ({ by }) => ["approved", by ?? ""] as const,
      (error: unknown) => {
        if (error instanceof ApprovalRejected) return ["rejected", error.by ?? ""] as const;
        if (error instanceof ApprovalTimedOut) return ["expired", ""] as const;
        throw error;
      },
    );
    if (ms % KILLS_ONE_OF === 0 && this.env.sim.asked(`answer ${id}`, 1, 0) === 0)
      await this.env.sim.kill();
    // One commit: nothing is awaited between.
    this.sql`INSERT INTO answers VALUES (${id}, ${what}, ${who})`;
    fiber.stash(ANSWERED);
  }

  async #vote({ id, other = "", verdict = "approved" }: Order): Promise<void> {
    const taken = await this.decideApproval(other, {
      approved: verdict === "approved",
      by: id,
    }).then(
      () => TAKEN,
      (error: unknown) => (error instanceof ApprovalClosed ? "closed" : "unknown"),
    );
    this.sql`INSERT INTO votes VALUES (${other}, ${verdict}, ${id}, ${taken})`;
  }
}

const ANSWERED = "answered";
/** The answer to a vote that decided. */
export const TAKEN = "taken";
const KILLS_ONE_OF = 6;
