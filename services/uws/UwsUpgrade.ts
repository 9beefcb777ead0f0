/**
 * A WebSocket handshake on uWebSockets.js that waits for the handler's decision. It keeps what the
 * library needs to upgrade later, and answers 101 or a plain response unless the caller has gone.
 * UwsServer.ts creates it; after acceptance UwsSocket.ts takes over.
 *
 * `res` is never used after it was ended, upgraded or aborted: the library frees it.
 */
import type { HttpResponse as UwsResponse, us_socket_context_t } from "uWebSockets.js";
import { AbortSource } from "../../core/lazyFetch/AbortSource.ts";
import type { HttpRequest, HttpResponse, UpgradeDecision } from "../../core/http/HttpServer.ts";
import { subprotocol } from "../../core/http/requestHead.ts";
import { STOPPING } from "../http/OpenExchanges.ts";
import { UwsExchange, type ExchangeOwner } from "./UwsExchange.ts";
import { UwsSocket, type SocketData, type SocketLimits } from "./UwsSocket.ts";

export class UwsUpgrade {
  private readonly abort = new AbortSource();
  private res: UwsResponse | undefined;

  constructor(
    private readonly owner: ExchangeOwner,
    private readonly request: HttpRequest,
    res: UwsResponse,
    private readonly context: us_socket_context_t,
    private readonly limits: SocketLimits,
  ) {
    this.res = res;
    res.onAborted(() => {
      this.res = undefined;
      this.abort.fire();
      owner.exchanges.finished();
    });
  }

  /** Asks the handler and applies its decision. The guard's promise never rejects. */
  decide(): void {
    const { guard } = this.owner;
    void guard.onUpgrade(this.request, this.abort.signal).then((decision) => this.apply(decision));
  }

  private apply(decision: UpgradeDecision): void {
    const { guard, exchanges } = this.owner;
    if (this.abort.fired) guard.missed(decision, this.request);
    else if (decision._tag === "Refuse") this.refuse(decision.response);
    else if (exchanges.stopping) {
      guard.missed(decision, this.request);
      this.refuse(STOPPING);
    } else this.accept(decision);
  }

  private accept(decision: Extract<UpgradeDecision, { _tag: "Accept" }>): void {
    const res = this.res;
    if (res === undefined) return;
    this.res = undefined;
    const { headers } = this.request;
    const socket = new UwsSocket(this.limits, decision.open);
    const key = headers["sec-websocket-key"]?.[0] ?? "";
    const protocol = subprotocol(headers, decision.protocol) ?? "";
    const data: SocketData = { socket };
    const upgrade = (): void => res.upgrade(data, key, protocol, "", this.context);
    this.owner.uncorked(() => void res.cork(upgrade));
    this.owner.exchanges.finished();
  }

  /** UwsExchange knows how to write a response. It takes over `res` and the server's count. */
  private refuse(response: HttpResponse): void {
    const res = this.res;
    if (res === undefined) return;
    this.res = undefined;
    new UwsExchange(this.owner, this.request, res).respond(response);
  }
}
