/**
 * The HTTP and WebSocket server port of the gateway. Two adapters pass one suite: `services/uws`
 * (uWebSockets.js, the default) and `services/nodeHttp` (node:http and ws, where the native binary
 * can't load).
 *
 * 1. A body is delivered whole, if it is within the limit that `limitBody` set in time; else the
 *    caller gets 413 and the handler never runs.
 * 2. Header and body must arrive within `headerTimeoutMs` and `bodyTimeoutMs`; else 408 or a closed
 *    connection. A server may be stricter, and uWebSockets.js is laxer with heads: 8 to 12 s,
 *    always.
 * 3. `respond` after the caller has gone is ignored, and `aborted` has fired.
 * 4. A socket's messages are given in order, none before `upgrade`'s promise has accepted, one at a
 *    time unless the handler returns at once. Frames sent are in order, whole or not at all.
 * 5. A socket whose unsent bytes pass `socketBufferBytesMax`, pongs included, is closed with 1013.
 *    A caller that pipelines requests or does not read its answers costs no memory either.
 * 6. A request that can be framed in two ways (RFC 9112, 6.3) is refused and its connection closed.
 * 7. What a handler throws, rejects with, or answers and can't be sent is reported to `onFailure`,
 *    and ends that request with 500 or that socket with 1011 (`GuardedHandlers`).
 * 8. `onUpgrade` gets whole handshakes only (`requestHead.handshake`). Another request for a
 *    WebSocket by GET is 400; any other offer of a protocol is ignored, and the request that
 *    reaches `onRequest` has no `upgrade` header.
 */
import type { Abort } from "../lazyFetch/AbortSource.ts";
import * as Context from "effect/Context";
import * as Data from "effect/Data";
import type * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";

export interface HttpRequest {
  readonly method: string;
  /** Path and query as sent, e.g. `/agents/x/a%20b?_pk=1`: ASCII, not decoded. Starts with `/`. */
  readonly target: string;
  /** Lower-case names, each with its values in order, one character a byte. No prototype. */
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
  readonly remoteAddress: string;
  /** Whether the caller's connection is TLS (at this server). */
  readonly secure: boolean;
}

export interface HttpResponse {
  readonly status: number;
  /**
   * Pairs, so that `set-cookie` can repeat. Framing and `date` are the adapter's and dropped here;
   * `connection: close` ends the connection after the answer.
   */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body: Uint8Array | string;
}

/** Reads on where a response's body is still being made; each read returns a piece, or the end. */
export type BodyReader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

/** Tells the maker of a body that no more is wanted. What it throws then concerns nobody. */
export const cancelBody = async (rest: BodyReader): Promise<void> => {
  try {
    await rest.cancel();
  } catch {
    // It was to end, and has ended.
  }
};

export interface Exchange {
  readonly request: HttpRequest;
  readonly body: Uint8Array;
  /** Whether `respond` or `stream` was called. */
  readonly answered: boolean;
  /**
   * Answers once. Never throws: a second answer, a status outside 200 to 999 and a header that may
   * not be sent are reported (rule 7), and the caller gets 500 in place of the latter two.
   */
  respond(response: HttpResponse): void;
  /**
   * As `respond`, with a body that goes on: `body`, then what `rest` returns, read as fast as the
   * caller takes it. The head goes out at once (uWebSockets.js: with the first piece). Cancelled
   * when the caller goes; when it rejects the connection is cut, for a body that just ended would
   * look whole.
   */
  stream(response: HttpResponse, rest: BodyReader): void;
  /** Fires when the caller has gone before the whole answer was handed over. */
  readonly aborted: Abort;
}

export interface ServerSocket {
  /**
   * A string goes as a text frame, bytes as a binary one; nothing happens once the socket is
   * closed.
   */
  send(data: string | Uint8Array): void;
  /**
   * `utf8` goes as a text frame: what is text and bytes already needs no string. Not to be changed
   * any more.
   */
  sendText(utf8: Uint8Array): void;
  /** A code that may not be sent goes as no code (1005); a reason is cut to 123 bytes. */
  close(code: number, reason: string): void;
}

export interface SocketHandlers {
  readonly onMessage: (data: string | Uint8Array) => void;
  /** The peer sent a ping of so many bytes; the server answers it. */
  readonly onPing?: (bytes: number) => void;
  /**
   * Called once, never inside `send` or `close`. `wasClean`: the peer sent a close frame, `code`
   * 1006 when it did not, 1005 when it had no code. (uWebSockets.js takes a close with a code of
   * 1012 to 1014 or 3000 to 3999 for a broken one: 1006.) When this side closes, it follows at once
   * with the code and reason of that side, clean; with 1009 and 1013, which the server chose by
   * itself, not clean.
   */
  readonly onClose: (code: number, reason: string, wasClean: boolean) => void;
}

export type UpgradeDecision =
  /** The 101 is sent, then `open` is called with the socket; messages flow after it returns. */
  | {
      readonly _tag: "Accept";
      readonly open: (socket: ServerSocket) => SocketHandlers;
      /** Called in place of `open` when the caller has gone by then, or the server stops. */
      readonly missed?: () => void;
      /**
       * The subprotocol to answer with; left out of the answer when the caller did not offer it.
       */
      readonly protocol?: string;
    }
  | { readonly _tag: "Refuse"; readonly response: HttpResponse };

/** For the log: without the query and the headers, which may hold secrets. */
export interface HandlerFailure {
  readonly during:
    | "limitBody"
    | "onBodyTooLarge"
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
  /** Called when the head of a request is in; the largest body to accept for it, bytes. */
  readonly limitBody: (request: HttpRequest) => number;
  /** The caller was answered 413 by rule 1. Default: nothing is done. */
  readonly onBodyTooLarge?: (request: HttpRequest) => void;
  /**
   * May answer later. A promise that it returns is watched (rule 7); work that it begins beside
   * that is its own.
   */
  readonly onRequest: (exchange: Exchange) => void | Promise<void>;
  readonly onUpgrade: (request: HttpRequest, aborted: AbortSignal) => Promise<UpgradeDecision>;
  /** Rule 7. */
  readonly onFailure: (failure: HandlerFailure) => void;
}

export interface HttpServerOptions {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  /**
   * True: other processes that say the same may listen on the port too. The system divides the
   * connections among them. Whoever assigns the port makes sure that they are ours
   * (`services/workers/reservePort`). Linux; node:http from Node 22.12 on. Default: false.
   */
  readonly portShared?: boolean;
  readonly headerTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly headerBytesMax: number;
  /** Connections past this are closed as they come. Open sockets count. */
  readonly connectionsMax: number;
  readonly socketBufferBytesMax: number;
  /**
   * Bytes of the largest WebSocket message a peer may send; over it the socket is closed with 1009
   * (uWebSockets.js: over twice as much it is cut off).
   */
  readonly messageBytesMax: number;
  /**
   * A peer from which nothing comes for this long, not even the answer to a ping, is cut off.
   * Default 32 s: below the 60 s after which proxies drop quiet connections. uWebSockets.js: at
   * least 12 s.
   */
  readonly socketIdleMs?: number;
  /**
   * Once it stops, it goes on answering on connections that are open until nothing has come for
   * this long (5 s at the latest), each answer its connection's last. Default 500 ms.
   */
  readonly drainWindowMs?: number;
}

/** Two pings unanswered, and below the 60 s after which proxies drop quiet connections. */
export const SOCKET_IDLE_MS = 32_000;

/** The address is taken or not allowed; `message` says which and what to do. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{
  readonly port: number;
  readonly message: string;
}> {}

export interface HttpServerShape {
  /** Name of the implementation, for the log. */
  readonly name: string;
  /**
   * Listens until the scope closes: then no new connections, sockets closed with 1001, requests in
   * flight answered (10 s at most), and every connection closed.
   */
  readonly listen: (
    options: HttpServerOptions,
    handlers: HttpHandlers,
  ) => Effect.Effect<{ readonly port: number }, ListenFailed, Scope.Scope>;
}

export class HttpServer extends Context.Service<HttpServer, HttpServerShape>()(
  "agents/core/http/HttpServer",
) {}
