/**
 * An agent per chat room: who is there, and the last hundred messages. Presence follows sockets, so
 * it is right after a tab closes, a laptop sleeps or a host dies. Late comers get the messages.
 *
 * Start it with `npx agents dev examples/chat/server.ts` and open http://localhost:8787/?name=ann
 * twice.
 */
import { readFileSync } from "node:fs";
import {
  Agent,
  callable,
  getCurrentAgent,
  type Connection,
  type ConnectionContext,
  type Module,
} from "agents";

export interface Message {
  readonly id: number;
  readonly name: string;
  readonly text: string;
}
export interface Room {
  /** Names of the people present, each once, however many tabs they have. */
  readonly present: ReadonlyArray<string>;
}

const KEPT = 100;
const TEXT_LENGTH_MAX = 2_000;

export class ChatRoom extends Agent<Record<string, unknown>, Room> {
  override initialState: Room = { present: [] };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS messages (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, text TEXT NOT NULL
    )`;
  }

  override onConnect(connection: Connection, { request }: ConnectionContext): void {
    const name = new URL(request.url).searchParams.get("name")?.trim().slice(0, 40);
    if (!name) return connection.close(4000, "say who you are: ?name=");
    connection.setState({ name });
    this.#seePresence();
  }

  override onClose(connection: Connection): void {
    this.#seePresence(connection.id);
  }

  @callable()
  say(text: string): Message {
    const name = nameOf(getCurrentAgent().connection);
    if (name === undefined) throw new Error("only from a connection");
    if (typeof text !== "string" || text.trim() === "" || text.length > TEXT_LENGTH_MAX)
      throw new Error(`a message has 1 to ${TEXT_LENGTH_MAX} characters`);
    const [row] = this.sql<{ id: number }>`INSERT INTO messages (name, text)
      VALUES (${name}, ${text}) RETURNING id`;
    const message = { id: row!.id, name, text };
    this.sql`DELETE FROM messages WHERE id <= ${message.id - KEPT}`;
    this.broadcast(JSON.stringify({ type: "message", message }));
    return message;
  }

  /** Messages after `id`: all kept ones, or those that a page missed. */
  @callable()
  since(id = 0): Message[] {
    return this.sql<Message>`SELECT id, name, text FROM messages WHERE id > ${id} ORDER BY id`;
  }

  /** Sets the state only if it changes: a second tab of one person does not. */
  #seePresence(without?: string): void {
    const names = [...this.getConnections()]
      .filter(({ id }) => id !== without)
      .map(nameOf)
      .filter((name) => name !== undefined);
    const present = [...new Set(names)].toSorted();
    if (present.join("\n") !== this.state.present.join("\n")) this.setState({ present });
  }

  /** Clients may not set presence. */
  override validateStateChange(_next: Room, source: Connection | "server"): void {
    if (source !== "server") throw new Error("presence follows connections");
  }
}

const nameOf = (connection: Connection | undefined): string | undefined =>
  (connection?.state as { readonly name?: string } | null | undefined)?.name;

const PAGE = readFileSync(new URL("./page.html", import.meta.url), "utf8");

export default {
  async fetch(request, _env, gateway) {
    if (new URL(request.url).pathname === "/")
      return new Response(PAGE, { headers: { "content-type": "text/html; charset=utf-8" } });
    return (await gateway.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 });
  },
} satisfies Module;
