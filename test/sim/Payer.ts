/**
 * The agent of a simulation that spends and compensates. Each order writes a bill, reserves part of
 * a budget, takes some steps that can be undone, and settles what it reserved, or leaves that to
 * the end of the turn. Some orders fail once, some for good. The tables and the journal show what
 * was written or counted twice, left over or undone wrongly.
 */
import { Agent } from "../../core/agent/Agent.ts";
import { getCurrentAgent } from "../../services/node/getCurrentAgent.ts";
import { act } from "./rig/act.ts";
import { undoOf } from "./checkers/undone.ts";
import { OPTIONS, type Order, type SubjectEnv } from "./subjects.ts";

export const MONEY = "money";

type Numbered = Pick<Order, "ms">;

/** Never settled, counted when its input is done. */
const reservedBy = ({ ms = 0 }: Numbered): number => 1 + (ms % 7);
/** Reserves in its first run only, which fails; of another budget: a run can be lost unstored. */
const reservesOnce = ({ ms = 0 }: Numbered): boolean =>
  ms % FAILS_ONCE_OF === 0 && ms % SETTLED_ONE_OF !== 0;
/** What an order that is done has spent of the budget `MONEY`. */
export const spentBy = (order: Numbered): number =>
  reservesOnce(order) ? 0 : (order.ms ?? 0) % SETTLED_ONE_OF === 0 ? 1 : reservedBy(order);

export class Payer extends Agent<SubjectEnv> {
  static override options = OPTIONS;

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS bills (ord TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json({});
    await this.pay((await request.json()) as Order);
    return new Response("applied");
  }

  override onError(error: unknown): void {
    throw error;
  }

  async pay(order: Order): Promise<void> {
    const { id, ms = 0, fails: steps = 0 } = order;
    const limit = Number.MAX_SAFE_INTEGER;
    const { attempt } = getCurrentAgent();
    this.sql`INSERT INTO bills VALUES (${id})`;
    const budget = reservesOnce(order) ? "once" : MONEY;
    const spend =
      budget === MONEY || attempt === 1
        ? await this.spend(budget, reservedBy(order), { limit, per: "ever" })
        : undefined;
    for (let part = 1; part <= steps; part++)
      await this.step("buy", () => this.act(id, part, ms), {
        undo: () => this.act(undoOf(id), part, ms),
      });
    if (ms % FAILS_ONCE_OF === 0 && attempt === 1) throw new Error("as ordered");
    if (ms % FAILS_ONE_OF === 0) throw new Error("as ordered, for good");
    if (ms % SETTLED_ONE_OF === 0) spend?.settle(spentBy(order));
  }

  private act(what: string, part: number, ms: number): Promise<number> {
    const kills = part === FATAL_PART && ms % KILLS_ONE_OF === 0;
    return act(this.env.sim, what, { part, ms, kills });
  }
}

const SETTLED_ONE_OF = 2;
const FAILS_ONCE_OF = 3;
const FAILS_ONE_OF = 5;
/** Number of the step, and of the undo (they begin at the last step), that may kill its host. */
const FATAL_PART = 1;
const KILLS_ONE_OF = 4;
