/**
 * An HTTP server without sockets: requests and connections are given to it by function call, and go
 * through the handlers as a real server's would. For tests of agents; what is about bytes on a wire
 * (framing, timeouts, backpressure) does not happen here.
 */
import * as Effect from "effect/Effect";
import {
  ListenFailed,
  type BodyReader,
  type HttpHandlers,
  type HttpRequest,
  type HttpResponse,
  type HttpServerShape,
} from "../../core/http/HttpServer.ts";
import { MemorySocket, type MemoryPeer } from "./MemorySocket.ts";

/** What a caller of the server gets when nobody listens, as from a real one. */
const NOBODY: HttpResponse = { status: 503, headers: [], body: "Service Unavailable" };
/** A port that no socket has. */
const PORT = 0;

export type MemoryAnswer = HttpResponse & {
  /** Where the body goes on. */
  readonly rest?: BodyReader;
};

export class MemoryHttpServer implements HttpServerShape {
  readonly name = "memory";
  private handlers: HttpHandlers | undefined;
  private readonly sockets = new Set<MemorySocket>();

  readonly listen: HttpServerShape["listen"] = ({ port }, handlers) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        if (this.handlers !== undefined)
          return Effect.fail(new ListenFailed({ port, message: "somebody listens already" }));
        this.handlers = handlers;
        return Effect.succeed({ port: PORT });
      }),
      () =>
        Effect.sync(() => {
          this.handlers = undefined;
          for (const socket of this.sockets) socket.close(1001, "");
        }),
    );

  request(request: HttpRequest, body: Uint8Array): Promise<MemoryAnswer> {
    const { handlers } = this;
    if (handlers === undefined) return Promise.resolve(NOBODY);
    if (body.length > handlers.limitBody(request))
      return Promise.resolve({ status: 413, headers: [], body: "Payload Too Large" });
    return new Promise((resolve, reject) => {
      let answered = false;
      const answer = (response: MemoryAnswer): void => {
        if (answered) throw new Error("a request was answered twice");
        answered = true;
        // `Response` refuses what no server may send: told to whoever sent the request.
        if (response.status < 200 || response.status > 599)
          reject(new RangeError(`the answer's status is ${response.status}`));
        else resolve(response);
      };
      handlers.onRequest({
        request,
        body,
        // Nobody hangs up on a function call.
        aborted: new AbortController().signal,
        respond: answer,
        stream: (response, rest) => answer({ ...response, rest }),
      });
    });
  }

  /** A connection, once it is upgraded; or the answer that refuses it. */
  async connect(request: HttpRequest, peer: MemoryPeer): Promise<MemorySocket | HttpResponse> {
    if (this.handlers === undefined) return NOBODY;
    const decision = await this.handlers.onUpgrade(request, new AbortController().signal);
    if (decision._tag === "Refuse") return decision.response;
    const socket = new MemorySocket(peer, decision.open);
    this.sockets.add(socket);
    void socket.closed.then(() => this.sockets.delete(socket));
    return socket;
  }
}
