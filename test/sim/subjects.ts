/**
 * The agents of a simulation. A ledger leaves one mark in its state and one in SQL for each input
 * and job that it does, without deduplication, so that one applied twice, never or by half shows.
 * Clients write on boards.
 */
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import type { Connection } from "../../core/connection/Connection.ts";
import type { WorkflowCompleteCallback } from "../../core/workflow/WorkflowCallback.ts";
import type { ControlAction } from "../../core/workflow/WorkflowCalls.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";
import { getCurrentAgent } from "../../services/node/getCurrentAgent.ts";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";
import type { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { mailOrderOf } from "./simMail.ts";
import type { HeldTurn } from "./simControl.ts";
import { GO, type ErrandParams } from "./Errand.ts";

/** What agents of one process get from the simulation. */
export interface SubjectEnv {
  readonly sim: {
    readonly ran: (run: {
      agent: string;
      key: string;
      kind: string;
      attempt: number;
      op: string;
    }) => void;
    /** An instance said that it is paused now, or whatever it was asked for. */
    readonly controlled: (errand: string, action: ControlAction) => void;
    /** A step of a call is run, where the journal is known up to `seq`: how often it was before. */
    readonly asked: (call: string, step: number, seq: number) => number;
    readonly sleep: (ms: number) => Promise<void>;
    /** The process dies, as of a bug that an input sets off. */
    readonly kill: () => Promise<never>;
    /** The turn holds its thread, until the watchdog ends the process. */
    readonly spin: (turn: HeldTurn) => Promise<never>;
    readonly nowMs: () => number;
  };
  readonly Ledger: AgentNamespace<Ledger>;
  readonly EMAIL: EmailBinding;
}

/** What the body of a webhook asks a ledger to do. */
export interface Order {
  readonly id: string;
  readonly agent: string;
  readonly do:
    | "mark"
    | "slow"
    | "split"
    | "flaky"
    | "poison"
    | "kill"
    | "spin"
    | "queue"
    | "schedule"
    | "cancel"
    | "send"
    | "ask"
    | "destroy"
    | "errand"
    | "control"
    | "march"
    | "call"
    | "pay"
    | "tape"
    | "petition"
    | "vote";
  readonly ms?: number;
  readonly fails?: number;
  readonly when?: "delay" | "date" | "interval" | "cron";
  readonly other?: string;
  /** The word that an errand, or its controller, waits for instead of an event. Also a vote's. */
  readonly verdict?: "approved" | "rejected";
  readonly errand?: string;
  readonly action?: ControlAction;
}

export interface LedgerState {
  readonly count: number;
}

/** The attempts of every input and job. Few, so that poison is soon dead; waits are short. */
export const MAX_ATTEMPTS = 4;
export const OPTIONS = {
  hibernateAfterSeconds: 1,
  retry: { maxAttempts: MAX_ATTEMPTS, baseDelayMs: 20, maxDelayMs: 100 },
};

export class Ledger extends Agent<SubjectEnv, LedgerState> {
  static override options = OPTIONS;
  override initialState: LedgerState = { count: 0 };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS marks (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, noise TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.peek());
    const order = (await request.json()) as Order;
    this.#ran(order.do);
    await this.#obey(order);
    return new Response("applied");
  }

  override async onEmail(email: AgentEmail): Promise<void> {
    const order = mailOrderOf(new TextDecoder().decode(await email.getRaw()))!;
    const { id: text, fails } = order;
    this.#ran(`mail: ${order.do}`);
    if (order.do === "flaky" && getCurrentAgent().attempt <= fails) throw new Error("as ordered");
    if (order.do === "reply") await this.replyToEmail(email, { fromName: "Ledger", body: text });
    else if (order.do === "reject") email.setReject(text);
    else if (order.do === "send") {
      const mail = { from: email.to, to: email.from, subject: "as ordered", text };
      await this.sendEmail({ binding: this.env.EMAIL, ...mail });
    }
    this.#mark();
  }

  override onError(error: unknown): void {
    throw error;
  }

  /** For stubs. */
  peek(): { readonly count: number; readonly keys: ReadonlyArray<string> } {
    const rows = this.sql<{ key: string }>`SELECT key FROM marks ORDER BY n`;
    return { count: this.state.count, keys: rows.map(({ key }) => key) };
  }

  async job({ fails }: { readonly fails: number }): Promise<void> {
    this.#ran("job");
    if (getCurrentAgent().attempt <= fails) throw new Error("as ordered");
    this.#mark();
  }

  /** Lets an errand go on that was not told so when it was sent. */
  async go({ id, verdict }: Pick<Order, "id" | "verdict">): Promise<void> {
    this.#ran("go");
    await this.#say(id, verdict);
    this.#mark();
  }

  override onWorkflowComplete(_callback: WorkflowCompleteCallback): void {
    this.#ran("told");
    this.#mark();
  }

  override onWorkflowError(): void {
    this.#ran("told of an error");
    this.#mark();
  }

  async tick({ ms }: { readonly ms: number }): Promise<void> {
    this.#ran("tick");
    if (ms > 0) await this.env.sim.sleep(ms);
    this.#mark();
  }

  async #obey(order: Order): Promise<void> {
    const { sim } = this.env;
    const { ms = 0, fails = 0 } = order;
    switch (order.do) {
      case "slow":
        await sim.sleep(ms);
        return this.#mark();
      case "split":
        // Shorter than the time that writes of one turn gather.
        this.#count();
        await sim.sleep(ms);
        return this.#note();
      case "flaky":
        if (getCurrentAgent().attempt <= fails) throw new Error("as ordered");
        return this.#mark();
      case "poison":
        throw new Error("poison");
      case "kill":
        return sim.kill();
      case "spin": {
        const { kind, id: key = "", attempt = 1 } = asyncAmbient.current()!.cause;
        return sim.spin({ class: "Ledger", name: this.name, turn: kind, key, attempt });
      }
      case "queue":
        this.#mark();
        await this.queue("job", { fails });
        return;
      case "schedule":
        this.#mark();
        return this.#schedule(order);
      case "cancel":
        for (const { id } of await this.listSchedules()) await this.cancelSchedule(id);
        return this.#mark();
      case "send":
        this.#mark();
        await this.sendWebhook(
          "http://receiver.example/",
          { id: order.id },
          { allowPrivate: true },
        );
        return;
      case "ask":
        await this.env.Ledger.getByName(order.other!).peek();
        return this.#mark();
      case "destroy":
        return this.destroy();
      case "errand":
        return this.#send(order);
      case "control":
        return this.#control(order);
      case "mark":
        return this.#mark();
    }
  }

  /** The event goes with the start, or after it. */
  async #send({ id, ms = 0, fails = 0, verdict }: Order): Promise<void> {
    const kills = ms % KILLS_ONE_OF === 0;
    const approved = verdict !== undefined;
    const buys = verdict === "rejected";
    const params: ErrandParams = { id, fails, pauseMs: ms, kills, approved, buys };
    this.#mark();
    await this.runWorkflow("Errand", params, { id });
    if (ms % 2 === 0) await this.#say(id, verdict);
    else await this.queue("go", { id, verdict });
  }

  async #say(id: string, verdict: Order["verdict"]): Promise<void> {
    if (verdict === "approved") await this.approveWorkflow(id, { metadata: GO });
    else if (verdict === "rejected") await this.rejectWorkflow(id, "as ordered");
    else await this.sendWorkflowEvent("Errand", id, { type: GO, payload: GO });
  }

  /** One that has ended or is unknown here can't be; a call is lost with the host that had it. */
  async #control({ errand = "", action = "pause", verdict }: Order): Promise<void> {
    try {
      await this[`${action}Workflow`](errand);
      this.env.sim.controlled(errand, action);
      // What was said before is forgotten.
      if (action === "restart") await this.#say(errand, verdict);
    } catch {
      // It stays as it is.
    }
    this.#mark();
  }

  async #schedule({ when, ms = 0 }: Order): Promise<void> {
    const payload = { ms: ms % 2 === 0 ? 0 : ms };
    const seconds = 1 + (ms % 4);
    if (when === "delay") await this.schedule(seconds, "tick", payload);
    else if (when === "date")
      await this.schedule(new Date(this.env.sim.nowMs() + seconds * 700), "tick", payload);
    else if (when === "interval") await this.scheduleEvery(seconds, "tick", payload);
    else await this.schedule("* * * * *", "tick", payload);
  }

  #ran(op: string): void {
    const { cause } = asyncAmbient.current()!;
    this.env.sim.ran({
      agent: this.name,
      key: cause.id ?? "",
      kind: cause.kind,
      attempt: cause.attempt ?? 1,
      op,
    });
  }

  #mark(): void {
    this.#count();
    this.#note();
  }
  #count(): void {
    this.setState({ count: this.state.count + 1 });
  }
  #note(): void {
    const key = asyncAmbient.current()!.cause.id ?? "";
    // Long enough that pages split, and every commit is more than one changed range.
    this.sql`INSERT INTO marks (key, noise) VALUES (${key}, ${key.repeat(NOISE_REPEATS)})`;
  }
}

/** A death costs a run more than all else that an errand does. */
const KILLS_ONE_OF = 7;
/** Some 300 bytes a row. */
const NOISE_REPEATS = 12;

export interface BoardState {
  readonly note: string;
  readonly n: number;
}

export class Board extends Agent<SubjectEnv, BoardState> {
  static override options = OPTIONS;
  override initialState: BoardState = { note: "", n: 0 };

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
