/** The module of the tests of an agent's work: workflows, one with many steps, fibers, sockets. */
import { Agent, type Connection } from "agents";
import { AgentWorkflow, type WorkflowEvent, type WorkflowStep } from "agents/workflows";

const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason as Error)),
  );

const ONCE = { retries: { limit: 0, delay: "1 second" } } as const;

export class TripAgent extends Agent {
  static override options = { hibernateAfterSeconds: 1 };

  override getConnectionTags(): string[] {
    return ["traveller"];
  }

  override onConnect(connection: Connection): void {
    connection.setState({ seat: "12a" });
  }

  start(id: string): Promise<string> {
    return this.runWorkflow("TRIP_WORKFLOW", { to: "Lisbon" }, { id, metadata: { party: 2 } });
  }

  pay(id: string): Promise<void> {
    return this.sendWorkflowEvent("TRIP_WORKFLOW", id, { type: "paid", payload: { by: "ann" } });
  }

  /** Under the class's name in capitals, from which its words can't be told. */
  notify(id: string): Promise<string> {
    return this.runWorkflow("SMSNOTICE", {}, { id });
  }

  /** One fiber is over, one continues, and one is being undone. */
  async research(): Promise<void> {
    await this.startFiber("pack", () => undefined, { waitForCompletion: true });
    await this.startFiber("ask", async ({ stash, signal }) => {
      await this.step("first", () => "an answer");
      stash({ found: ["an answer"] });
      await untilAborted(signal);
    });
    await this.startFiber("book", async ({ signal }) => {
      await this.step("hotel", () => "room 1", { undo: () => untilAborted(signal) });
      await this.step("flight", () => "seat 2", { undo: () => undefined });
      throw new Error("no money");
    });
  }

  /** As an instance of that many steps has them; every tenth runs beside the one before it. */
  steps(count: number): void {
    this.sql`CREATE TABLE workflow_run (id INTEGER PRIMARY KEY, workflow_name TEXT, agent TEXT,
      params TEXT, started_ms INTEGER, status TEXT, paused INTEGER DEFAULT 0,
      generation INTEGER DEFAULT 1, output TEXT, error TEXT)`;
    this.sql`CREATE TABLE workflow_steps (key TEXT PRIMARY KEY, kind TEXT, position INTEGER,
      after INTEGER, ended_at INTEGER, attempts INTEGER, failures INTEGER DEFAULT 0,
      due_ms INTEGER, event_type TEXT, result TEXT, error TEXT) WITHOUT ROWID`;
    this
      .sql`CREATE TABLE workflow_events (id INTEGER PRIMARY KEY, type TEXT, payload TEXT, time_ms INTEGER)`;
    this
      .sql`INSERT INTO workflow_run (id, workflow_name, started_ms, status) VALUES (1, 'LONG', 0, 'running')`;
    this.sql`WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
      INSERT INTO workflow_steps (key, kind, position, after, ended_at, attempts, result)
      SELECT i || ':part', 'do', i, i - iif(i % 10 = 0, 2, 1), i, 1, '"done"' FROM n`;
  }
}

export class TripWorkflow extends AgentWorkflow<TripAgent, { readonly to: string }> {
  override async run({ payload }: WorkflowEvent<{ readonly to: string }>, step: WorkflowStep) {
    const book = (what: string): Promise<string> =>
      step.do(`book ${what}`, ONCE, async () => `${what} to ${payload.to}`, {
        undo: async (booked) => {
          if (booked.startsWith("flight")) throw new Error("flights are not refunded");
        },
      });
    await Promise.all([book("flight"), book("hotel"), step.sleep("cool off", 1)]);
    await step.waitForEvent("the money", { type: "paid", timeout: "1 day" });
    await step.do("send tickets", ONCE, () => Promise.reject(new Error("no paper")));
  }
}

export class SMSNotice extends AgentWorkflow<TripAgent> {
  override async run(_: WorkflowEvent<unknown>, step: WorkflowStep) {
    await step.do("send", () => Promise.resolve("sent"));
  }
}
