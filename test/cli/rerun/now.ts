/** The code on which an agent's past ran; `next.ts` is compared with it. */
import { Agent } from "agents";

export interface Tally {
  readonly count: number;
  readonly last: string;
}

export class RepoAgent extends Agent<{ STEP?: string; API?: string }, Tally> {
  static override options = { retry: { maxAttempts: 1 } };
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
    if (ref === "broken" || ref === "direct") throw new Error("this ref can't be read");
    this.sql`INSERT INTO pushes (ref, at) VALUES (${ref}, ${new Date().getUTCFullYear()})`;
    this.setState({ count: this.state.count + Number(this.env.STEP ?? 1), last: ref });
    if (ref === "notified") await this.sendWebhook("https://hooks.example.com/all", { ref });
    if (ref === "planned") await this.schedule(3_600, "remind", ref);
  }

  remind(): void {
    this.setState({ ...this.state, last: "reminded" });
  }

  async enqueue(ref: string): Promise<void> {
    await this.queue("pick", ref);
  }

  async plan(ref: string): Promise<void> {
    await this.schedule(0, "pick", ref);
  }

  async enqueueHeld(ref: string): Promise<void> {
    await this.queue("hold", ref);
    await this.schedule(0, "hold", `${ref}'s plan`);
  }

  /** Never ends, so that the job still waits when the host is killed. */
  hold(_ref: string): void | Promise<void> {
    return new Promise(() => undefined);
  }

  pick(ref: string): void | Promise<void> {
    throw new Error(`nobody picks ${ref}`);
  }
}

/** Its turns call the world, in several commits and attempts. */
export class PayAgent extends Agent<{ API: string }, { paid: number; tries: number }> {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 10 }, record: true };
  override initialState = { paid: 0, tries: 0 };

  override async onRequest(request: Request): Promise<Response> {
    const { ref } = (await request.json()) as { ref: string };
    this.setState({ ...this.state, tries: this.state.tries + 1 });
    const found = await this.step("look", () => this.look(ref));
    const response = await this.fetch(`${this.env.API}/${ref}`, {
      method: "POST",
      body: JSON.stringify({ amount: this.amountOf(found) }),
    });
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    this.setState({ ...this.state, paid: this.state.paid + Number(await response.text()) });
    return new Response("OK");
  }

  async payLater(ref: string): Promise<void> {
    await this.queue("pay", ref);
  }

  async planToPay(ref: string): Promise<void> {
    await this.schedule(0, "pay", ref);
  }

  async pay(ref: string): Promise<void> {
    const found = await this.step("look", () => this.look(ref));
    const response = await this.fetch(`${this.env.API}/${ref}`, { method: "POST", body: found });
    this.book(Number(await response.text()));
  }

  book(_amount: number): void {
    throw new Error("the books are closed");
  }

  async look(ref: string): Promise<string> {
    return (await fetch(`${this.env.API}/look-${ref}`)).text();
  }
  amountOf(found: string): number {
    return Number(found);
  }
}
