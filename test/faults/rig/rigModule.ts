/**
 * The module that the processes of the fault rig run. A ledger leaves one mark in its state and one
 * in SQL for each webhook, job and tick, without deduplication, so that one applied twice, never or
 * by half shows. Clients write on boards.
 *
 * Each run of an order is first written to `RUNS_FILE`, which therefore also has the runs that were
 * never stored. A host whose `FREEZE_FILE` exists stops itself (SIGSTOP) in its next turn, after
 * the writes and before their commit.
 */
import { appendFileSync } from "node:fs";
import { Agent, getCurrentAgent, type Connection } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { freezeIfAsked } from "../freezeIfAsked.ts";

/** What a webhook asks a ledger to do. */
export interface Order {
  readonly id: string;
  readonly agent: string;
  readonly do: "mark" | "split" | "flaky" | "poison" | "queue" | "schedule" | "cancel" | "send";
  /** How long a `split` turn waits between its two writes, or how late a schedule is due. */
  readonly ms: number;
  /** This many attempts fail. */
  readonly fails: number;
}

/** One run: a JSON line of `RUNS_FILE`. */
export interface Run {
  readonly agent: string;
  readonly key: string;
  readonly attempt: number;
  readonly pid: number;
  /** By its host's clock. */
  readonly atMs: number;
  /** When a tick was due, by the clock of the host that set it. */
  readonly dueMs?: number;
}

/** Few, so that poison is soon dead. */
export const ATTEMPTS_MAX = 5;
const OPTIONS = {
  hibernateAfterSeconds: 1,
  retry: { maxAttempts: ATTEMPTS_MAX, baseDelayMs: 50, maxDelayMs: 200 },
};
/** Random bytes: a rebuild that ran the SQL again would differ. Enough that pages split. */
const NOISE_BYTES = 200;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class Ledger extends Agent<unknown, { readonly count: number }> {
  static override options = { http: "open", ...OPTIONS };
  override initialState = { count: 0 };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS marks (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, noise BLOB)`;
  }

  override onError(error: unknown): void {
    throw error;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") {
      const rows = this.sql<{ key: string }>`SELECT key FROM marks ORDER BY n`;
      const schedules = await this.listSchedules();
      return Response.json({
        state: this.state,
        keys: rows.map(({ key }) => key),
        dueMs: schedules.map(({ time }) => time * 1000),
      });
    }
    const order = (await request.json()) as Order;
    this.#ran(`github:${order.id}`);
    await pause(1);
    await this.#obey(order);
    // Thawed, it goes straight on to its commit: nothing else may be heard first.
    if (freezeIfAsked(this.name)) return new Response("OK");
    return new Response("OK");
  }

  async job({ id, fails }: Order): Promise<void> {
    this.#ran(`job:${id}`);
    if (getCurrentAgent().attempt <= fails) throw new Error("as ordered");
    this.#mark(`job:${id}`);
  }

  async tick({ id, dueMs }: { readonly id: string; readonly dueMs: number }): Promise<void> {
    this.#ran(`tick:${id}`, dueMs);
    this.#mark(`tick:${id}`);
  }

  async #obey(order: Order): Promise<void> {
    const key = `github:${order.id}`;
    switch (order.do) {
      case "split":
        this.setState({ count: this.state.count + 1 });
        await pause(order.ms);
        return this.#note(key);
      case "flaky":
        if (getCurrentAgent().attempt <= order.fails) throw new Error("as ordered");
        return this.#mark(key);
      case "poison":
        throw new Error("poison");
      case "queue":
        this.#mark(key);
        await this.queue("job", order);
        return;
      case "schedule": {
        this.#mark(key);
        const seconds = Math.ceil(order.ms / 1000);
        const dueMs = Date.now() + seconds * 1000;
        await this.schedule(seconds, "tick", { id: order.id, dueMs });
        return;
      }
      case "cancel":
        for (const { id, payload } of await this.listSchedules<{ readonly id: string }>()) {
          await this.cancelSchedule(id);
          this.#note(`cancelled:${payload?.id}`);
        }
        return this.#mark(key);
      case "send":
        this.#mark(key);
        await this.sendWebhook(
          process.env["RECEIVER_URL"]!,
          { agent: this.name, id: order.id },
          { allowPrivate: true, retry: { maxAttempts: 20, baseDelayMs: 100, maxDelayMs: 500 } },
        );
        return;
      case "mark":
        return this.#mark(key);
    }
  }

  #ran(key: string, dueMs?: number): void {
    const file = process.env["RUNS_FILE"];
    if (file === undefined) return;
    const { attempt } = getCurrentAgent();
    const run: Run = {
      agent: this.name, key, attempt, pid: process.pid, atMs: Date.now(),
      ...(dueMs === undefined ? {} : { dueMs }),
    }; // prettier-ignore
    appendFileSync(file, JSON.stringify(run) + "\n");
  }

  #mark(key: string): void {
    this.setState({ count: this.state.count + 1 });
    this.#note(key);
  }

  #note(key: string): void {
    this.sql`INSERT INTO marks (key, noise) VALUES (${key}, randomblob(${NOISE_BYTES}))`;
  }
}

export class Board extends Agent<unknown, { readonly note: string; readonly n: number }> {
  static override options = OPTIONS;
  override initialState = { note: "", n: 0 };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST") this.#write(await request.text());
    return Response.json(this.state);
  }

  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    const note = String(message);
    this.#write(note);
    connection.send(`taken ${note}`);
  }

  override shouldConnectionBeReadonly(
    _connection: Connection,
    { request }: { readonly request: Request },
  ): boolean {
    return request.url.includes("readonly");
  }

  override onError(): void {
    // A readonly connection's message: refused, and nothing more.
  }

  #write(note: string): void {
    this.setState({ note, n: this.state.n + 1 });
  }
}

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: Ledger,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
      deadlineMs: 3000,
    }),
  ],
};
