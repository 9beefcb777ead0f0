/**
 * An HTTP server without sockets: requests and connections are given to it by function call, and go
 * through the handlers as a real server's would. For tests of agents; what is about bytes on a wire
 * (framing, timeouts, backpressure) does not happen here.
 */
import * as Effect from "effect/Effect";
import { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import {
  cancelBody,
  ListenFailed,
  type BodyReader,
  type HttpRequest,
  type HttpResponse,
  type HttpServerShape,
} from "../../core/http/HttpServer.ts";
import { FAILED } from "../../core/http/responseHead.ts";
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
  private guard: GuardedHandlers | undefined;
  private readonly sockets = new Set<MemorySocket>();

  readonly listen: HttpServerShape["listen"] = ({ port }, handlers) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        if (this.guard !== undefined)
          return Effect.fail(new ListenFailed({ port, message: "somebody listens already" }));
        this.guard = new GuardedHandlers(handlers);
        return Effect.succeed({ port: PORT });
      }),
      () =>
        Effect.sync(() => {
          this.guard = undefined;
          for (const socket of this.sockets) socket.close(1001, "");
        }),
    );

  request(request: HttpRequest, body: Uint8Array): Promise<MemoryAnswer> {
    const { guard } = this;
    if (guard === undefined) return Promise.resolve(NOBODY);
    const limit = guard.limitBody(request);
    if (limit === undefined) return Promise.resolve(FAILED);
    if (body.length > limit)
      return Promise.resolve({ status: 413, headers: [], body: "Payload Too Large" });
    return new Promise((resolve) => {
      let answered = false;
      const answer = (given: HttpResponse, rest?: BodyReader): void => {
        const response = guard.answer(request, given, answered);
        answered = true;
        if (response !== given && rest !== undefined) void cancelBody(rest);
        if (response === undefined) return;
        resolve(response === given && rest !== undefined ? { ...response, rest } : response);
      };
      guard.onRequest({
        request,
        body,
        // Nobody hangs up on a function call.
        aborted: new AbortController().signal,
        get answered() {
          return answered;
        },
        respond: (response) => answer(response),
        stream: answer,
      });
    });
  }

  /** A connection, once it is upgraded; or the answer that refuses it. */
  async connect(request: HttpRequest, peer: MemoryPeer): Promise<MemorySocket | HttpResponse> {
    if (this.guard === undefined) return NOBODY;
    const decision = await this.guard.onUpgrade(request, new AbortController().signal);
    if (decision._tag === "Refuse") return decision.response;
    const socket = new MemorySocket(peer, decision.open);
    this.sockets.add(socket);
    void socket.closed.then(() => this.sockets.delete(socket));
    return socket;
  }
}
