/**
 * The core of the gateway process. It receives requests and sockets, passes verified inputs and
 * calls to hosts and the inbox, and sends the answers. It runs the module's routing code, never an
 * agent's, and does not use the journal.
 *
 * 1. When a shard changes owner, the calls that wait for its old owner end.
 */
import { isCostlyJson, TOO_MANY_OPENINGS } from "../../core/http/openingsIn.ts";
import { textResponse } from "../../core/http/responseHead.ts";
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type {
  Exchange,
  HttpHandlers,
  HttpRequest,
  HttpResponse,
} from "../../core/http/HttpServer.ts";
import { pathOf } from "../../core/http/requestHead.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import type { Span, TracingShape } from "../../core/telemetry/Tracing.ts";
import { shardOfKey } from "../../core/lease/leaseKeys.ts";
import { LeaseView } from "../../core/lease/LeaseView.ts";
import type { LeaseFailure } from "../../core/lease/OwnLease.ts";
import { UnownedShards } from "../../core/lease/UnownedShards.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import { answerApproval, APPROVAL_BODY_BYTES_MAX, isApprovalLink } from "./ApprovalEndpoint.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { addressOf } from "../../core/http/clientAddress.ts";
import { RateLimit, tooMany } from "./RateLimit.ts";
import { toRequest, urlOf } from "./requests.ts";
import { RequestLines } from "./RequestLines.ts";
import { answerRequest } from "./routeRequest.ts";
import type { SocketTable } from "./SocketTable.ts";
import { decideUpgrade } from "./upgrade.ts";
import { WebhookEndpoint } from "./WebhookEndpoint.ts";
import { stackOf } from "../../core/errors/thrown.ts";

/** Begins the span of a plain request. Continues the caller's trace, if it sends one. */
const beginSpan = (tracing: TracingShape, { method, target, headers }: HttpRequest): Span =>
  tracing.start(method, {
    kind: "server",
    parent: headers["traceparent"]?.[0],
    attributes: { "http.request.method": method, "url.path": pathOf(target) },
  });

const OVER_RATE = "its address exceeds its rate";
const OTHER_HOST = "it is for another host";
const JSON_TOO_LARGE = textResponse(413, `Content too large: ${TOO_MANY_OPENINGS}`);

export class Gateway {
  private readonly webhooks: WebhookEndpoint;
  private readonly lines: RequestLines;
  private readonly watching = new AbortController();
  /** Written only by the watch. */
  private readonly view = new LeaseView();
  private readonly unowned: UnownedShards;
  /** Shards that have had an owner since this gateway started. */
  private readonly everOwned = new Set<string>();
  private readonly addressLimit: RateLimit | undefined;
  private lastRouted: HttpRequest | undefined;
  private lastMatch: RouteMatch | undefined;

  private constructor(private readonly services: GatewayServices) {
    this.webhooks = new WebhookEndpoint(services);
    this.lines = new RequestLines(services.requests, services.time);
    const { config, time } = services;
    this.unowned = new UnownedShards(config.shards, time.monotonicMs());
    const { addressRate } = config;
    this.addressLimit = addressRate === undefined ? undefined : new RateLimit(addressRate, time);
  }

  /** Runs until the scope closes. Pass `handlers` to an `HttpServer`. */
  static make(services: GatewayServices): Effect.Effect<Gateway, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.promise(async (signal) => {
        const gateway = new Gateway(services);
        signal.addEventListener("abort", () => void gateway.stop());
        await gateway.start();
        return gateway;
      }),
      (gateway) => Effect.promise(() => gateway.stop()),
      // A broker that answers nothing is waited for.
      { interruptible: true },
    );
  }

  get sockets(): SocketTable {
    return this.services.sockets.table;
  }

  /** Undefined while the broker stores this gateway's lease. */
  get leaseFailure(): LeaseFailure | undefined {
    return this.services.sockets.leaseFailure;
  }

  /** Number of shards that have no owner now. */
  get shardsUnowned(): number {
    return this.unowned.count;
  }

  /** Number of shards that have had no owner for longer than a takeover lasts. */
  get shardsOverdue(): number {
    const { time, leases } = this.services;
    return this.unowned.overdue(time.monotonicMs(), leases.ttlMs);
  }

  /** Number of shards that have had an owner since this gateway started. */
  get shardsEverOwned(): number {
    return this.everOwned.size;
  }

  readonly handlers: HttpHandlers = {
    limitBody: (request) =>
      isApprovalLink(request)
        ? APPROVAL_BODY_BYTES_MAX
        : (this.routeOf(request)?.route.bodyBytesMax ?? this.services.config.bodyBytesMax),
    onBodyRefused: (request, status) => {
      const match = this.routeOf(request);
      if (match !== undefined) return this.webhooks.onBodyRefused(request, match, status);
      const why = status === 413 ? "its body is too large" : "there is no room for its body";
      this.lines.onAnswer(request, status, why);
    },
    onRequest: (exchange) => {
      const wait = this.secondsToWait(exchange.request);
      if (wait > 0) return this.refuse(exchange, tooMany(wait), OVER_RATE);
      const match = this.routeOf(exchange.request);
      // Skipped for signed webhooks: a signature proves more than a host name, and a tunnel may
      // deliver them under its own name.
      if (match === undefined || match.route.verifier.unsigned === true) {
        const refusal = this.services.access.refuseHost(exchange.request);
        if (refusal !== undefined) return this.refuse(exchange, refusal, OTHER_HOST);
      }
      if (match !== undefined) return this.webhooks.handle(exchange, match);
      if (isCostlyJson(exchange.body))
        return this.refuse(exchange, JSON_TOO_LARGE, TOO_MANY_OPENINGS);
      return this.answer(exchange);
    },
    onUpgrade: async (request, aborted) => {
      const wait = this.secondsToWait(request);
      if (wait > 0) return { _tag: "Refuse", response: tooMany(wait) };
      const refusal = this.services.access.refuseHost(request);
      if (refusal !== undefined) return { _tag: "Refuse", response: refusal };
      const decision = await decideUpgrade(this.services, request, aborted);
      return this.lines.onUpgrade(request, decision, aborted);
    },
    refusalHeaders: (request) => this.refusalHeaders(request),
    onFailure: ({ error, ...where }) =>
      this.services.log.error("a request could not be handled", {
        ...where,
        error: stackOf(error),
      }),
  };

  /**
   * The webhook route of a request, or undefined. The last result is kept: `onRequest` follows
   * `limitBody`, and only a body of several packets lets another request come between.
   */
  private routeOf(request: HttpRequest): RouteMatch | undefined {
    if (this.lastRouted !== request) {
      this.lastMatch = this.services.module().routes.match(pathOf(request.target));
      this.lastRouted = request;
    }
    return this.lastMatch;
  }

  /** Seconds that the caller's address has to wait, or 0. Checked before any other work is done. */
  private secondsToWait(request: HttpRequest): number {
    const { trustedProxies } = this.services.config;
    return this.addressLimit?.take(addressOf(request, trustedProxies)) ?? 0;
  }

  private refusalHeaders({ headers }: HttpRequest): HttpResponse["headers"] {
    return this.services.access.refusalHeaders(headers["origin"]?.[0], headers["host"]?.[0]);
  }

  private refuse(exchange: Exchange, response: HttpResponse, why: string): void {
    const headers = [...response.headers, ...this.refusalHeaders(exchange.request)];
    exchange.respond({ ...response, headers });
    this.lines.onAnswer(exchange.request, response.status, why);
  }

  private async answer(exchange: Exchange): Promise<void> {
    const { config } = this.services;
    const answered = this.lines.begin(exchange.request);
    if (isApprovalLink(exchange.request)) {
      const response = await answerApproval(this.services, exchange);
      const isHead = exchange.request.method === "HEAD";
      answered(response.status, exchange.aborted);
      return exchange.respond(isHead ? { ...response, body: "" } : response);
    }
    const span = this.services.tracing && beginSpan(this.services.tracing, exchange.request);
    let request: Request;
    try {
      request = toRequest(
        exchange.request,
        urlOf(exchange.request, config.publicUrl),
        exchange.body,
        exchange.aborted,
      );
    } catch {
      return this.refuse(
        exchange,
        textResponse(400, "Invalid request"),
        "it is not a valid request",
      );
    }
    // For the agent that the module passes the request to.
    if (span !== undefined) request.headers.set("traceparent", span.traceparent);
    const response = await answerRequest(this.services, request);
    const { aborted } = exchange;
    if (!aborted.fired) span?.set({ "http.response.status_code": response.status });
    span?.end(response.status >= 500 && !aborted.fired ? `status ${response.status}` : undefined);
    answered(response.status, aborted);
    if (response.rest === undefined) exchange.respond(response);
    else exchange.stream(response, response.rest);
  }

  private async start(): Promise<void> {
    const { leases, sockets } = this.services;
    await leases.watch((change) => this.changed(change), this.watching.signal);
    if (!this.watching.signal.aborted) await sockets.start();
  }

  private changed(change: LeaseChange): void {
    const { key, value } = change;
    const { calls, time } = this.services;
    const before = this.view.heard(change);
    // Rule 1.
    calls.leaseChanged(change, before);
    this.services.sockets.leaseChanged(change);
    const shard = shardOfKey(key);
    if (shard === undefined) return;
    this.unowned.note(shard, value !== undefined, time.monotonicMs());
    if (value !== undefined) this.everOwned.add(key);
  }

  private async stop(): Promise<void> {
    // Before the rest, since it may call agents.
    await this.services.unfinished.settle();
    this.watching.abort();
    this.webhooks.close();
    await this.services.sockets.stop();
  }
}
