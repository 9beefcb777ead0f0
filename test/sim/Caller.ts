/**
 * The agent of a simulation whose turns call the world. Each order is a turn of up to five steps,
 * with a row and a count before each, between them and after the last. The rows contain values that
 * the run made up and the results of its steps, so that a part of another run, a repeated part and
 * a lost result are visible.
 */
import { Agent } from "../../core/agent/Agent.ts";
import { callable } from "../../core/agent/callable.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";
import { OPTIONS, type Order, type SubjectEnv } from "./subjects.ts";

interface CallerState {
  readonly count: number;
}

export class Caller extends Agent<SubjectEnv, CallerState> {
  static override options = OPTIONS;
  override initialState: CallerState = { count: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS parts (ord TEXT, part INTEGER, run TEXT, returned TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const order = (await request.json()) as Order;
    if ((order.ms ?? 0) % QUEUED_ONE_OF !== 0) await this.call(order);
    else await this.queue("call", order);
    return new Response("applied");
  }

  /** The same as a durable call. */
  @callable({ durable: true })
  async called(order: Order): Promise<void> {
    await this.call(order);
  }

  override onError(error: unknown): void {
    throw error;
  }

  /** Everything that it makes up is different in another run. */
  async call({ id, ms = 0, fails: steps = 0 }: Order): Promise<void> {
    this.ran("call", id);
    const run = `${this.env.sim.nowMs()}`;
    const returned: number[] = [];
    for (let part = 0; part <= steps; part++) {
      if (part > 0) returned.push(await this.step("ask", () => this.ask(id, part, ms)));
      // One in two turns has not written while it is in its first step, and others don't wait for
      // it.
      if (part === 0 && ms % 2 === 0) continue;
      this.sql`INSERT INTO parts VALUES (${id}, ${part}, ${run}, ${returned.join()})`;
      if (ms % SLOW_ONE_OF === 0) await this.env.sim.sleep(1 + ((ms * part) % SHORT_MS));
      this.setState({ count: this.state.count + 1 });
    }
  }

  private async ask(id: string, part: number, ms: number): Promise<number> {
    const { image } = asyncAmbient.current()!.owner as ActiveAgent;
    const earlier = this.env.sim.asked(id, part, image.seq);
    await this.env.sim.sleep(1 + ((ms * part) % STEP_MS_MAX));
    if (earlier === 0 && part === FATAL_PART && ms % KILLS_ONE_OF === 0) await this.env.sim.kill();
    return this.env.sim.nowMs();
  }

  private ran(op: string, key: string): void {
    const { kind } = asyncAmbient.current()!.cause;
    this.env.sim.ran({ agent: this.name, key, kind, attempt: 1, op });
  }
}

/** How many of its turns are queue items. */
const QUEUED_ONE_OF = 4;
/** The share of turns that await something between two writes: less than their writes gather. */
const SLOW_ONE_OF = 3;
const SHORT_MS = 15;
const STEP_MS_MAX = 400;
const FATAL_PART = 2;
const KILLS_ONE_OF = 5;
