/** Objects that open sockets to others by a stub's `fetch`, and an agent to open one to. */
import { DurableObject } from "cloudflare:workers";
import { Agent, type Connection } from "agents";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import { Live, Room } from "./objectsModule.ts";

export { Live, Room };

/** Says in which process it is. */
export class Hall extends Room {
  async pid(): Promise<number> {
    return process.pid;
  }
}

export interface DialEnv {
  readonly Hall: ObjectNamespace<Hall>;
  readonly Dialer: ObjectNamespace<Dialer>;
  readonly Live: ObjectNamespace<Live>;
  readonly Room: ObjectNamespace<Room>;
}

const UPGRADE = { headers: { Upgrade: "websocket" } };

/** The response to an upgrade that a stub answers. */
export const upgraded = async (
  stub: { fetch(url: string, init: RequestInit): Promise<Response> },
  query = "name=ada",
): Promise<Response & { readonly webSocket: ObjectSocket }> =>
  (await stub.fetch(`http://objects/?${query}`, UPGRADE)) as never;

/** Records the messages of its socket, and passes its own upgrades on to a room. */
export class Dialer extends DurableObject<DialEnv> {
  static options = { hibernateAfterSeconds: 0.2, http: "open" };
  socket: ObjectSocket | undefined;
  readonly instance = crypto.randomUUID();

  async dial(kind: "Hall" | "Live" | "Room", name: string): Promise<number> {
    const { status, webSocket } = await upgraded(this.env[kind].getByName(name), "name=dialer");
    webSocket.accept();
    const { storage } = this.ctx;
    webSocket.addEventListener("message", async ({ data }) => {
      const heard = (await storage.get<unknown[]>("heard")) ?? [];
      await storage.put("heard", [...heard, data]);
    });
    webSocket.addEventListener("close", ({ code, reason, wasClean }) =>
      storage.put("closed", [code, reason, wasClean]),
    );
    this.socket = webSocket;
    return status;
  }
  async say(...messages: string[]): Promise<void> {
    for (const message of messages) this.socket!.send(message);
  }
  async hangUp(code: number, reason: string): Promise<void> {
    this.socket!.close(code, reason);
  }
  async told() {
    const { storage } = this.ctx;
    return { heard: (await storage.get<string[]>("heard")) ?? [], closed: (await storage.get("closed")) ?? null }; // prettier-ignore
  }
  async pid(): Promise<number> {
    return process.pid;
  }
  /** Another one after it has left memory. */
  async which(): Promise<string> {
    return this.instance;
  }
  async abort(): Promise<void> {
    this.ctx.abort("as the test says");
  }
  fetch(request: Request): Promise<Response> {
    return this.env.Room.getByName(`of ${this.ctx.id.name}`).fetch(request);
  }
}

export class Desk extends Agent<unknown, { calls: number }> {
  static override options = { http: "open" as const };
  override initialState = { calls: 0 };
  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    this.setState({ calls: this.state.calls + 1 });
    connection.send(`desk: ${String(message)}`);
  }
}

export default {
  /** `/copy/…`: a stub's socket in another response. `POST /<class>/<name>/<method>`: a call. */
  async fetch(request: Request, env: DialEnv): Promise<Response> {
    const [, kind, name = "", method = ""] = new URL(request.url).pathname.split("/");
    if (request.method === "POST") {
      const stub = env[kind as keyof DialEnv].getByName(name) as unknown as Record<string, (...args: unknown[]) => unknown>; // prettier-ignore
      return Response.json((await stub[method]!(...((await request.json()) as unknown[]))) ?? null);
    }
    if (kind === "dialer") return env.Dialer.getByName(name).fetch(request);
    const response = await env.Room.getByName(name).fetch(request);
    const { webSocket } = response as unknown as { readonly webSocket?: ObjectSocket };
    if (webSocket === undefined || kind === "room") return response;
    if (kind === "taken") webSocket.accept();
    return new Response(null, { status: 101, webSocket } as ResponseInit);
  },
};
