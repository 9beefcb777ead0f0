/**
 * The module that the processes of the kill test run: turns with three steps, which write before,
 * between and after them; turns, fibers and workflows that fail for good, whose steps are undone;
 * and fibers that ask people. At each named point the host can be stopped, to be killed there.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  Agent,
  ApprovalClosed,
  callable,
  type FiberContext,
  type FiberRecoveryContext,
  type Step,
} from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import {
  AgentWorkflow,
  NonRetryableError,
  type WorkflowErrorCallback,
  type WorkflowEvent,
  type WorkflowStep,
} from "agents/workflows";

/** Where the host can be killed, in the order of a turn. The world has the points of `asked`. */
export const POINTS = [
  "before the first step",
  "first begins",
  "first asked",
  "first answered",
  "after the first result",
  "between two steps",
  "second begins",
  "second asked",
  "second answered",
  "after the second result",
  "third asked",
  "after the third result",
  "after the last write",
] as const;
/** The same for a turn, a fiber or a workflow that fails for good: its steps are undone. */
export const UNDO_POINTS = [
  "undo-second begins",
  "undo-second asked",
  "undo-second answered",
  "undo-first begins",
  "undo-first asked",
  "undo-first answered",
] as const;
/** The same for a fiber that asks people, two of whom decide, and then has a step. */
export const FIBER_POINTS = [
  "question asked",
  "question decided",
  "question answered",
  "paid begins",
  "paid asked",
  "paid answered",
  "question written",
] as const;
export type Point =
  (typeof POINTS)[number] | (typeof UNDO_POINTS)[number] | (typeof FIBER_POINTS)[number];

export interface Input {
  readonly agent: string;
  /**
   * The work: as a webhook, or as an item of the queue. `fiber`, `workflow`: one that fails. `ask`:
   * a fiber that asks people. `decide`: somebody decides. `count`: another turn that writes.
   */
  readonly run: "webhook" | "queue" | "fiber" | "workflow" | "ask" | "decide" | "count";
  /** Who decides. */
  readonly by?: string;
}

export interface Row {
  readonly run: string;
  readonly what: string;
}

type Asked = "first" | "second" | "undo-first" | "undo-second" | "paid";

interface State {
  readonly count: number;
}

export const FAILURE = "it fails for good";
/** Host, folder of the kills, and address of the world. */
const { VIA = "", KILLS = "", WORLD = "" } = process.env;

export class Order extends Agent<unknown, State> {
  // Deaths of hosts count as attempts until a step is done.
  static override options = {
    http: "open",
    retry: { maxAttempts: 100, baseDelayMs: 50, maxDelayMs: 50 },
  };
  override initialState: State = { count: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, run TEXT, what TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") {
      const rows = this.sql<Row>`SELECT run, what FROM rows ORDER BY n`;
      const approvals = this.getApprovals().map(({ status, by }) => `${status} ${by}`);
      const failed = (await this.listFibers({ status: "error" })).map(({ error }) => error);
      return Response.json({ ...this.state, rows, approvals, failed });
    }
    const { run, by = "" } = (await request.json()) as Input;
    if (run === "count") this.write("other", "count");
    else if (run === "ask") await this.startFiber("ask", this.petition, { idempotencyKey: "ask" });
    else if (run === "fiber") await this.startFiber("fail", this.fails, { idempotencyKey: "fail" });
    else if (run === "workflow") await this.runWorkflow("FailWorkflow", {}, { id: this.name });
    else if (run === "decide") await this.decide(by);
    else if (run === "queue") await this.queue("work");
    else await this.work();
    return new Response("OK");
  }

  /** Once for both ways to call it: what this run made up. */
  @callable({ durable: true })
  async work(): Promise<string> {
    const run = crypto.randomUUID();
    this.write(run, "before");
    this.at("before the first step");
    const first = await this.step("first", (step) => this.ask("first", step));
    this.at("after the first result");
    this.write(run, `between ${first}`);
    this.at("between two steps");
    const second = await this.step("second", (step) => this.ask("second", step, first));
    this.at("after the second result");
    const third = await this.fetch(this.urlOf("third"), { method: "POST", body: second });
    this.at("after the third result");
    this.write(run, `after ${second}, ${await third.text()}`);
    this.at("after the last write");
    return run;
  }

  /** A durable call fails for good at once, however often its hosts have died. */
  @callable({ durable: true })
  async fail(): Promise<void> {
    this.write(crypto.randomUUID(), "before");
    for (const name of ["first", "second"] as const)
      await this.step(name, (step) => this.ask(name, step), {
        undo: (token, step) => this.ask(`undo-${name}`, step, token),
      });
    throw new Error(FAILURE);
  }

  override onWorkflowError({ error }: WorkflowErrorCallback): void {
    this.write("workflow", error);
  }

  override async onFiberRecovered({ name, snapshot }: FiberRecoveryContext): Promise<void> {
    if (name === "fail") await this.startFiber("fail", this.fails);
    else
      await this.startFiber("ask", async (fiber) => {
        if (snapshot !== "written") await this.petition(fiber);
        // Another kill may have come between the write and the point.
        else this.at("question written");
      });
  }

  private readonly fails = (): Promise<void> => this.fail();

  private readonly petition = async (fiber: FiberContext): Promise<void> => {
    const { by } = await this.approval("go", {
      timeout: "1 hour",
      notify: () => this.at("question asked"),
    });
    this.at("question answered");
    const paid = await this.step("paid", (step) => this.ask("paid", step, by ?? ""));
    this.write("asker", `answered by ${by}, ${paid}`);
    fiber.stash("written");
    await this.ctx.storage.sync();
    this.at("question written");
  };

  /** One who comes before the question comes again. */
  private async decide(by: string): Promise<void> {
    const decided = this.decideApproval("go", { approved: true, by });
    const taken = await decided.then(
      () => "taken",
      (error: unknown) => {
        if (error instanceof ApprovalClosed) return "closed";
        throw error;
      },
    );
    this.write("voter", `${by} ${taken}`);
    this.at("question decided");
  }

  private urlOf(name: string): string {
    return urlOf(this.name, name);
  }

  private ask(name: Asked, { signal }: Step, told = ""): Promise<string> {
    return ask(this.name, name, { method: "POST", body: told, signal });
  }

  private write(run: string, what: string): void {
    this.setState({ count: this.state.count + 1 });
    this.sql`INSERT INTO rows (run, what) VALUES (${run}, ${what})`;
  }

  private at(point: Point): void {
    at(this.name, point);
  }
}

/** Its id is the name of the agent that started it. */
export class FailWorkflow extends AgentWorkflow<Order> {
  override async run(_event: WorkflowEvent, step: WorkflowStep): Promise<void> {
    for (const name of ["first", "second"] as const)
      await step.do(name, ({ key }) => this.ask(name, key), {
        undo: (token, { key }) => this.ask(`undo-${name}`, key, token),
      });
    throw new NonRetryableError(FAILURE);
  }

  private ask(name: Asked, key: string, told = ""): Promise<string> {
    const headers = { "idempotency-key": key };
    return ask(this.workflowId, name, { method: "POST", body: told, headers });
  }
}

const urlOf = (agent: string, name: string): string => `${WORLD}/${agent}/${name}?via=${VIA}`;

async function ask(agent: string, name: Asked, init: RequestInit): Promise<string> {
  at(agent, `${name} begins`);
  const token = await (await fetch(urlOf(agent, name), init)).text();
  at(agent, `${name} answered`);
  return token;
}

/** Stops the whole host, where its agent is to be killed here: it is killed within moments. */
function at(agent: string, point: Point): void {
  const armed = join(KILLS, agent);
  if (!existsSync(armed) || readFileSync(armed, "utf8") !== point) return;
  writeFileSync(`${armed}@${VIA}`, "");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

export default {
  webhooks: [
    webhook("/webhooks/orders", {
      agent: Order,
      verify: github({ secret: "SECRET" }),
      entity: body("agent", slug),
    }),
  ],
};
