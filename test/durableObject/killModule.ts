/** The objects that `leftBehind.test.ts` leaves on killed hosts: half-stored steps would show. */
import { setTimeout as sleep } from "node:timers/promises";
import { DurableObject } from "cloudflare:workers";
import { WebSocket } from "ws";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import type { ObjectState } from "../../core/durableObject/ObjectState.ts";
import { passHalfway } from "../faults/halfway.ts";

// The reference's modules read it while they are loaded; Node has one from 22 on.
if (!("WebSocket" in globalThis)) Object.assign(globalThis, { WebSocket });
const { Agent: ReferenceAgent } = await import("reference-agents");

declare const WebSocketPair: new () => { readonly 0: ObjectSocket; readonly 1: ObjectSocket };

/** Alarms of a `Till`, and schedules of a `Tally`. */
const STEPS = 20;
const STEP_MS = 50;

/** Steps of its alarm, which sets the next, and of webhooks. */
export class Till extends DurableObject {
  static options = { http: "open" };

  constructor(ctx: ObjectState, env: Record<string, unknown>) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS steps (n INTEGER PRIMARY KEY, step TEXT)");
  }

  async fetch(request: Request): Promise<Response> {
    // By their names, so that a kill meets them at different points of a step.
    if (request.method === "PUT") await this.begin();
    if (request.method === "POST") await this.step(await request.text());
    return Response.json(await this.told());
  }

  /** Once: a caller whose answer is lost asks again. */
  private async begin(): Promise<void> {
    const { storage, id } = this.ctx;
    if ((await storage.get("begun")) === true) return;
    void storage.put("begun", true);
    await storage.setAlarm(Date.now() + Number(id.name) * STEP_MS);
  }

  /** The wait is longer than a turn's writes gather: what stores them as one is the transaction. */
  async alarm(): Promise<void> {
    const { storage } = this.ctx;
    await passHalfway((await storage.get<number>("next")) ?? 0, STEPS);
    await storage.transaction(async () => {
      const n = (await storage.get<number>("next")) ?? 0;
      await this.step(`alarm ${n}`, 3 * STEP_MS);
      await storage.put("next", n + 1);
      if (n + 1 < STEPS) await storage.setAlarm(Date.now() + STEP_MS);
      else await storage.deleteAlarm();
    });
  }

  private async step(step: string, waitMs = 0): Promise<void> {
    const { storage } = this.ctx;
    const steps = (await storage.get<string[]>("steps")) ?? [];
    await storage.put("steps", [...steps, step]);
    if (waitMs > 0) await sleep(waitMs);
    storage.sql.exec("INSERT INTO steps (step) VALUES (?)", step);
  }

  private async told() {
    const { storage } = this.ctx;
    const rows = storage.sql.exec<{ step: string }>("SELECT step FROM steps ORDER BY n").toArray();
    const steps = (await storage.get<string[]>("steps")) ?? [];
    return { steps, rows: rows.map(({ step }) => step) };
  }
}

/** Answers each message with what its socket was accepted with, and all that its object has had. */
export class Lobby extends DurableObject {
  static options = { http: "open", hibernateAfterSeconds: 0.2 };

  fetch(request: Request): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, ["guest"]);
    server.serializeAttachment({ name: new URL(request.url).searchParams.get("name") });
    return new Response(null, { status: 101, webSocket: client } as ResponseInit);
  }

  async webSocketMessage(socket: ObjectSocket, message: string): Promise<void> {
    const heard = [...((await this.ctx.storage.get<string[]>("heard")) ?? []), message];
    await this.ctx.storage.put("heard", heard);
    const [guest] = this.ctx.getWebSockets("guest");
    socket.send(JSON.stringify([socket.deserializeAttachment(), guest === socket, heard]));
  }
}

/**
 * The reference's own agent: its state by key, its schedules by its alarm. If running them is
 * interrupted, it continues with the next request, or 30 s later.
 */
export class Tally extends ReferenceAgent<Record<string, unknown>, { readonly steps: string[] }> {
  override initialState = { steps: [] };

  override async onRequest(request: Request): Promise<Response> {
    this.sql`CREATE TABLE IF NOT EXISTS steps (n INTEGER PRIMARY KEY, step TEXT)`;
    this.sql`CREATE TABLE IF NOT EXISTS begun (n INTEGER PRIMARY KEY)`;
    if (request.method === "PUT") for (let n = 0; n < STEPS; n++) await this.begin(n);
    const rows = this.sql<{ step: string }>`SELECT step FROM steps ORDER BY n`;
    return Response.json({ steps: this.state.steps, rows: rows.map(({ step }) => step) });
  }

  /** Once: a caller whose answer is lost asks again. Both rows are written before the await. */
  private async begin(n: number): Promise<void> {
    if (this.sql`SELECT n FROM begun WHERE n = ${n}`.length > 0) return;
    this.sql`INSERT INTO begun (n) VALUES (${n})`;
    await this.schedule((n * 2 * STEP_MS) / 1_000, "step", `schedule ${n}`);
  }

  async step(step: string): Promise<void> {
    await sleep(STEP_MS);
    this.setState({ steps: [...this.state.steps, step] });
    this.sql`INSERT INTO steps (step) VALUES (${step})`;
  }
}
(Tally as unknown as { options: object }).options = { http: "open" };
