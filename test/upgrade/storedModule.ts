/**
 * Agents of `npm run upgrade` beside those of the membership program: a `Keeper` has schedules, a
 * cron, queue items, a workflow that sleeps and sockets, a `Writer` writes a stream, a `Diary` is
 * trimmed, a `Holder` is quarantined, a `Deed` has turns of many steps and asks people, a `Post`
 * answers mail. What runs notes the release (`RELEASE`) of the host that stored it, and of the one
 * that ran it. An older release lacks some of what is called here; what is imported has to be in
 * all.
 */
import {
  Agent,
  callable,
  getCurrentAgent,
  type FiberContext,
  type FiberRecoveryContext,
  type Schedule,
} from "agents";
import { createAddressBasedEmailResolver, routeAgentEmail, type AgentEmail } from "agents/email";
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
  /** URL of what steps ask. */
  readonly WORLD: string;
}

/** Something that was stored to run later. */
export interface Armed {
  readonly id: string;
  /** The release that stored it. */
  readonly armed: string;
  /** The last of its round waits for the other release if none before it has run there. */
  readonly isLast?: boolean;
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
  async arm(round: string, { schedules, seconds, jobs, jobMs }: Arming): Promise<void> {
    const armed = this.env.RELEASE;
    const named = (n: number, of: number): Armed => ({ id: `${round} ${n}`, armed, isLast: n === of }); // prettier-ignore
    for (let n = 1; n <= schedules; n++)
      await this.schedule((n * seconds) / schedules, "ring", named(n, schedules));
    for (let n = 1; n <= jobs; n++) await this.queue("work", { ...named(n, jobs), jobMs });
    await this.runWorkflow("Nap", { id: round });
    await this.schedule("*/2 * * * * *", "tock", this.env.RELEASE, { misfire: "all" });
  }

  @callable()
  release(): string {
    return this.env.RELEASE;
  }

  @callable()
  async rest(): Promise<void> {
    const crons = this.getSchedules({ type: "cron" });
    // One that is due as it is cancelled is done, and leaves no mark.
    while (crons.some(({ id }) => isNear(this.getSchedule(id)?.time))) await after(50);
    for (const { id } of crons) await this.cancelSchedule(id);
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

  async ring(armed: Armed): Promise<void> {
    if (this.waits("schedule", armed)) await this.schedule(AGAIN_SECONDS, "ring", armed);
    else this.note("schedule", armed);
  }

  tock(armed: string, { id, time }: Schedule): void {
    this.note("cron", { id: `${id}:${time * 1_000}`, armed });
  }

  async work({ jobMs, ...armed }: Armed & { readonly jobMs: number }): Promise<void> {
    await after(jobMs);
    if (this.waits("job", armed)) await this.queue("work", { ...armed, jobMs });
    else this.note("job", armed);
  }

  override onWorkflowComplete({ result }: WorkflowCompleteCallback<Armed>): void {
    if (result !== undefined) this.note("workflow", result);
  }

  private waits(what: Ran["what"], { id, armed, isLast = false }: Armed): boolean {
    if (!isLast || armed !== this.env.RELEASE) return false;
    const round = id.replace(/\d+$/, "%");
    const there = this
      .sql`SELECT 1 FROM ran WHERE what = ${what} AND id LIKE ${round} AND armed <> ran`;
    return there.length === 0;
  }

  private note(what: Ran["what"], { id, armed }: Armed): void {
    this.sql`INSERT INTO ran VALUES (${what}, ${id}, ${armed}, ${this.env.RELEASE})`;
  }
}

interface NapParams {
  readonly id: string;
}

export class Nap extends AgentWorkflow<Keeper, NapParams, unknown, Env> {
  async run({ payload }: WorkflowEvent<NapParams>, step: WorkflowStep): Promise<void> {
    const armed = await step.do("fall asleep", async () => this.env.RELEASE);
    do await step.sleep("nap", AGAIN_SECONDS * 1_000);
    while ((await step.do("wake", async () => this.agent.release())) === armed);
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

export interface DeedRow {
  /** The run of a turn; or `asked`, `answered`, `voter`. */
  readonly run: string;
  readonly what: string;
  /** Results of the run's steps, each with the release that made it. */
  readonly results: string;
  /** The release that wrote it. */
  readonly by: string;
}

export class Deed extends Agent<Env> {
  // Each host that a turn goes through may cost it an attempt.
  static override options = { retry: { maxAttempts: 50, baseDelayMs: 100, maxDelayMs: 1_000 } };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, run TEXT, what TEXT, results TEXT, by TEXT)`;
  }

  override onRequest(): Response {
    const rows = this.sql`SELECT run, what, results, by FROM rows ORDER BY n`;
    return Response.json(rows);
  }

  @callable()
  async begin(steps: number): Promise<void> {
    await this.queue("make", steps);
  }

  /** Returns which run it was. Every other step is a `this.fetch`. */
  @callable({ durable: true })
  async make(steps: number): Promise<string> {
    const run = crypto.randomUUID();
    const results: string[] = [];
    this.note(run, "begin");
    for (let n = 1; n <= steps; n++) {
      const url = `${this.env.WORLD}/${this.name}/${n}`;
      const ask = async (from: typeof fetch): Promise<string> =>
        (await from(url, { method: "POST" })).text();
      if (n % 2 === 0) results.push(`fetched ${await ask(this.fetch.bind(this))}`);
      else
        results.push(
          await this.step(`${n}`, async () => `${this.env.RELEASE} ${await ask(fetch)}`),
        );
    }
    this.note(run, "end", results);
    return run;
  }

  @callable()
  async petition(): Promise<void> {
    await this.startFiber("ask", this.ask, { idempotencyKey: "ask" });
  }

  override async onFiberRecovered({ snapshot }: FiberRecoveryContext): Promise<void> {
    if (snapshot !== "answered") await this.startFiber("ask", this.ask);
  }

  /** Whether the question waits to be decided. */
  @callable()
  isAsked(): boolean {
    return this.getApprovals().some(({ status }) => status === "waiting");
  }

  @callable()
  async decide(by: string): Promise<void> {
    const decided = this.decideApproval("go", { approved: true, by });
    const how = await decided.then(
      () => "taken",
      (error: unknown) => {
        if ((error as Error).name === "ApprovalClosed") return "closed";
        throw error;
      },
    );
    this.note("voter", `${by} ${how}`);
  }

  private readonly ask = async (fiber: FiberContext): Promise<void> => {
    const notify = (): void => this.note("asked", "go");
    const { by } = await this.approval("go", { timeout: "1 hour", notify });
    this.note("answered", `${by}`);
    fiber.stash("answered");
  };

  private note(run: string, what: string, results: ReadonlyArray<string> = []): void {
    this
      .sql`INSERT INTO rows (run, what, results, by) VALUES (${run}, ${what}, ${results.join()}, ${this.env.RELEASE})`;
  }
}

export class Post extends Agent<Env> {
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS letters (subject TEXT, by TEXT)`;
  }

  override onRequest(): Response {
    return Response.json(this.sql`SELECT subject, by FROM letters ORDER BY rowid`);
  }

  override async onEmail(email: AgentEmail): Promise<void> {
    const subject = email.headers.get("subject") ?? "";
    this.sql`INSERT INTO letters VALUES (${subject}, ${this.env.RELEASE})`;
    await this.replyToEmail(email, { fromName: "Post", subject, body: "it is here" });
  }
}

/** A part of the time that replacing a host takes. */
const AGAIN_SECONDS = 5;
/** `time`: in seconds, as a schedule has it. */
const isNear = (time: number | undefined): boolean =>
  time !== undefined && time * 1_000 - Date.now() < 500;
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export default {
  email: (message: AgentEmail, env: Env): Promise<void> =>
    routeAgentEmail(message, env, { resolver: createAddressBasedEmailResolver("post") }),
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
