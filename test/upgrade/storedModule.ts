/**
 * Agents of `npm run upgrade` beside those of the membership program: a `Keeper` has schedules, a
 * cron, queue items, a workflow that sleeps and sockets, a `Writer` writes a stream, a `Diary` is
 * trimmed, a `Holder` is quarantined. What runs notes the release (`RELEASE`) of the host that
 * stored it, and of the one that ran it.
 */
import { Agent, callable, getCurrentAgent, type Schedule } from "agents";
import { body, github, webhook } from "agents/webhooks";
import {
  AgentWorkflow,
  type WorkflowCompleteCallback,
  type WorkflowEvent,
  type WorkflowStep,
} from "agents/workflows";
import members, { Member } from "../membership/memberModule.ts";

export { Member };

interface Env {
  readonly RELEASE: string;
}

/** Something that was stored to run later. */
export interface Armed {
  readonly id: string;
  /** The release that stored it. */
  readonly armed: string;
}

export interface Ran extends Armed {
  readonly what: "schedule" | "cron" | "job" | "workflow";
  readonly ran: string;
}

/** How much of each a keeper stores. */
export interface Arming {
  readonly schedules: number;
  /** The schedules are due evenly within these. */
  readonly seconds: number;
  readonly jobs: number;
  readonly jobMs: number;
  readonly napSeconds: number;
}

export class Keeper extends Agent<Env> {
  static override options = { hibernateAfterSeconds: 1 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS ran (what TEXT, id TEXT, armed TEXT, ran TEXT)`;
  }

  override onRequest(): Response {
    return Response.json(this.sql`SELECT what, id, armed, ran FROM ran ORDER BY rowid`);
  }

  @callable()
  async arm(round: string, { schedules, seconds, jobs, jobMs, napSeconds }: Arming): Promise<void> {
    const named = (n: number): Armed => ({ id: `${round} ${n}`, armed: this.env.RELEASE });
    for (let n = 1; n <= schedules; n++)
      await this.schedule((n * seconds) / schedules, "ring", named(n));
    for (let n = 1; n <= jobs; n++) await this.queue("work", { ...named(n), jobMs });
    await this.runWorkflow("Nap", { id: round, napSeconds });
    await this.schedule("*/2 * * * * *", "tock", this.env.RELEASE, { misfire: "all" });
  }

  @callable()
  async rest(): Promise<void> {
    for (const { id } of this.getSchedules({ type: "cron" })) await this.cancelSchedule(id);
  }

  /** What its connection knows outlives the agent's memory, as long as the socket is open. */
  @callable()
  remember(mark: string): void {
    getCurrentAgent().connection?.setState({ mark });
  }

  @callable()
  recall(): unknown {
    return getCurrentAgent().connection?.state;
  }

  ring(armed: Armed): void {
    this.note("schedule", armed);
  }

  tock(armed: string, { id }: Schedule): void {
    this.note("cron", { id, armed });
  }

  async work({ jobMs, ...armed }: Armed & { readonly jobMs: number }): Promise<void> {
    await after(jobMs);
    this.note("job", armed);
  }

  override onWorkflowComplete({ result }: WorkflowCompleteCallback<Armed>): void {
    if (result !== undefined) this.note("workflow", result);
  }

  private note(what: Ran["what"], { id, armed }: Armed): void {
    this.sql`INSERT INTO ran VALUES (${what}, ${id}, ${armed}, ${this.env.RELEASE})`;
  }
}

interface NapParams {
  readonly id: string;
  readonly napSeconds: number;
}

export class Nap extends AgentWorkflow<Keeper, NapParams, unknown, Env> {
  async run({ payload }: WorkflowEvent<NapParams>, step: WorkflowStep): Promise<void> {
    const armed = await step.do("fall asleep", async () => this.env.RELEASE);
    await step.sleep("nap", payload.napSeconds * 1_000);
    await step.reportComplete({ id: payload.id, armed });
  }
}

export interface Chunk {
  readonly n: number;
  readonly written: string;
}

export class Writer extends Agent<Env> {
  @callable()
  async ask(id: string, chunks: number, chunkMs: number): Promise<void> {
    await this.queue("answer", { id, chunks, chunkMs });
  }

  /** Goes on behind the chunks that an earlier host has stored. */
  async answer(asked: { id: string; chunks: number; chunkMs: number }): Promise<void> {
    const stream = this.stream<Chunk>(asked.id, { keep: "1h" });
    while (stream.sequence < asked.chunks) {
      stream.write({ n: stream.sequence + 1, written: this.env.RELEASE });
      await after(asked.chunkMs);
    }
    stream.end();
  }
}

export class Diary extends Agent<Env, { readonly notes: number }> {
  static override options = { history: { events: 10 } };
  override initialState = { notes: 0 };

  override onRequest(): Response {
    return Response.json(this.state);
  }

  @callable()
  write(): void {
    this.setState({ notes: this.state.notes + 1 });
  }
}

/** The release of the host whose process a `Holder` ends. */
export const ENDED_RELEASE = "ended";

export class Holder extends Agent<Env, { readonly count: number }> {
  static override options = { http: "open", retry: { maxAttempts: 2 } };
  override initialState = { count: 0 };

  override onRequest(request: Request): Response {
    if (request.method === "GET") return Response.json(this.state);
    if (this.env.RELEASE === ENDED_RELEASE) process.exit(1);
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export default {
  webhooks: [
    ...members.webhooks,
    webhook("/webhooks/holder", {
      agent: Holder,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
      deadlineMs: 1_500, // stored and answered 202 soon, as it is quarantined
    }),
  ],
};
