/** The code that an agent's past ran on: `next.ts` is to be compared with it. */
import { Agent } from "agents";

export interface Tally {
  readonly count: number;
  readonly last: string;
}

export class RepoAgent extends Agent<{ STEP?: string }, Tally> {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 10 } };
  private attempts = 0;
  override initialState: Tally = { count: 0, last: "" };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS pushes (id INTEGER PRIMARY KEY, ref TEXT, at INTEGER)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    const { ref } = (await request.json()) as { ref: string };
    await this.take(ref);
    return new Response("OK");
  }

  async take(ref: string): Promise<void> {
    if (ref === "broken") throw new Error("this ref can't be read");
    this.sql`INSERT INTO pushes (ref, at) VALUES (${ref}, ${new Date().getUTCFullYear()})`;
    if (ref === "flaky" && this.attempts++ === 0) {
      this.setState({ count: this.state.count + 1, last: "half" });
      throw new Error("the first attempt fails, and leaves something behind");
    }
    this.setState({ count: this.state.count + Number(this.env.STEP ?? 1), last: ref });
    if (ref === "notified") await this.sendWebhook("https://hooks.example.com/all", { ref });
    if (ref === "planned") await this.schedule(3_600, "remind", ref);
  }

  remind(): void {
    this.setState({ ...this.state, last: "reminded" });
  }
}
