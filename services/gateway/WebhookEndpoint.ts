/**
 * A declared webhook, from raw bytes to answer (`interface.md` §4.1, §7): method, signature over the
 * raw body, entity, durable first, then the agent's own answer or 202 at the deadline.
 *
 * 1. Nothing is parsed before its signature is verified; a bad one never reaches an agent (I10).
 * 2. Nothing but a refusal is answered before the input is stored; what can't be stored is 503.
 * 3. While the broker elects or a shard moves, the request is held and tried again within its deadline.
 */
import type { Exchange, HttpResponse } from "../../core/http/HttpServer.ts";
import {
  ACCEPTED,
  answerOfEntity,
  answerOfVerdict,
  METHOD_NOT_ALLOWED,
} from "../../core/webhook/answers.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import {
  allowsMethod,
  type PlainAnswer,
  type Verdict,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
import { agentId, InvalidAddress, type AgentId } from "../../schemas/Address.ts";
import { decodeMessage, type InputAnswer } from "../../schemas/Call.ts";
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import { Deadlines } from "./Deadlines.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { headerRecord, messageHeaders, plain, urlOf } from "./requests.ts";

export class WebhookEndpoint {
  private readonly services: GatewayServices;
  private readonly deadlines: Deadlines;
  private readonly replySubject: string;
  /** Webhooks whose answer is awaited, by reply id. */
  private readonly waiting = new Map<string, (response: HttpResponse) => void>();
  private readonly unsubscribe: () => void;
  private nextReply = 0;

  constructor(services: GatewayServices) {
    this.services = services;
    this.deadlines = new Deadlines(services.time);
    const { subjects, gatewayId } = services.config;
    this.replySubject = subjects.gateway(gatewayId, "reply");
    this.unsubscribe = services.bus.subscribe(this.replySubject, ({ data }) => this.answered(data));
  }

  close(): void {
    this.unsubscribe();
  }

  handle(exchange: Exchange, match: RouteMatch): void {
    const { time, metrics, log } = this.services;
    const startMs = time.monotonicMs();
    const respond = (response: HttpResponse): void => {
      metrics.webhooks(
        match.route.verifier.provider,
        response.status,
        (time.monotonicMs() - startMs) / 1000,
      );
      exchange.respond(response);
    };
    try {
      this.receive(exchange, match, respond);
    } catch (error) {
      log.error("a webhook could not be handled", {
        route: match.route.path,
        error: error instanceof Error ? error.stack : String(error),
      });
      respond(plain(500, "Internal Server Error"));
    }
  }

  private receive(
    exchange: Exchange,
    { route, params }: RouteMatch,
    respond: (response: HttpResponse) => void,
  ): void {
    const { config, module, time } = this.services;
    const { request: http, body } = exchange;
    if (!allowsMethod(route, http.method)) return respond(toHttp(METHOD_NOT_ALLOWED));
    const request: WebhookRequest = {
      method: http.method,
      url: urlOf(http, config.publicUrl),
      params,
      headers: http.headers,
      body,
      nowMs: time.nowMs(),
      env: module().env,
    };
    const verdict = route.verifier.verify(request);
    if (verdict._tag !== "Verified") {
      this.logRefusal(route, http.remoteAddress, verdict);
      return respond(toHttp(answerOfVerdict(verdict)));
    }
    if (http.method !== "POST") return respond(toHttp(METHOD_NOT_ALLOWED));
    const entity = route.entity.resolve(request);
    if (entity._tag !== "Entity") return respond(toHttp(answerOfEntity(entity)));
    let id: AgentId;
    try {
      id = agentId(route.agent, entity.name);
    } catch (error) {
      if (error instanceof InvalidAddress) return respond(plain(400, error.message));
      throw error;
    }
    if (this.waiting.size >= config.webhooksWaitingMax)
      return respond(plain(429, "Too many requests", [["retry-after", "1"]]));
    this.store(id, route, request, verdict, headerRecord(http), respond);
  }

  /** Rule 2. The answer may come before the ack of the store does: it is awaited from the start. */
  private store(
    id: AgentId,
    route: WebhookRoute,
    request: WebhookRequest,
    verdict: Verdict & { _tag: "Verified" },
    headers: Record<string, string>,
    respond: (response: HttpResponse) => void,
  ): void {
    const { inbox, time, log } = this.services;
    const { provider } = route.verifier;
    const waits = route.answer === "agent";
    const replyId = (++this.nextReply).toString(36);
    const head: InboxHead = {
      key: verdict.dedupId === undefined ? `gen:${time.id()}` : `${provider}:${verdict.dedupId}`,
      kind: "webhook",
      time: request.nowMs,
      provider,
      method: request.method,
      url: request.url,
      headers,
      ...(verdict.replayId === undefined
        ? {}
        : { alsoKeys: [`${provider}:replay:${verdict.replayId}`] }),
      ...(verdict.eventType === undefined ? {} : { type: verdict.eventType }),
      ...(waits ? { reply: { subject: this.replySubject, id: replyId } } : {}),
    };
    let stored = false;
    let answered = false;
    const finish = (response: HttpResponse): void => {
      if (answered) return;
      answered = true;
      this.waiting.delete(replyId);
      respond(response);
    };
    this.waiting.set(replyId, finish);
    const deadline = this.deadlines.in(route.deadlineMs);
    deadline.onPassed(() =>
      finish(stored ? toHttp(ACCEPTED) : plain(503, "Service Unavailable", [["retry-after", "1"]])),
    );
    inbox.publish(id, encodeEnvelope(head, request.body), { signal: deadline.signal }).then(
      (result) => {
        if (result._tag === "Stored") {
          stored = true;
          if (!waits) finish(toHttp(ACCEPTED));
        } else {
          log.error("a webhook could not be stored", { ...id, why: result.message });
          finish(NOT_STORED);
        }
      },
      (error: unknown) => {
        log.error("a webhook could not be stored", { ...id, error: String(error) });
        finish(NOT_STORED);
      },
    );
  }

  private logRefusal(route: WebhookRoute, from: string, verdict: Verdict): void {
    const { log } = this.services;
    if (verdict._tag === "Misconfigured")
      log.error("a webhook route is misconfigured", { route: route.path, why: verdict.message });
    else if (verdict._tag === "Rejected")
      log.warn("a webhook's signature was rejected", {
        route: route.path,
        from,
        why: verdict.reason,
      });
  }

  private answered(data: Uint8Array): void {
    const { head, body } = decodeMessage<InputAnswer>(data);
    const finish = this.waiting.get(head.id);
    // Past its deadline: the caller had its 202.
    if (finish === undefined) return;
    if (head.duplicateOf !== undefined)
      this.services.log.info(`a webhook came again; first applied at seq ${head.duplicateOf}`, {
        status: head.status,
      });
    const headers = messageHeaders(head.headers);
    if (head.blob === undefined) return finish({ status: head.status, headers, body });
    const { blobs, log } = this.services;
    const name = head.blob;
    blobs.get(name).then(
      (whole) => {
        finish({ status: head.status, headers, body: whole ?? "" });
        // A blob that stays behind costs space, nothing else.
        void blobs.remove(name).catch(() => undefined);
      },
      (error: unknown) => log.warn("an answer's body could not be read", { error: String(error) }),
    );
  }
}

/** 503 where it is not known to be stored: the provider sends it again. */
const NOT_STORED = plain(503, "Service Unavailable", [["retry-after", "1"]]);

/** Undefined is an `Entity` or `Verified`, which the caller has told apart: a defect. */
function toHttp(answer: PlainAnswer | undefined): HttpResponse {
  if (answer === undefined) throw new Error("there is nothing to answer yet");
  return { status: answer.status, headers: Object.entries(answer.headers), body: answer.body };
}
