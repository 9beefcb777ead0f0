/**
 * The agent of a simulation whose work is fibers. Each order is a march of several steps, with one
 * row and one stash each, which continues where its host ended. The rows show what a fiber did
 * twice, never or only in part. Some marches run in a sub-agent. Half of the marches first ask the
 * world (`this.step`), and each row has the answer. Some buy at their end and fail for good, so
 * that what they bought is undone.
 */
import { Agent } from "../../core/agent/Agent.ts";
import type { FiberContext, FiberRecoveryContext } from "../../core/fiber/Fiber.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";
import { act } from "./rig/act.ts";
import { undoOf } from "./checkers/undone.ts";
import { OPTIONS, type Order, type SubjectEnv } from "./subjects.ts";

export const MARCH_STEPS = 5;
/** Steps that a march which fails has done, and has to undo. */
export const MARCH_BUYS = 2;
export const marchFails = ({ ms = 0 }: Pick<Order, "ms">): boolean => ms % FAILS_ONE_OF === 0;

interface Stashed {
  readonly order: Order;
  /** That were done. */
  readonly step: number;
}

interface MarcherState {
  readonly steps: number;
}

export class Marcher extends Agent<SubjectEnv, MarcherState> {
  // Alarms come within a run.
  static override options = { ...OPTIONS, keepAliveIntervalMs: 1_000 };
  override initialState: MarcherState = { steps: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS steps (march TEXT, step INTEGER, answer INTEGER)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const order = (await request.json()) as Order;
    this.#ran("march");
    if ((order.ms ?? 0) % BELOW_ONE_OF !== 0) await this.begin(order);
    else await (await this.subAgent(Marcher, BELOW)).begin(order);
    return new Response("applied");
  }

  /** Asked twice it is begun once. */
  async begin(order: Order): Promise<void> {
    await this.startFiber("march", (fiber) => this.#march(fiber, { order, step: 0 }, true), {
      idempotencyKey: order.id,
      metadata: order as never,
    });
  }

  override async onFiberRecovered({ snapshot, metadata }: FiberRecoveryContext): Promise<void> {
    this.#ran("recovered");
    const from = (snapshot as Stashed | null) ?? { order: metadata as unknown as Order, step: 0 };
    const { ms = 0 } = from.order;
    if (ms % 3 === 0) await this.env.sim.sleep(ms % STEP_MS_MAX);
    const goOn = (fiber: FiberContext): Promise<void> => this.#march(fiber, from, false);
    if (ms % 2 === 0) void this.runFiber("march", goOn).catch(() => undefined);
    else await this.startFiber("march", goOn);
  }

  override onError(error: unknown): void {
    throw error;
  }

  async #march(
    fiber: FiberContext,
    { order, step: done }: Stashed,
    isFirst: boolean,
  ): Promise<void> {
    const { ms = 0 } = order;
    const answer = ms % ASKS_ONE_OF === 0 ? await this.step("ask", () => this.#ask(ms)) : 0;
    for (let step = done + 1; step <= MARCH_STEPS; step++) {
      await this.env.sim.sleep(1 + ((ms * step) % STEP_MS_MAX));
      if (isFirst && step === FATAL_STEP && ms % KILLS_ONE_OF === 0) await this.env.sim.kill();
      this.#ran("step");
      // One commit: nothing is awaited between.
      this.sql`INSERT INTO steps VALUES (${order.id}, ${step}, ${answer})`;
      this.setState({ steps: this.state.steps + 1 });
      fiber.stash({ order, step } satisfies Stashed);
    }
    if (marchFails(order)) await this.#fail(order);
  }

  async #fail({ id, ms = 0 }: Order): Promise<void> {
    const { sim } = this.env;
    for (let part = 1; part <= MARCH_BUYS; part++) {
      const kills = part === 1 && ms % KILLS_UNDOING_ONE_OF === 0;
      await this.step("buy", () => act(sim, id, { part, ms, kills: false }), {
        undo: () => act(sim, undoOf(id), { part, ms, kills }),
      });
    }
    throw new Error("as ordered, for good");
  }

  /** It is another one each time. */
  async #ask(ms: number): Promise<number> {
    await this.env.sim.sleep(1 + (ms % STEP_MS_MAX));
    return this.env.sim.nowMs();
  }

  #ran(op: string): void {
    const { kind, id: key = "" } = asyncAmbient.current()!.cause;
    this.env.sim.ran({ agent: this.name, key, kind, attempt: 1, op });
  }
}

/** Name of a marcher's sub-agent, and how many of its marches are that one's. */
export const BELOW = "below";
const BELOW_ONE_OF = 3;
/** A march takes part of a second: hosts come and go meanwhile. */
const STEP_MS_MAX = 250;
const ASKS_ONE_OF = 2;
const FATAL_STEP = 3;
const KILLS_ONE_OF = 5;
const FAILS_ONE_OF = 4;
const KILLS_UNDOING_ONE_OF = 8;
