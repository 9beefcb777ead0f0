/**
 * The HTTP and WebSocket server port of the gateway. Two adapters pass one suite: `services/uws`
 * (uWebSockets.js, the default) and `services/nodeHttp` (node:http and ws, where the native binary
 * can't load).
 *
 * 1. A body is delivered whole if it arrives in time and is within the limit that `limitBody`
 *    returned. A larger one is answered 413, and its handler never runs.
 * 2. Header and body must arrive within `headerTimeoutMs` and `bodyTimeoutMs`; else 408 or a closed
 *    connection. A server may be stricter. uWebSockets.js is laxer with heads: it always allows 8
 *    to 12 s.
 * 3. `respond` is ignored after the caller has disconnected; `aborted` has fired by then.
 * 4. A socket's messages are delivered in order, one at a time, and none before the promise of
 *    `onUpgrade` has accepted. Frames are sent in order, whole or not at all.
 * 5. A socket whose unsent bytes pass `socketBufferBytesMax`, pongs included, is closed with 1013.
 *    `PeerBytes` bounds all sockets and all answers. A caller gets no answer after an unread one.
 * 6. A request whose framing is ambiguous (RFC 9112, 6.3) is refused, and its connection closed.
 * 7. A handler that throws, rejects, or returns an answer that can't be sent is reported to
 *    `onFailure`, and ends its request with 500 or its socket with 1011 (`GuardedHandlers`).
 * 8. `onUpgrade` receives only complete handshakes (`requestHead.handshake`). Any other GET that
 *    asks for a WebSocket is answered 400. `onRequest` sees no `upgrade` header of other offers.
 * 9. Bodies above 64 KiB share `bodiesBytesMax`. Past it, the largest unfinished ones get 503.
 */
import type { Abort } from "../lazyFetch/AbortSource.ts";
import * as Context from "effect/Context";
import * as Data from "effect/Data";
import type * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";

export interface HttpRequest {
  readonly method: string;
  /** Path and query as sent, in ASCII and not decoded: `/agents/x/a%20b?_pk=1`. Begins with `/`. */
  readonly target: string;
  /** Lower-case names, each with its values in order, a character for each byte. No prototype. */
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
  readonly remoteAddress: string;
  /** Whether the caller's connection to this server uses TLS. */
  readonly secure: boolean;
}

export interface HttpResponse {
  readonly status: number;
  /**
   * Pairs, so that `set-cookie` can repeat. Framing headers and `date` are dropped, because the
   * adapter sets them; `connection: close` ends the connection after the answer.
   */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body: Uint8Array | string;
}

/** Reads the rest of a body that is still being produced; each read returns a piece, or the end. */
export type BodyReader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

/** Notifies the producer of a body that no more is needed. Errors that it throws are ignored. */
export const cancelBody = async (rest: BodyReader): Promise<void> => {
  try {
    await rest.cancel();
  } catch {
    // It has ended, as requested.
  }
};

export interface Exchange {
  readonly request: HttpRequest;
  readonly body: Uint8Array;
  /** Whether `respond` or `stream` was called. */
  readonly answered: boolean;
  /**
   * Answers once. Never throws: a second answer, a status outside 200 to 999 and a header that may
   * not be sent are reported (rule 7), and the caller receives 500 instead of an answer with one of
   * the latter two.
   */
  respond(response: HttpResponse): void;
  /**
   * As `respond`, with a body that continues: `body`, then what `rest` returns, read as fast as the
   * caller accepts it. The head is sent at once (uWebSockets.js: with the first piece). `rest` is
   * cancelled when the caller disconnects. If it rejects, the connection is cut, since a body that
   * simply ended would look complete.
   */
  stream(response: HttpResponse, rest: BodyReader): void;
  /** Fires when the caller disconnects before the whole answer was handed over. */
  readonly aborted: Abort;
}

export interface ServerSocket {
  /** Sends a string as a text frame, bytes as a binary one. Does nothing on a closed socket. */
  send(data: string | Uint8Array): void;
  /** Sends a text frame from bytes, without a string. The caller must not change `utf8` later. */
  sendText(utf8: Uint8Array): void;
  /** A code that may not be sent is left out (1005); the reason is cut to 123 bytes. */
  close(code: number, reason: string): void;
}

export interface SocketHandlers {
  readonly onMessage: (data: string | Uint8Array) => void;
  /** The peer sent a ping of this many bytes, which the server answers. */
  readonly onPing?: (bytes: number) => void;
  /**
   * Called once, never inside `send` or `close`. `wasClean` is true if the peer sent a close frame.
   * `code` is 1006 if it did not, and 1005 if its frame had no code. (uWebSockets.js reports 1006
   * for a close frame with a code of 1012 to 1014 or 3000 to 3999.) When this side closes, it is
   * called at once with the code and reason of this side, as clean; with 1009 and 1013, which the
   * server chose by itself, as not clean.
   */
  readonly onClose: (code: number, reason: string, wasClean: boolean) => void;
}

export type UpgradeDecision =
  /** The 101 is sent, then `open` is called with the socket. Messages come after it returns. */
  | {
      readonly _tag: "Accept";
      readonly open: (socket: ServerSocket) => SocketHandlers;
      /** Called instead of `open` if the caller has disconnected by then, or the server stops. */
      readonly missed?: () => void;
      /** The subprotocol to answer with; omitted from the answer if the caller did not offer it. */
      readonly protocol?: string;
    }
  | { readonly _tag: "Refuse"; readonly response: HttpResponse };

/** For the log, so without the query and the headers, which may contain secrets. */
export interface HandlerFailure {
  readonly during:
    | "limitBody"
    | "onBodyRefused"
    | "refusalHeaders"
    | "onRequest"
    | "onUpgrade"
    | "respond"
    | "open"
    | "onMessage"
    | "onClose";
  readonly method: string;
  readonly path: string;
  readonly error: unknown;
}

export interface HttpHandlers {
  /** Called once the head of a request has arrived. Returns the most bytes of body to accept. */
  readonly limitBody: (request: HttpRequest) => number;
  /** The caller was answered 413 by rule 1, or 503 by rule 9. Default: does nothing. */
  readonly onBodyRefused?: (request: HttpRequest, status: 413 | 503) => void;
  /** May answer later. A returned promise is watched (rule 7); other work that it starts is not. */
  readonly onRequest: (exchange: Exchange) => void | Promise<void>;
  readonly onUpgrade: (request: HttpRequest, aborted: AbortSignal) => Promise<UpgradeDecision>;
  /** Headers of an answer that the server itself gives, for pages to read it. Default: none. */
  readonly refusalHeaders?: (request: HttpRequest) => HttpResponse["headers"];
  /** Rule 7. */
  readonly onFailure: (failure: HandlerFailure) => void;
}

export interface HttpServerOptions {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  /**
   * Whether other processes that also set this may listen on the same port. The system distributes
   * connections among them. Whoever assigns the port makes sure that they belong to this
   * installation (`services/workers/reservePort`). Linux only; node:http from Node 22.12. Default:
   * false.
   */
  readonly portShared?: boolean;
  readonly headerTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly headerBytesMax: number;
  /** New connections beyond this number are closed. Open sockets count. */
  readonly connectionsMax: number;
  /** Rule 5. One frame above it does not count, so that it reaches a peer that reads. */
  readonly socketBufferBytesMax: number;
  /**
   * Unsent bytes of all sockets together, and of all answers above 64 KiB together. Past it, those
   * with the most are cut off: sockets, which their handlers hear as 1013, and answers of which
   * nothing was taken for `answerStallMs`. A new answer without room is replaced by a 503.
   */
  readonly unsentBytesMax: number;
  /** Rule 9: bytes of all bodies together, from their arrival to the answer. */
  readonly bodiesBytesMax: number;
  /** Default 5 s. Such a caller is cut off anyway after 10 s (uWebSockets.js: 8 to 12 s). */
  readonly answerStallMs?: number;
  /**
   * Bytes of the largest WebSocket message that a peer may send. A larger one closes the socket
   * with 1009 (uWebSockets.js cuts the connection at twice the size).
   */
  readonly messageBytesMax: number;
  /**
   * A peer that sends nothing for this long, not even the answer to a ping, is cut off. Default 32
   * s, which is below the 60 s after which proxies drop quiet connections. uWebSockets.js: at least
   * 12 s.
   */
  readonly socketIdleMs?: number;
  /**
   * A stopping server continues to answer on open connections until nothing has arrived for this
   * long (5 s at the latest). Each answer is its connection's last. Default 500 ms.
   */
  readonly drainWindowMs?: number;
}

/**
 * The kernel reports that a caller reads only in large steps: about a MiB, where its buffer has
 * grown to a few. 5 s are therefore a pace of 200 KiB/s at the worst.
 */
export const ANSWER_STALL_MS = 5_000;

/** Two pings unanswered, and below the 60 s after which proxies drop quiet connections. */
export const SOCKET_IDLE_MS = 32_000;

/** The address is in use or not allowed; `message` says which, and what to do. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{
  readonly port: number;
  readonly message: string;
}> {}

export interface HttpServerShape {
  /** Name of the implementation, for the log. */
  readonly name: string;
  /**
   * Listens until the scope closes. It then accepts no new connections, closes sockets with 1001,
   * answers the requests in flight (for 10 s at most), and closes every connection.
   */
  readonly listen: (
    options: HttpServerOptions,
    handlers: HttpHandlers,
  ) => Effect.Effect<{ readonly port: number }, ListenFailed, Scope.Scope>;
}

export class HttpServer extends Context.Service<HttpServer, HttpServerShape>()(
  "agents/core/http/HttpServer",
) {}
