/**
 * A WebSocket as the code of a Durable Object holds it: the server's end of a `WebSocketPair`, and
 * after hibernation the same socket again. The socket itself lives at a gateway. `ObjectSockets`
 * binds an end to the `Connection` that stands for it here, once the `fetch` that accepted it has
 * returned the other end; what was sent before waits for that.
 */
import type { Connection, ConnectionMessage } from "../connection/Connection.ts";
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import { SocketListeners, type SocketEventType, type SocketListener } from "./SocketListeners.ts";

/** Bytes of an attachment's text: a gateway keeps it for each socket. */
const ATTACHMENT_BYTES_MAX = 16_384;

/** `live`: its events go to listeners, and it ends with the object's time in memory. */
export type SocketMode = "hibernating" | "live";

/** What is kept with the socket while its object is not in memory. */
export interface KeptSocket {
  readonly mode: SocketMode;
  /** Structured text. Absent: none. */
  readonly attachment?: string;
}

export class ObjectSocket {
  /** `readyState` values, under the names of a WebSocket. */
  static readonly CONNECTING = 0;
  /** As above. */
  static readonly OPEN = 1;
  /** As above. */
  static readonly CLOSING = 2;
  /** As above. */
  static readonly CLOSED = 3;
  // The reference's platform has these names, too.
  /** As above. */
  static readonly READY_STATE_CONNECTING = 0;
  /** As above. */
  static readonly READY_STATE_OPEN = 1;
  /** As above. */
  static readonly READY_STATE_CLOSING = 2;
  /** As above. */
  static readonly READY_STATE_CLOSED = 3;
  readonly #listeners = new SocketListeners();
  readonly #early: ConnectionMessage[] = [];
  #peer: ObjectSocket | undefined;
  #isClient = false;
  #mode: SocketMode | undefined;
  #tags: ReadonlyArray<string> = [];
  #attachment: string | undefined;
  #earlyClose: { readonly code: number | undefined; readonly reason: string } | undefined;
  #connection: Connection | undefined;

  /** The client's end and the server's, which know each other. */
  static pair(): readonly [client: ObjectSocket, server: ObjectSocket] {
    const [client, server] = [new ObjectSocket(), new ObjectSocket()];
    client.#isClient = true;
    [client.#peer, server.#peer] = [server, client];
    return [client, server];
  }

  /** A socket that was accepted before its object came to memory. */
  static of(connection: Connection): ObjectSocket {
    const socket = new ObjectSocket();
    const { mode, attachment } = keptOf(connection);
    socket.#mode = mode;
    socket.#tags = connection.tags;
    socket.#attachment = attachment;
    socket.#connection = connection;
    return socket;
  }

  /** The other end, which its server has accepted; throws `TypeError` for any other value. */
  static accepted(client: unknown): ObjectSocket {
    if (!(client instanceof ObjectSocket) || !client.#isClient)
      throw new TypeError("webSocket of a Response must be the client's end of a WebSocketPair");
    const server = client.#peer!;
    if (server.#mode === undefined)
      throw new TypeError(
        "The server's end of the WebSocketPair was not accepted: call ctx.acceptWebSocket(server), or server.accept()",
      );
    return server;
  }

  /** For `ObjectSockets`, so that the members are not those of the user's object. */
  static readonly internals = {
    accept: (socket: ObjectSocket, mode: SocketMode, tags: ReadonlyArray<string>): void =>
      socket.#accept(mode, tags),
    bind: (socket: ObjectSocket, connection: Connection): void => socket.#bind(connection),
    tags: (socket: ObjectSocket): ReadonlyArray<string> => socket.#tags,
    mode: (socket: ObjectSocket): SocketMode | undefined => socket.#mode,
    kept: (socket: ObjectSocket): KeptSocket => socket.#kept(),
    listeners: (socket: ObjectSocket): SocketListeners => socket.#listeners,
  };

  /** As a WebSocket's. An end of a pair is open from its start. */
  get readyState(): number {
    if (this.#connection !== undefined) return this.#connection.readyState;
    return this.#earlyClose === undefined ? ObjectSocket.OPEN : ObjectSocket.CLOSING;
  }

  /** URL of the upgrade request; null before the socket is connected. */
  get url(): string | null {
    return this.#connection?.uri ?? null;
  }
  /** Null: subprotocols are not negotiated here. */
  get protocol(): string | null {
    return null;
  }
  /** None are negotiated for the object's code. */
  get extensions(): string {
    return "";
  }

  /** Accepts the server's end without hibernation: its events go to listeners. */
  accept(): void {
    this.#accept("live", []);
  }

  /**
   * Sends one message, after the writes made before it are stored. Throws `TypeError` before the
   * socket is accepted. Does nothing once it is closed.
   */
  send(message: ConnectionMessage): void {
    this.#assertAccepted("send");
    if (this.#connection !== undefined) this.#connection.send(message);
    else if (this.#earlyClose === undefined) this.#early.push(message);
  }

  /** As `Connection.close`. */
  close(code?: number, reason = ""): void {
    this.#assertAccepted("close");
    if (this.#connection !== undefined) this.#connection.close(code, reason);
    else this.#earlyClose ??= { code, reason };
  }

  /**
   * Keeps a value with the socket, through hibernation and moves between hosts, as long as the
   * socket lives. Throws a `DataCloneError`, and a `RangeError` for more than 16 KiB.
   */
  serializeAttachment(value: unknown): void {
    const text = encodeStructured(value, "the attachment");
    const { length } = new TextEncoder().encode(text);
    if (length > ATTACHMENT_BYTES_MAX)
      throw new RangeError(
        `An attachment has at most ${ATTACHMENT_BYTES_MAX} bytes, but this one has ${length}. Store it in ctx.storage, and attach its key`,
      );
    this.#attachment = text;
    this.#connection?.setState(this.#kept());
  }

  /** A copy of the value that was kept; null without one. */
  deserializeAttachment(): unknown {
    return this.#attachment === undefined ? null : decodeStructured(this.#attachment);
  }

  /** For a socket of `accept()`: `message`, `close` and `error`. */
  addEventListener(
    type: SocketEventType,
    listener: SocketListener,
    options?: { readonly once?: boolean } | boolean,
  ): void {
    this.#listeners.add(type, listener, typeof options === "object" && options.once === true);
  }

  removeEventListener(type: SocketEventType, listener: SocketListener): void {
    this.#listeners.remove(type, listener);
  }

  #accept(mode: SocketMode, tags: ReadonlyArray<string>): void {
    if (this.#isClient)
      throw new TypeError(
        "This is the client's end of a WebSocketPair: return it in a Response, and accept the other end",
      );
    if (this.#mode !== undefined) throw new TypeError("This socket was accepted already");
    this.#mode = mode;
    this.#tags = tags;
  }

  #assertAccepted(call: string): void {
    if (this.#mode === undefined)
      throw new TypeError(
        `${call}() was called on a socket that was not accepted: call ctx.acceptWebSocket(socket), or socket.accept()`,
      );
  }

  #kept(): KeptSocket {
    const attachment = this.#attachment;
    return { mode: this.#mode!, ...(attachment === undefined ? {} : { attachment }) };
  }

  #bind(connection: Connection): void {
    this.#connection = connection;
    for (const message of this.#early.splice(0)) connection.send(message);
    if (this.#earlyClose !== undefined)
      connection.close(this.#earlyClose.code, this.#earlyClose.reason);
  }
}

/** What is kept with the socket of a connection. */
export function keptOf({ state }: Connection): KeptSocket {
  const { mode, attachment } = (state ?? {}) as Partial<KeptSocket>;
  return {
    mode: mode === "live" ? "live" : "hibernating",
    ...(attachment === undefined ? {} : { attachment }),
  };
}
