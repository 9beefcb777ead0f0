/**
 * A WebSocket as code holds it, with the names of the reference's platform. There are three:
 *
 * - the server's end of a `WebSocketPair`, and after hibernation the same socket again. The socket
 *   itself lives at a gateway. `ObjectSockets` binds the end to the `Connection` that stands for it
 *   here, once the `fetch` that accepted it has returned the other end; what was sent before waits
 *   for that. A module's own end is bound to the client (`moduleSocket`).
 * - the client's end of a pair, which only goes into a response.
 * - `webSocket` of a stub's response: it goes into a response, or is accepted (`StubLink`).
 */
import type { Connection, ConnectionMessage } from "../connection/Connection.ts";
import type { PendingSocket, SocketHolder } from "./PendingSocket.ts";
import { sendableCode } from "../http/closeFrame.ts";
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import { SocketListeners, type SocketEventType, type SocketListener } from "./SocketListeners.ts";
import { StubLink, type SocketLink } from "./StubLink.ts";

/** Bytes of an attachment's text: a gateway keeps it for each socket. */
const ATTACHMENT_BYTES_MAX = 16_384;

/** `live`: its events go to listeners, and it ends with the object's time in memory. */
type SocketMode = "hibernating" | "live";

/** What is kept with the socket while its object is not in memory. */
interface KeptSocket {
  readonly mode: SocketMode;
  /** Structured text. Absent: none. */
  readonly attachment?: string;
}

/** What a stub's `fetch` has connected; `holder`: of the code that accepts it. */
interface RemoteEnd {
  readonly pending: PendingSocket;
  readonly holder: () => SocketHolder;
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
  /** The other end of a stub's response, until it is taken. */
  #remote: RemoteEnd | undefined;
  #mode: SocketMode | undefined;
  #tags: ReadonlyArray<string> = [];
  #attachment: string | undefined;
  #earlyClose: { readonly code: number | undefined; readonly reason: string } | undefined;
  #link: SocketLink | undefined;

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
    socket.#link = connection;
    return socket;
  }

  /** `webSocket` of a stub's response. */
  static remote(end: RemoteEnd): ObjectSocket {
    const socket = new ObjectSocket();
    socket.#isClient = true;
    socket.#remote = end;
    return socket;
  }

  /** A client's end that goes into a response; throws `TypeError` for any other value. */
  static returned(client: unknown): ObjectSocket {
    if (!(client instanceof ObjectSocket) || !client.#isClient)
      throw new TypeError(
        "webSocket of a Response must be the client's end of a WebSocketPair, or that of a stub's response",
      );
    if (client.#link !== undefined)
      throw new TypeError("A WebSocket can't be returned in a Response after accept() was called");
    return client;
  }

  /**
   * The server's end of what a `fetch` returned, which is accepted. For the socket of a stub's
   * response it is one that passes everything on. Throws `TypeError` without one.
   */
  static accepted(client: ObjectSocket): ObjectSocket {
    const server = client.#peer ?? client.#relay();
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
    bind: (socket: ObjectSocket, link: SocketLink): void => socket.#bind(link),
    take: (socket: ObjectSocket): PendingSocket | undefined => socket.#take()?.pending,
    tags: (socket: ObjectSocket): ReadonlyArray<string> => socket.#tags,
    mode: (socket: ObjectSocket): SocketMode | undefined => socket.#mode,
    kept: (socket: ObjectSocket): KeptSocket => socket.#kept(),
    listeners: (socket: ObjectSocket): SocketListeners => socket.#listeners,
  };

  /** As a WebSocket's. An end of a pair is open from its start. */
  get readyState(): number {
    if (this.#link !== undefined) return this.#link.readyState;
    return this.#earlyClose === undefined ? ObjectSocket.OPEN : ObjectSocket.CLOSING;
  }

  /** URL of the upgrade request; null before the socket is connected. */
  get url(): string | null {
    return this.#link?.uri ?? null;
  }
  /** Null: subprotocols are not negotiated here. */
  get protocol(): string | null {
    return null;
  }
  /** None are negotiated for the object's code. */
  get extensions(): string {
    return "";
  }

  /** Accepts the server's end without hibernation, or a stub's socket: events go to listeners. */
  accept(): void {
    const remote = this.#take();
    if (remote === undefined) return this.#accept("live", []);
    this.#mode = "live";
    this.#link = new StubLink(remote.pending, remote.holder(), this.#listeners);
  }

  /**
   * Sends one message, after the writes made before it are stored. Throws `TypeError` before the
   * socket is accepted. Does nothing once it is closed; that of a stub's response throws
   * `TypeError` after `close()`.
   */
  send(message: ConnectionMessage): void {
    this.#assertAccepted("send");
    if (this.#link !== undefined) this.#link.send(message);
    else if (this.#earlyClose === undefined) this.#early.push(message);
  }

  /** As `Connection.close`. */
  close(code?: number, reason = ""): void {
    this.#assertAccepted("close");
    if (this.#link !== undefined) this.#link.close(code, reason);
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
    this.#link?.setState(this.#kept());
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

  #take(): RemoteEnd | undefined {
    const remote = this.#remote;
    this.#remote = undefined;
    return remote;
  }

  /** An accepted end of a pair whose messages go to the agent of this one, and back. */
  #relay(): ObjectSocket {
    const [, server] = ObjectSocket.pair();
    server.accept();
    this.accept();
    pass(this, server);
    pass(server, this);
    return server;
  }

  #accept(mode: SocketMode, tags: ReadonlyArray<string>): void {
    if (this.#mode !== undefined) throw new TypeError("This socket was accepted already");
    if (this.#isClient)
      throw new TypeError(
        "This is the client's end of a WebSocketPair: return it in a Response, and accept the other end",
      );
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

  #bind(link: SocketLink): void {
    this.#link = link;
    for (const message of this.#early.splice(0)) link.send(message);
    if (this.#earlyClose !== undefined) link.close(this.#earlyClose.code, this.#earlyClose.reason);
  }
}

function pass(from: ObjectSocket, to: ObjectSocket): void {
  from.addEventListener("message", ({ data }) => {
    if (to.readyState === ObjectSocket.OPEN) to.send(data!);
  });
  from.addEventListener("close", ({ code, reason }) => to.close(sendableCode(code!), reason));
}

export function keptOf({ state }: Connection): KeptSocket {
  const { mode, attachment } = (state ?? {}) as Partial<KeptSocket>;
  return {
    mode: mode === "live" ? "live" : "hibernating",
    ...(attachment === undefined ? {} : { attachment }),
  };
}
