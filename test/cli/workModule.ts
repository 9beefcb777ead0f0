/** The module of the command-line tests: an agent whose jobs all fail until they are allowed. */
import { Agent } from "agents";

interface WorkState {
  readonly allowed: boolean;
  readonly done: ReadonlyArray<string>;
}

export class WorkAgent extends Agent<unknown, WorkState> {
  static override options = { retry: { maxAttempts: 1 } };
  override initialState: WorkState = { allowed: false, done: [] };

  allow(): void {
    this.setState({ ...this.state, allowed: true });
  }

  finished(): ReadonlyArray<string> {
    return this.state.done;
  }

  async enqueue(what: string): Promise<string> {
    return this.queue("work", what);
  }

  async plan(seconds: number, what: string): Promise<void> {
    await this.schedule(seconds, "work", what);
  }

  /** To a time that SQLite can have, and no `Date`. */
  putOff(): void {
    this.sql`UPDATE svc_agents_schedules SET time = 1e300`;
  }

  async planDaily(): Promise<void> {
    await this.schedule("0 9 * * *", "work", { of: "the day" });
  }

  work(what: string): void {
    if (!this.state.allowed) throw new Error("not allowed yet");
    this.setState({ ...this.state, done: [...this.state.done, what] });
  }

  async ask(prompt: string): Promise<void> {
    await this.startFiber("ask", () => this.approval("pay", { prompt, timeout: "1 hour" }));
  }

  async decide(approved: boolean, by: string): Promise<void> {
    await this.decideApproval("pay", { approved, by, reason: "as agreed" });
  }

  fail(): never {
    throw new TypeError("it can't be", { cause: new RangeError("too far") });
  }

  override async onRequest(request: Request): Promise<Response> {
    this.work(await request.text());
    return new Response("OK");
  }
}
