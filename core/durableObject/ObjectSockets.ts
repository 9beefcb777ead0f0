/**
 * The sockets of a Durable Object: which ends were accepted, with which tags, and what answers a
 * message without the object. `ObjectState` has its calls, `ObjectActor` brings the events.
 *
 * 1. One `ObjectSocket` stands for a connection as long as the object is in memory, so that code
 *    may compare sockets and keep them as keys.
 * 2. A socket of `accept()` has its listeners in memory, and keeps its object there. A socket
 *    without listeners is closed with 1012, because its object was started again.
 * 3. The automatic answer is stored: it applies before the object's constructor has run again.
 * 4. A socket is one of the object's from `accept` on, while its `fetch` still runs: others that
 *    the object calls meanwhile may call back to send to it. One that no `fetch` returned is
 *    forgotten when none runs any more; one that was returned stays until it is connected.
 */
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import type { Connection } from "../connection/Connection.ts";
import { tableExists } from "../database/tableExists.ts";
import { keptOf, ObjectSocket } from "../socket/ObjectSocket.ts";

/** Limits of the reference's platform. */
const TAGS_MAX = 10;
const TAG_LENGTH_MAX = 256;
const AUTO_RESPONSE_LENGTH_MAX = 2_048;

/** "Service restart" (RFC 6455's registry): clients connect again. */
const CLOSE_RESTARTED = 1012;

/** A table of the runtime's own, which `deleteAll` leaves. */
const TABLE = "svc_agents_object";

const { accept, tags, mode, bind, kept } = ObjectSocket.internals;

/** A message, and what answers it. */
export class WebSocketRequestResponsePair {
  constructor(
    readonly request: string,
    readonly response: string,
  ) {
    for (const text of [request, response])
      if (text.length > AUTO_RESPONSE_LENGTH_MAX)
        throw new RangeError(
          `An automatic request or response has at most ${AUTO_RESPONSE_LENGTH_MAX} characters`,
        );
  }
}

type SocketsRuntime = Pick<AgentRuntime, "connections" | "keepAlive" | "query" | "time">;

export class ObjectSockets {
  readonly #runtime: SocketsRuntime;
  readonly #sockets = new WeakMap<Connection, ObjectSocket>();
  readonly #answeredMs = new WeakMap<ObjectSocket, number>();
  readonly #holds = new Map<ObjectSocket, () => void>();
  /** Rule 4. */
  readonly #opening = new Set<ObjectSocket>();
  readonly #returned = new Set<ObjectSocket>();
  #upgrades = 0;
  #pair: WebSocketRequestResponsePair | null | undefined;

  constructor(runtime: SocketsRuntime) {
    this.#runtime = runtime;
  }

  /** Accepts the server's end of a pair. Throws `RangeError` for bad tags. */
  accept(socket: ObjectSocket, given: ReadonlyArray<string>): void {
    const all = [...new Set(given)];
    if (all.length > TAGS_MAX) throw new RangeError(`A socket has at most ${TAGS_MAX} tags`);
    for (const tag of all)
      if (typeof tag !== "string" || tag.length > TAG_LENGTH_MAX)
        throw new RangeError(
          `A socket's tag must be a string of at most ${TAG_LENGTH_MAX} characters`,
        );
    accept(socket, "hibernating", all);
    this.#opening.add(socket);
  }

  /** Rule 4, around a `fetch` that may accept one. `returned`: what it did accept. */
  async whileUpgrading<A>(
    f: () => Promise<A>,
    returned: (result: A) => ObjectSocket | undefined,
  ): Promise<A> {
    this.#upgrades++;
    try {
      const result = await f();
      const socket = returned(result);
      if (socket !== undefined && this.#opening.has(socket)) this.#returned.add(socket);
      return result;
    } finally {
      if (--this.#upgrades === 0) this.#opening.clear();
    }
  }

  /** Those of `acceptWebSocket`: all, or those with this tag. */
  list(tag?: string): ObjectSocket[] {
    const connected = [...this.#runtime.connections()]
      .filter((connection) => keptOf(connection).mode === "hibernating")
      .map((connection) => this.of(connection)!);
    const all = new Set([...connected, ...this.#opening, ...this.#returned]);
    return [...all].filter((socket) => tag === undefined || tags(socket).includes(tag));
  }

  /** Throws `TypeError` for a socket that was not accepted by `accept`. */
  tagsOf(socket: ObjectSocket): string[] {
    if (mode(socket) === "hibernating") return [...tags(socket)];
    throw new TypeError("This socket was not accepted with ctx.acceptWebSocket()");
  }

  /** The accepted end stands for this connection from here on; call `connect` once it joins. */
  meet(socket: ObjectSocket, connection: Connection): void {
    this.#opening.delete(socket);
    this.#returned.delete(socket);
    connection.setState(kept(socket));
    this.#sockets.set(connection, socket);
    if (mode(socket) === "live") this.#holds.set(socket, this.#runtime.keepAlive());
  }

  /** What the object has sent to it already leaves. */
  connect(connection: Connection): void {
    bind(this.#sockets.get(connection)!, connection);
  }

  /** The socket of a connection; undefined for one that rule 2 closes. */
  of(connection: Connection): ObjectSocket | undefined {
    const known = this.#sockets.get(connection);
    if (known !== undefined) return known;
    if (keptOf(connection).mode === "live") {
      connection.close(CLOSE_RESTARTED, "The object was restarted");
      return undefined;
    }
    const socket = ObjectSocket.of(connection);
    this.#sockets.set(connection, socket);
    return socket;
  }

  /** Rule 2, for what was connected before the object came to memory. */
  closeLost(): void {
    for (const connection of this.#runtime.connections())
      if (keptOf(connection).mode === "live") this.of(connection);
  }

  /** It has closed. */
  drop(socket: ObjectSocket): void {
    this.#holds.get(socket)?.();
    this.#holds.delete(socket);
  }

  get autoResponse(): WebSocketRequestResponsePair | null {
    return (this.#pair ??= this.#stored());
  }

  set autoResponse(pair: WebSocketRequestResponsePair | null) {
    const { request, response } = this.autoResponse ?? {};
    if (request === pair?.request && response === pair?.response) return;
    this.#pair = pair;
    this.#runtime.query(`CREATE TABLE IF NOT EXISTS ${TABLE} (request TEXT, response TEXT)`, []);
    this.#runtime.query(`DELETE FROM ${TABLE}`, []);
    if (pair !== null)
      this.#runtime.query(`INSERT INTO ${TABLE} VALUES (?, ?)`, [pair.request, pair.response]);
  }

  #stored(): WebSocketRequestResponsePair | null {
    if (!tableExists(this.#runtime, TABLE)) return null;
    const [row] = this.#runtime.query(`SELECT request, response FROM ${TABLE}`, []).rows;
    return row === undefined
      ? null
      : new WebSocketRequestResponsePair(String(row[0]), String(row[1]));
  }

  /** Answers a message that the automatic answer is for. False: the object answers it. */
  answers(socket: ObjectSocket, message: string | ArrayBuffer): boolean {
    if (mode(socket) !== "hibernating" || message !== this.autoResponse?.request) return false;
    socket.send(this.autoResponse.response);
    this.#answeredMs.set(socket, this.#runtime.time.nowMs());
    return true;
  }

  /** When it was last answered so, since the object came to memory. */
  answeredAt(socket: ObjectSocket): Date | null {
    const ms = this.#answeredMs.get(socket);
    return ms === undefined ? null : new Date(ms);
  }
}
