/**
 * Wraps a server's handlers for its adapter, so that none throws or rejects. A failure is reported
 * once to `onFailure` and answered: a request with 500, a socket with 1011. Every adapter of
 * `HttpServer` calls its handlers through this, and checks its answers here, so one request can
 * never end the process (rule 7 of HttpServer.ts).
 */
import { CLOSE_FAILED } from "./closeFrame.ts";
import type {
  Exchange,
  HandlerFailure,
  HttpHandlers,
  HttpRequest,
  HttpResponse,
  ServerSocket,
  SocketHandlers,
  UpgradeDecision,
} from "./HttpServer.ts";
import { pathOf } from "./requestHead.ts";
import { assertSendable, FAILED } from "./responseHead.ts";

const REASON = "Internal error";
const REFUSED: UpgradeDecision = { _tag: "Refuse", response: FAILED };
const DEAF: SocketHandlers = { onMessage: () => undefined, onClose: () => undefined };

type Where = Pick<HttpRequest, "method" | "target">;
type Accept = Extract<UpgradeDecision, { readonly _tag: "Accept" }>;

export class GuardedHandlers {
  private readonly handlers: HttpHandlers;

  constructor(handlers: HttpHandlers) {
    this.handlers = handlers;
  }

  /** Undefined: it failed, and the caller gets 500. */
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

  onBodyTooLarge(request: HttpRequest): void {
    this.run("onBodyTooLarge", request, () => this.handlers.onBodyTooLarge?.(request));
  }

  onRequest(exchange: Exchange): void {
    try {
      // Most return nothing: what they wait for is no promise of theirs.
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

  /** The caller has gone, or the server stops, before the socket was opened. */
  missed(decision: UpgradeDecision, request: Where): void {
    if (decision._tag === "Accept") this.run("open", request, () => decision.missed?.());
  }

  /**
   * What is sent for `response`: itself, or 500 where it can't be. Undefined: there was an answer
   * before.
   */
  answer(request: Where, response: HttpResponse, answered: boolean): HttpResponse | undefined {
    try {
      if (answered) throw new Error("a request was answered twice");
      assertSendable(response);
      return response;
    } catch (error) {
      this.report("respond", request, error);
      return answered ? undefined : FAILED;
    }
  }

  report(during: HandlerFailure["during"], { method, target }: Where, error: unknown): void {
    try {
      this.handlers.onFailure({ during, method, path: pathOf(target), error });
    } catch {
      // Nobody is left to be notified.
    }
  }

  private fail(exchange: Exchange, error: unknown): void {
    this.report("onRequest", exchange.request, error);
    if (!exchange.answered) exchange.respond(FAILED);
  }

  private guarded(decision: Accept, { method, target }: Where): Accept {
    // Not the whole request: a socket would keep its headers as long as it lives.
    const where = { method, target };
    const open = (socket: ServerSocket): SocketHandlers => {
      const closing = (): void => socket.close(CLOSE_FAILED, REASON);
      const handlers = this.run("open", where, () => decision.open(socket), closing) ?? DEAF;
      const { onPing } = handlers;
      return {
        onMessage: (data) => {
          try {
            handlers.onMessage(data);
          } catch (error) {
            this.report("onMessage", where, error);
            closing();
          }
        },
        ...(onPing && { onPing: (bytes: number) => this.run("onMessage", where, () => onPing(bytes), closing) }),
        onClose: (...close) => this.run("onClose", where, () => handlers.onClose(...close)),
      }; // prettier-ignore
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
