/** The agents that the harness is tested with: one that does a little of everything. */
import { setTimeout as realSleep } from "node:timers/promises";
import { Agent, callable, type Connection, type StreamingResponse } from "agents";
import { body, github, stripe, webhook } from "agents/webhooks";

export interface NoteState {
  readonly notes: ReadonlyArray<string>;
}

/** Held by a test: a turn waits for it. */
export const held: { latch: Promise<void> | undefined } = { latch: undefined };

export class NoteAgent extends Agent<{ readonly GREETING?: string }, NoteState> {
  static override options = {
    http: "open",
    // A turn that never ends is what one of the tests is about.
    turnSeconds: 0,
    retry: { maxAttempts: 2, baseDelayMs: 100, maxDelayMs: 100 },
  };
  override initialState: NoteState = { notes: [] };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT, at TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const { text } = (await request.json()) as { text: string };
    if (text === "wait") await held.latch;
    if (text === "sleep") await new Promise((resolve) => setTimeout(resolve, 5_000));
    if (text === "read") await realSleep(5);
    if (text === "load") await realSleep(500);
    if (text === "fail") throw new Error("told to fail");
    this.note(text);
    return new Response(`noted ${text}`);
  }

  @callable()
  note(text: string): number {
    this.sql`INSERT INTO notes (text, at) VALUES (${text}, ${new Date().toISOString()})`;
    this.setState({ notes: [...this.state.notes, text] });
    return this.state.notes.length;
  }

  @callable({ streaming: true })
  count(stream: StreamingResponse, to: number): void {
    for (let n = 1; n < to; n++) stream.send(n);
    stream.end(to);
  }

  async remind(seconds: number, text: string): Promise<void> {
    await this.schedule(seconds, "reminded", text);
  }

  async remindDaily(): Promise<void> {
    await this.schedule("0 9 * * *", "reminded", "morning");
  }

  reminded(text: string): void {
    this.note(`${text} at ${new Date().toISOString()}`);
  }

  async enqueue(text: string): Promise<void> {
    await this.queue("work", text);
  }

  work(text: string): void {
    if (text === "broken") throw new Error("can't do it");
    this.note(text);
  }

  async tell(url: string): Promise<string> {
    return this.sendWebhook(url, { notes: this.state.notes }, { secret: "s3cret" });
  }

  async ask(url: string): Promise<string> {
    this.note("asked");
    return (await fetch(url)).text();
  }

  random(): ReadonlyArray<string | number> {
    return [crypto.randomUUID(), Math.random(), Date.now()];
  }

  async fromOther(name: string): Promise<number> {
    const env = this.env as unknown as {
      NoteAgent: { getByName(name: string): { note(text: string): Promise<number> } };
    };
    return env.NoteAgent.getByName(name).note(`from ${this.name}`);
  }

  greeting(): string {
    return this.env.GREETING ?? "none";
  }

  sqlTime(): unknown {
    return this.sql`SELECT datetime('now') AS now`[0];
  }

  override onMessage(connection: Connection, message: string): void {
    connection.send(`you said ${message}`);
    this.broadcast(`somebody said ${message}`, [connection.id]);
  }

  override onError(): void {
    // The default would print what these tests provoke; a failure stays one.
    throw new Error("not handled");
  }
}

export const routes = [
  webhook("/hooks/github", {
    agent: NoteAgent,
    verify: github({ secret: "GITHUB_SECRET" }),
    entity: body("for"),
  }),
  webhook("/hooks/stripe", {
    agent: NoteAgent,
    verify: stripe({ secret: "STRIPE_SECRET" }),
    entity: body("for"),
  }),
];
