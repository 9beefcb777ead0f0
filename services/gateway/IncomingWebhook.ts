/**
 * One request to a webhook route, from its arrival to its answer: the route, the request as the
 * route's verifier reads it, and the function that answers it. `WebhookEndpoint` creates it and
 * passes it through all its steps; `PendingWebhook` handles the part after verification. The
 * metrics, the request line and the delivery's record are written when it is answered.
 */
import type { Exchange, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import type { Span, TracingShape } from "../../core/telemetry/Tracing.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import type {
  PlainAnswer,
  Verified,
  WebhookRequest,
  WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
import {
  deliveryRecord,
  reportDelivery,
  type DeliveredInput,
  type DeliveryEnd,
} from "./deliveryRecord.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { addressOf } from "../../core/http/clientAddress.ts";
import { headerRecord, urlOf } from "./requests.ts";

type Services = Pick<
  GatewayServices,
  "config" | "deliveries" | "metrics" | "module" | "requests" | "time" | "tracing"
>;

type IncomingExchange = Pick<Exchange, "request" | "body" | "respond">;

export class IncomingWebhook {
  readonly route: WebhookRoute;
  readonly request: WebhookRequest;
  /** The delivery's id (`deliveryIds`). */
  readonly id: string;
  /** Undefined if it is not traced. */
  readonly span: Span | undefined;
  /** Set once an agent is found. */
  input: DeliveredInput | undefined;
  private readonly startMs: number;

  constructor(
    private readonly services: Services,
    private readonly exchange: IncomingExchange,
    { route, params }: RouteMatch,
    newId: (timeMs: number) => string,
  ) {
    const { config, module, time } = services;
    const http = exchange.request;
    this.startMs = time.monotonicMs();
    this.route = route;
    this.request = {
      method: http.method,
      url: urlOf(http, config.publicUrl),
      params,
      headers: http.headers,
      body: exchange.body,
      nowMs: time.nowMs(),
      env: module().env,
    };
    this.id = newId(this.request.nowMs);
    this.span = services.tracing && this.begin(services.tracing, http);
  }

  /** The caller's address, as the outermost trusted proxy saw it. */
  private get address(): string {
    const { trustedProxies } = this.services.config;
    const { request } = this.exchange;
    return trustedProxies === 0 ? request.remoteAddress : addressOf(request, trustedProxies);
  }

  /**
   * The headers to store: without credentials and forged internal headers, and with the content
   * type that the body has.
   */
  headers({ contentType }: Pick<Verified, "contentType">): Record<string, string> {
    const headers = headerRecord(this.exchange.request, this.route.redaction);
    if (contentType !== undefined) headers["content-type"] = contentType;
    return headers;
  }

  /** Sends the answer and reports the delivery. Called once. */
  respond(response: HttpResponse, end: DeliveryEnd): void {
    const { metrics, time } = this.services;
    const ms = time.monotonicMs() - this.startMs;
    metrics.webhooks(this.route, response.status, ms / 1000);
    // Read before the answer is sent, after which it is unknown. Verified requests skip it, since
    // it costs a call into the server.
    const from = this.input === undefined ? this.address : undefined;
    this.exchange.respond(response);
    if (this.span !== undefined) this.end(this.span, response.status, end);
    const record = deliveryRecord(this, { http: response.status, ms, from, ...end });
    reportDelivery(this.services, record, end);
  }

  /** Continues the caller's trace, if it sends one. */
  private begin(tracing: TracingShape, { method, headers }: HttpRequest): Span {
    return tracing.start(`${method} ${this.route.path}`, {
      kind: "server",
      parent: headers["traceparent"]?.[0],
      attributes: {
        "http.request.method": method,
        "http.route": this.route.path,
        "agents.provider": this.route.verifier.provider,
        "agents.delivery": this.id,
      },
    });
  }

  private end(span: Span, http: number, { status, seq, why }: DeliveryEnd): void {
    span.set({
      "http.response.status_code": http,
      "agents.delivery.status": status,
      ...(this.input !== undefined && {
        "agents.class": this.input.id.class,
        "agents.name": this.input.id.name,
      }),
      ...(seq !== undefined && { "agents.seq": seq }),
      ...(why !== undefined && { "agents.delivery.why": why }),
    });
    span.end(http >= 500 ? `status ${http}` : undefined);
  }

  /** `respond` for the answers of `core/webhook/answers`. */
  answer(answer: PlainAnswer | undefined, end: DeliveryEnd): void {
    this.respond(toHttp(answer), end);
  }
}

/**
 * Throws for undefined, which a caller passes only by mistake: the answer of a verdict or entity
 * that has none.
 */
export function toHttp(answer: PlainAnswer | undefined): HttpResponse {
  if (answer === undefined) throw new Error("there is no answer yet");
  return { status: answer.status, headers: Object.entries(answer.headers), body: answer.body };
}
