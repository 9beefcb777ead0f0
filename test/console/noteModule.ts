/** The module of the console's tests: an agent with state, rows, a schedule and a failing job. */
import { Agent } from "agents";

interface Note {
  readonly text: string;
  readonly by: { readonly name: string };
}

export class NoteAgent extends Agent<unknown, Note> {
  static override options = { retry: { maxAttempts: 1 } };
  override initialState: Note = { text: "", by: { name: "nobody" } };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
  }

  override onRequest(): Response {
    this.write("of a webhook", "ann");
    return new Response("OK");
  }

  write(text: string, name: string): void {
    this.sql`INSERT INTO notes (text) VALUES (${text})`;
    this.setState({ text, by: { name } });
  }

  async plan(): Promise<void> {
    await this.schedule(86_400, "remind", "of it");
  }

  async enqueue(): Promise<void> {
    await this.queue("remind", "too early");
  }

  remind(): void {
    if (this.state.by.name !== "the boss") throw new Error("nobody may be reminded");
  }
}
