/**
 * A declared webhook, from raw bytes to answer (`interface.md` §4.1, §7): method, signature over the
 * raw body, entity; then the agent's own answer, or 202 at the deadline (`PendingWebhook`).
 *
 * 1. Nothing is parsed before its signature is verified; a bad one never reaches an agent (I10).
 * 2. Nothing but a refusal is answered before the input is stored, in the inbox or by the event of the turn that it
 *    was for; what can't be stored is 503.
 * 3. A batch is answered when each of its events is stored (`storeBatch`), not by its agents.
 * 4. While the broker elects or a shard moves, the request is held and tried again within its deadline.
 */
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import type { Exchange, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import {
  answerOfVerdict,
  BODY_TOO_LARGE,
  methodNotAllowed,
  UNAVAILABLE,
} from "../../core/webhook/answers.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import {
  allowsMethod,
  type Verdict,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
import { addressKey } from "../../schemas/Address.ts";
import { decodeMessage, type InputAnswer } from "../../schemas/Call.ts";
import { Deadlines } from "./Deadlines.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { listen } from "./listen.ts";
import { tooMany } from "./RateLimit.ts";
import { headerRecord, plain, urlOf } from "./requests.ts";
import { BATCH_ITEMS_MAX, storeBatch } from "./storeBatch.ts";
import { agentOf, webhookHead, type FoundAgent } from "./webhookInput.ts";
import { toHttp, PendingWebhook } from "./PendingWebhook.ts";

type Respond = (response: HttpResponse) => void;

type Verified = Verdict & { readonly _tag: "Verified" };

export class WebhookEndpoint {
  private readonly services: GatewayServices;
  private readonly deadlines: Deadlines;
  private readonly replySubject: string;
  /** Webhooks whose answer is awaited, by what follows this endpoint's life in their reply id. */
  private readonly waiting = new NumberedTable<PendingWebhook>();
  private readonly unsubscribe: () => void;
  /** No other endpoint's, of this process or one before it: what an agent remembers by them is not another's. */
  private readonly life: string;
  /** Events of batches that are being stored. */
  private batchItems = 0;

  constructor(services: GatewayServices) {
    this.services = services;
    this.deadlines = new Deadlines(services.time);
    const { subjects, gatewayId } = services.config;
    this.life = `${services.time.id()}-`;
    this.replySubject = subjects.gateway(gatewayId, "reply");
    this.unsubscribe = listen(services, this.replySubject, ({ data }) => this.answered(data));
  }

  close(): void {
    this.unsubscribe();
    this.deadlines.close();
  }

  handle(exchange: Exchange, match: RouteMatch): void {
    const { time, metrics, log } = this.services;
    const startMs = time.monotonicMs();
    const respond: Respond = (response) => {
      metrics.webhooks(
        match.route.verifier.provider,
        response.status,
        (time.monotonicMs() - startMs) / 1000,
      );
      exchange.respond(response);
    };
    const guarded = (step: () => void): void => {
      try {
        step();
      } catch (error) {
        log.error("a webhook could not be handled", {
          route: match.route.path,
          error: error instanceof Error ? error.stack : String(error),
        });
        respond(plain(500, "Internal Server Error"));
      }
    };
    guarded(() => this.receive(exchange, match, respond, guarded));
  }

  private receive(
    exchange: Exchange,
    { route, params }: RouteMatch,
    respond: Respond,
    guarded: (step: () => void) => void,
  ): void {
    const { config, module, time } = this.services;
    const { request: http, body } = exchange;
    if (!allowsMethod(route, http.method)) return respond(toHttp(methodNotAllowed(route)));
    const request: WebhookRequest = {
      method: http.method,
      url: urlOf(http, config.publicUrl),
      params,
      headers: http.headers,
      body,
      nowMs: time.nowMs(),
      env: module().env,
    };
    const go = () => this.verify(http, route, request, respond);
    const ready = route.verifier.prepare?.(request);
    if (ready === undefined) return go();
    let waits = true;
    const once = () => {
      if (!waits) return;
      waits = false;
      inTime();
      guarded(go);
    };
    // What is not there by the deadline, `verify` misses and says so.
    const inTime = this.deadlines.in(route.deadlineMs).onPassed(once);
    void ready.then(once, once);
  }

  private verify(
    http: HttpRequest,
    route: WebhookRoute,
    request: WebhookRequest,
    respond: Respond,
  ): void {
    const verdict = route.verifier.verify(request);
    if (verdict._tag !== "Verified") {
      this.logRefusal(route, http.remoteAddress, verdict);
      return respond(toHttp(answerOfVerdict(verdict)));
    }
    if (http.method !== "POST") return respond(toHttp(methodNotAllowed(route)));
    const headers = headerRecord(http, route.redaction);
    if (verdict.items !== undefined)
      return void this.storeAll(route, request, verdict, verdict.items, headers, respond);
    const found = agentOf(route, request);
    if (found._tag === "Refused") return respond(toHttp(found.answer));
    const wait = this.services.entityLimit?.take(addressKey(found.id)) ?? 0;
    if (wait > 0) return respond(tooMany(wait));
    if (this.isBusy()) return respond(BUSY);
    this.store(found, route, request, verdict, headers, respond);
  }

  private isBusy(): boolean {
    return this.waiting.size + this.batchItems >= this.services.config.webhooksWaitingMax;
  }

  /** Rule 3. */
  private async storeAll(
    route: WebhookRoute,
    request: WebhookRequest,
    { replayId }: Verified,
    items: NonNullable<Verified["items"]>,
    headers: Record<string, string>,
    respond: Respond,
  ): Promise<void> {
    if (items.length > BATCH_ITEMS_MAX) return respond(toHttp(BODY_TOO_LARGE));
    if (this.isBusy()) return respond(BUSY);
    const { inbox, log, time } = this.services;
    const { signal } = this.deadlines.in(route.deadlineMs);
    const ports = { inbox, log, signal, id: () => time.id(), limit: this.services.entityLimit };
    let answer = UNAVAILABLE;
    this.batchItems += items.length;
    try {
      answer = await storeBatch({ route, request, items, replayId, headers }, ports);
    } catch (error) {
      log.error("a webhook's batch could not be stored", {
        route: route.path,
        error: String(error),
      });
    } finally {
      this.batchItems -= items.length;
    }
    respond(toHttp(answer));
  }

  /** Rule 2. */
  private store(
    { id, entity }: FoundAgent,
    route: WebhookRoute,
    request: WebhookRequest,
    { dedupId, replayId, eventType }: Verified,
    headers: Record<string, string>,
    respond: Respond,
  ): void {
    const { config, time } = this.services;
    const byAgent = route.answer === "agent";
    const number = this.waiting.next();
    const reply = byAgent
      ? { subject: this.replySubject, id: this.life + numberText(number) }
      : undefined;
    const head = webhookHead({
      route, request, headers, entity, dedupId, replayId, eventType, id: time.id, reply,
    }); // prettier-ignore
    const out = new PendingWebhook({
      services: this.services,
      deadlines: this.deadlines,
      deadlineMs: route.deadlineMs,
      id,
      envelope: { head, body: request.body },
      byAgent,
      storeFirst: config.storeFirst,
      respond: (response) => {
        this.waiting.take(number);
        respond(response);
      },
    });
    this.waiting.set(number, out);
    out.start();
  }

  private logRefusal(route: WebhookRoute, from: string, verdict: Verdict): void {
    const { log } = this.services;
    if (verdict._tag === "Misconfigured")
      log.error("a webhook route is misconfigured", { route: route.path, why: verdict.message });
    else if (verdict._tag === "Unavailable")
      log.warn("a webhook can't be verified now", { route: route.path, why: verdict.message });
    else if (verdict._tag === "Rejected")
      log.warn("a webhook's signature was rejected", {
        route: route.path,
        from,
        why: verdict.reason,
      });
  }

  private answered(data: Uint8Array): void {
    const { head, body } = decodeMessage<InputAnswer>(data);
    // None: past its deadline, the caller had its 202.
    if (!head.id.startsWith(this.life)) return;
    const number = numberOf(head.id.slice(this.life.length));
    this.waiting.get(number)?.hear(head, body);
  }
}

const BUSY = tooMany(1);
