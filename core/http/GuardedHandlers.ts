/**
 * Wraps a server's handlers for its adapter, so that none throws or rejects. A failure is reported
 * once to `onFailure` and answered: a request with 500, a socket with 1011. Every adapter of
 * `HttpServer` calls its handlers through it and has it check the answers, so that no request can
 * end the process (rule 7 of HttpServer.ts).
 */
import { CLOSE_FAILED } from "./closeFrame.ts";
import {
  ANSWER_STALL_MS,
  type Exchange,
  type HandlerFailure,
  type HttpHandlers,
  type HttpRequest,
  type HttpResponse,
  type HttpServerOptions,
  type ServerSocket,
  type SocketHandlers,
  type UpgradeDecision,
} from "./HttpServer.ts";
import { pathOf } from "./requestHead.ts";
import { assertSendable, FAILED, NO_ROOM } from "./responseHead.ts";
import { COUNTED_BYTES_MIN, PeerBytes } from "./PeerBytes.ts";

const REASON = "Internal error";
const REFUSED: UpgradeDecision = { _tag: "Refuse", response: FAILED };
const IGNORING: SocketHandlers = { onMessage: () => undefined, onClose: () => undefined };

type Where = Pick<HttpRequest, "method" | "target">;
type Accept = Extract<UpgradeDecision, { readonly _tag: "Accept" }>;

export class GuardedHandlers {
  /** What callers have not read of the server's answers. */
  readonly unsent: PeerBytes;
  /** Bodies that arrive, and those of requests that are not answered yet. */
  readonly bodies: PeerBytes;

  /** `nowMs`: a clock that never goes back. */
  constructor(
    private readonly handlers: HttpHandlers,
    {
      unsentBytesMax,
      bodiesBytesMax,
      answerStallMs: graceMs = ANSWER_STALL_MS,
    }: Pick<HttpServerOptions, "unsentBytesMax" | "bodiesBytesMax" | "answerStallMs">,
    nowMs: () => number,
  ) {
    this.unsent = new PeerBytes(unsentBytesMax, { graceMs, nowMs });
    this.bodies = new PeerBytes(bodiesBytesMax);
  }

  /** Returns undefined if the handler failed; the caller then gets 500. */
  limitBody(request: HttpRequest): number | undefined {
    try {
      const limit = this.handlers.limitBody(request);
      if (limit >= 0) return limit;
      throw new TypeError(`limitBody returned ${limit}`);
    } catch (error) {
      this.report("limitBody", request, error);
      return undefined;
    }
  }

  onBodyRefused(request: HttpRequest, status: 413 | 503): void {
    this.run("onBodyRefused", request, () => this.handlers.onBodyRefused?.(request, status));
  }

  onRequest(exchange: Exchange): void {
    try {
      // Most handlers return nothing, and answer later without a promise.
      this.handlers.onRequest(exchange)?.then(undefined, (error) => this.fail(exchange, error));
    } catch (error) {
      this.fail(exchange, error);
    }
  }

  async onUpgrade(request: HttpRequest, aborted: AbortSignal): Promise<UpgradeDecision> {
    try {
      const decision = await this.handlers.onUpgrade(request, aborted);
      return decision._tag === "Accept" ? this.guarded(decision, request) : decision;
    } catch (error) {
      this.report("onUpgrade", request, error);
      return REFUSED;
    }
  }

  /** The caller disconnected, or the server stopped, before the socket was opened. */
  missed(decision: UpgradeDecision, request: Where): void {
    if (decision._tag === "Accept") this.run("open", request, () => decision.missed?.());
  }

  /**
   * Returns what to send for `response`: itself, a 500 if it can't be sent, or a 503 if unread
   * answers leave no room for it. Returns undefined if the request was already answered.
   */
  answer(
    request: HttpRequest,
    response: HttpResponse,
    answered: boolean,
  ): HttpResponse | undefined {
    try {
      if (answered) throw new Error("a request was answered twice");
      assertSendable(response);
      const { length } = response.body;
      return length <= COUNTED_BYTES_MIN || this.unsent.makeRoom(length)
        ? response
        : this.refusal(request, NO_ROOM);
    } catch (error) {
      this.report("respond", request, error);
      return answered ? undefined : this.refusal(request, FAILED);
    }
  }

  /** An answer of the server itself, as `request` is sent it. */
  refusal(request: HttpRequest, response: HttpResponse): HttpResponse {
    const read = () => this.handlers.refusalHeaders?.(request);
    const headers = this.run("refusalHeaders", request, read) ?? [];
    if (headers.length === 0) return response;
    return { ...response, headers: [...response.headers, ...headers] };
  }

  report(during: HandlerFailure["during"], { method, target }: Where, error: unknown): void {
    try {
      this.handlers.onFailure({ during, method, path: pathOf(target), error });
    } catch {
      // There is no other place to report it.
    }
  }

  private fail(exchange: Exchange, error: unknown): void {
    this.report("onRequest", exchange.request, error);
    if (!exchange.answered) exchange.respond(this.refusal(exchange.request, FAILED));
  }

  private guarded(decision: Accept, { method, target }: Where): Accept {
    // Copied, since a socket would keep the whole request's headers in memory while it is open.
    const where = { method, target };
    const open = (socket: ServerSocket): SocketHandlers => {
      const failed = (): void => socket.close(CLOSE_FAILED, REASON);
      const handlers = this.run("open", where, () => decision.open(socket), failed) ?? IGNORING;
      return new GuardedSocket(this, where, socket, handlers);
    };
    return { ...decision, open };
  }

  private run<A>(
    during: HandlerFailure["during"],
    where: Where,
    f: () => A,
    failed?: () => void,
  ): A | undefined {
    try {
      return f();
    } catch (error) {
      this.report(during, where, error);
      failed?.();
      return undefined;
    }
  }
}

/** A class, since an open socket's closures would keep the decision about its upgrade in memory. */
class GuardedSocket implements SocketHandlers {
  constructor(
    private readonly guard: GuardedHandlers,
    private readonly where: Where,
    private readonly socket: ServerSocket,
    private readonly handlers: SocketHandlers,
  ) {}

  onMessage(data: string | Uint8Array): void {
    try {
      this.handlers.onMessage(data);
    } catch (error) {
      this.failed(error);
    }
  }

  onPing(bytes: number): void {
    try {
      this.handlers.onPing?.(bytes);
    } catch (error) {
      this.failed(error);
    }
  }

  onClose(code: number, reason: string, wasClean: boolean): void {
    try {
      this.handlers.onClose(code, reason, wasClean);
    } catch (error) {
      this.guard.report("onClose", this.where, error);
    }
  }

  private failed(error: unknown): void {
    this.guard.report("onMessage", this.where, error);
    this.socket.close(CLOSE_FAILED, REASON);
  }
}
