/**
 * One request to a webhook route, from its arrival to its answer: the route, the request as the
 * route's verifier reads it, and the way to answer. `WebhookEndpoint` creates it and passes it
 * through all its steps; `PendingWebhook` takes over the part after verification.
 */
import type { Exchange, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import type { PlainAnswer, WebhookRequest, WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { headerRecord, urlOf } from "./requests.ts";

type Services = Pick<GatewayServices, "config" | "metrics" | "module" | "time">;

export class IncomingWebhook {
  readonly route: WebhookRoute;
  readonly request: WebhookRequest;
  private readonly services: Services;
  private readonly exchange: Exchange;
  private readonly startMs: number;

  constructor(services: Services, exchange: Exchange, { route, params }: RouteMatch) {
    const { config, module, time } = services;
    const http = exchange.request;
    this.services = services;
    this.exchange = exchange;
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
  }

  get remoteAddress(): HttpRequest["remoteAddress"] {
    return this.exchange.request.remoteAddress;
  }

  /** The headers as they are stored: without credentials and forged internal headers. */
  headers(): Record<string, string> {
    return headerRecord(this.exchange.request, this.route.redaction);
  }

  /** Sends the answer and records it in the metrics. Called once. */
  respond(response: HttpResponse): void {
    const { metrics, time } = this.services;
    const seconds = (time.monotonicMs() - this.startMs) / 1000;
    metrics.webhooks(this.route.verifier.provider, response.status, seconds);
    this.exchange.respond(response);
  }

  /** `respond` for the answers of `core/webhook/answers`. */
  answer(answer: PlainAnswer | undefined): void {
    this.respond(toHttp(answer));
  }
}

/**
 * Throws for undefined: the answer of a verdict or an entity that is not an answer, which is a
 * defect of the caller.
 */
export function toHttp(answer: PlainAnswer | undefined): HttpResponse {
  if (answer === undefined) throw new Error("there is nothing to answer yet");
  return { status: answer.status, headers: Object.entries(answer.headers), body: answer.body };
}
