/** The module of the tests of erasing and copying: an agent that stores all in every way. */
import { Agent } from "agents";

interface KeeperState {
  readonly notes: number;
  readonly last: string;
  readonly rung: ReadonlyArray<string>;
}

/** The part of a note that is shown. Longer ones are counted, to fit into a message. */
const SHOWN_MAX = 500;

export class Keeper extends Agent<unknown, KeeperState> {
  static override options = { retry: { maxAttempts: 1 }, hibernateAfterSeconds: 0.2 };
  override initialState: KeeperState = { notes: 0, last: "", rung: [] };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT)`;
  }

  note(text: string): number {
    this.sql`INSERT INTO notes (text) VALUES (${text})`;
    this.setState({ ...this.state, notes: this.state.notes + 1, last: text.slice(0, 100) });
    return this.state.notes;
  }

  async adopt(name: string): Promise<void> {
    await this.subAgent(Kid, name);
  }

  /** A call carries no more than one message of the broker does. */
  noteLong(length: number): number {
    return this.note("y".repeat(length));
  }

  async plan(seconds: number, text: string): Promise<void> {
    await this.schedule(seconds, "ring", text);
  }

  ring(text: string): void {
    this.setState({ ...this.state, rung: [...this.state.rung, text] });
  }

  async enqueue(text: string): Promise<void> {
    await this.queue("fail", text);
  }

  async enqueueSlow(text: string): Promise<void> {
    await this.queue("ringSlowly", text);
  }

  /** Ends unless its host is told to hold it. */
  async ringSlowly(text: string): Promise<void> {
    if (process.env["HOLD"] !== undefined) await new Promise(() => undefined);
    this.ring(text);
  }

  fail(text: string): never {
    throw new Error(`it can't be done: ${text}`);
  }

  /** Whether `new Response` makes the platform's own object. */
  hasPlatformClasses(): boolean {
    return Object.getPrototypeOf(new Response("")) === Response.prototype;
  }
  all() {
    const schedules = this.getSchedules().map(({ callback, payload, time }) => ({
      callback,
      payload: payload as string,
      time,
    }));
    return {
      state: this.state,
      notes: this.sql<{ text: string }>`SELECT text FROM notes ORDER BY id`.map(({ text }) =>
        text.length <= SHOWN_MAX ? text : `${text.length} times ${text[0]}`,
      ),
      schedules,
    };
  }

  override async onRequest(request: Request): Promise<Response> {
    return new Response(String(this.note((await request.text()).slice(0, 200))));
  }
}

/** A sub-agent of keepers. */
export class Kid extends Agent {}
