/**
 * An HTTP server without sockets, for tests of agents. Requests and connections are made by
 * function call and pass through the same handlers as on a real server. Framing, timeouts and
 * backpressure are not simulated.
 */
import { AbortSource } from "../../core/lazyFetch/AbortSource.ts";
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

/** The response while no handlers are installed. */
const NOT_LISTENING: HttpResponse = { status: 503, headers: [], body: "Service Unavailable" };
/** The reported port; there is no socket. */
const PORT = 0;

type MemoryAnswer = HttpResponse & {
  /** The rest of a streamed body. */
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
          return Effect.fail(
            new ListenFailed({ port, message: "a listener is installed already" }),
          );
        this.guard = new GuardedHandlers(
          handlers,
          { unsentBytesMax: Infinity, bodiesBytesMax: Infinity },
          () => 0,
        );
        return Effect.succeed({ port: PORT });
      }),
      () =>
        Effect.sync(() => {
          this.guard = undefined;
          for (const socket of this.sockets) socket.close(1001, "");
        }),
    );

  /** Never rejects; 503 while nothing listens. `rest` is set for a streamed body. */
  request(request: HttpRequest, body: Uint8Array): Promise<MemoryAnswer> {
    const { guard } = this;
    if (guard === undefined) return Promise.resolve(NOT_LISTENING);
    const limit = guard.limitBody(request);
    if (limit === undefined) return Promise.resolve(FAILED);
    if (body.length > limit) {
      guard.onBodyRefused(request, 413);
      return Promise.resolve({ status: 413, headers: [], body: "Payload Too Large" });
    }
    return new Promise((resolve) => {
      let answered = false;
      const answer = (produced: HttpResponse, rest?: BodyReader): void => {
        const response = guard.answer(request, produced, answered);
        answered = true;
        if (response !== produced && rest !== undefined) void cancelBody(rest);
        if (response === undefined) return;
        resolve(response === produced && rest !== undefined ? { ...response, rest } : response);
      };
      guard.onRequest({
        request,
        body,
        // A function call cannot be aborted by its peer.
        aborted: new AbortSource(),
        get answered() {
          return answered;
        },
        respond: (response) => answer(response),
        stream: answer,
      });
    });
  }

  /** Resolves with the open connection, or with the response that refuses the upgrade. */
  async connect(request: HttpRequest, peer: MemoryPeer): Promise<MemorySocket | HttpResponse> {
    if (this.guard === undefined) return NOT_LISTENING;
    const decision = await this.guard.onUpgrade(request, new AbortController().signal);
    if (decision._tag === "Refuse") return decision.response;
    const socket = new MemorySocket(peer, decision.open);
    this.sockets.add(socket);
    void socket.closed.then(() => this.sockets.delete(socket));
    return socket;
  }
}
