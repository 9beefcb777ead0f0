/** What the tests of `agents query` run on a real host: two classes with states and schedules. */
import { Agent } from "agents";

export class Shop extends Agent<unknown, { readonly sold: number }> {
  static override options = { retry: { maxAttempts: 1 }, hibernateAfterSeconds: 0.2 };
  override initialState = { sold: 0 };

  sell(count: number): number {
    this.sql`CREATE TABLE IF NOT EXISTS sales (count INTEGER)`;
    this.sql`INSERT INTO sales VALUES (${count})`;
    this.setState({ sold: this.state.sold + count });
    return this.state.sold;
  }

  async plan(seconds: number): Promise<void> {
    await this.schedule(seconds, "restock", {});
  }

  restock(): void {
    this.setState({ sold: 0 });
  }

  async failLater(message: string): Promise<void> {
    await this.queue("fail", message);
  }

  fail(message: string): never {
    throw new Error(message);
  }
}

export class Customer extends Agent<unknown, { readonly spent: number }> {
  override initialState = { spent: 0 };

  pay(amount: number): void {
    this.setState({ spent: this.state.spent + amount });
  }
}
