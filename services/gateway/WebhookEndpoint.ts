/**
 * Handles requests to webhook routes, from the raw body to the answer (`interface.md` §4.1, §7):
 * checks the method, verifies the signature over the raw body, finds the agent, and stores the
 * input or forwards it to the agent's host. The answer is the agent's own, or 202 at the deadline
 * (`PendingWebhook`).
 *
 * 1. Nothing is parsed before its signature is verified. A request with an invalid signature never
 *    reaches an agent (I10). Without a signature, what parsing costs is bounded (`isCostlyJson`).
 * 2. Only refusals are answered before the input is stored, either in the inbox or by the event of
 *    its turn. An input that cannot be stored is answered with 503.
 * 3. A batch, and an event that several targets take, is answered once each input is stored
 *    (`storeBatch`), not by its agents. An event that no target takes is answered 200 and left out.
 * 4. While the broker elects a leader or a shard moves, the request is held and retried within its
 *    deadline.
 */
import { isCostlyJson, TOO_MANY_OPENINGS } from "../../core/http/openingsIn.ts";
import { FAILED } from "../../core/http/responseHead.ts";
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import type { Exchange, HttpRequest } from "../../core/http/HttpServer.ts";
import { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import {
  answerOfVerdict,
  BODY_TOO_LARGE,
  FILTERED,
  methodNotAllowed,
  UNAVAILABLE,
} from "../../core/webhook/answers.ts";
import { REDACTION } from "../../core/redaction/Redaction.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import {
  allowsMethod,
  targetsOf,
  type BatchItem,
  type Verdict,
  type Verified,
} from "../../core/webhook/WebhookRoute.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { InputAnswer } from "../../schemas/bus/CallReply.ts";
import { decodeMessage } from "../../schemas/bus/message.ts";
import { deliveryIds } from "../../schemas/DeliveryRecord.ts";
import { DeadlineSignals } from "./DeadlineSignals.ts";
import type { DeliveryEnd } from "./deliveryRecord.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { IncomingWebhook } from "./IncomingWebhook.ts";
import { listen } from "./listen.ts";
import { PendingWebhook } from "./PendingWebhook.ts";
import { tooMany } from "./RateLimit.ts";
import { BATCH_ITEMS_MAX, storeBatch } from "./storeBatch.ts";
import { agentOf, webhookHead, type FoundAgent } from "./webhookInput.ts";
import { stackOf } from "../../core/errors/thrown.ts";

/** Deadlines are in seconds, so that this delay does not matter. */
const DEADLINE_SLACK_MS = 25;

export class WebhookEndpoint {
  private readonly timeouts: TimeoutQueue;
  private readonly signals: DeadlineSignals;
  private readonly replySubject: string;
  /** Webhooks that wait for an answer on `replySubject`, by the number in their reply id. */
  private readonly pending = new NumberedTable<PendingWebhook>();
  private readonly unsubscribe: () => void;
  /**
   * Prefix of reply ids, unique among all endpoints of this and earlier processes, so that an
   * answer for one of them is never mistaken for an answer for this one.
   */
  private readonly replyIdPrefix: string;
  private readonly newDelivery: (timeMs: number) => string;
  /** Events of batches that are being stored. */
  private batchItems = 0;

  constructor(private readonly services: GatewayServices) {
    const { config, time } = services;
    this.timeouts = new TimeoutQueue(time, DEADLINE_SLACK_MS);
    this.signals = new DeadlineSignals(time, this.timeouts);
    this.replyIdPrefix = `${time.id()}-`;
    this.newDelivery = deliveryIds(time.id());
    this.replySubject = config.subjects.gateway(config.gatewayId, "reply");
    this.unsubscribe = listen(services, this.replySubject, ({ data }) => this.onReply(data));
  }

  /** Stops receiving answers and cancels all deadlines. */
  close(): void {
    this.unsubscribe();
    this.timeouts.close();
  }

  /** Answers the exchange, now or later. Never throws. */
  handle(exchange: Exchange, match: RouteMatch): void {
    const webhook = new IncomingWebhook(this.services, exchange, match, this.newDelivery);
    this.guard(webhook, () => this.receive(webhook));
  }

  /** The server has answered without the whole body, as it does by rules 1 and 9 of HttpServer. */
  onBodyRefused(request: HttpRequest, match: RouteMatch, status: 413 | 503): void {
    const unread = { request, body: NO_BODY, respond: () => undefined } as const;
    const webhook = new IncomingWebhook(this.services, unread, match, this.newDelivery);
    const limit = `its body has more than ${match.route.bodyBytesMax} bytes`;
    if (status === 413) webhook.answer(BODY_TOO_LARGE, refused(limit));
    else webhook.answer(UNAVAILABLE, NO_ROOM);
  }

  /** Runs a step and answers 500 if it throws. */
  private guard(webhook: IncomingWebhook, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.services.log.error("a webhook could not be handled", {
        route: webhook.route.path,
        delivery: webhook.id,
        error: stackOf(error),
      });
      webhook.respond(FAILED, { status: "unavailable", why: "it could not be handled" });
    }
  }

  private receive(webhook: IncomingWebhook): void {
    const { route, request } = webhook;
    if (!allowsMethod(route, request.method)) return this.refuseMethod(webhook);
    const prepared = route.verifier.prepare?.(request);
    if (prepared === undefined) return this.verify(webhook);
    let waiting = true;
    const verifyOnce = () => {
      if (!waiting) return;
      waiting = false;
      cancelDeadline();
      this.guard(webhook, () => this.verify(webhook));
    };
    // If the preparation is not finished by the deadline, the verdict of `verify` says so.
    const cancelDeadline = this.timeouts.after(route.deadlineMs, verifyOnce);
    void prepared.then(verifyOnce, verifyOnce);
  }

  private verify(webhook: IncomingWebhook): void {
    const { route, request } = webhook;
    if (route.verifier.unsigned === true && isCostlyJson(request.body))
      return webhook.answer(BODY_TOO_LARGE, TOO_COSTLY);
    const verdict = this.verdictOf(webhook);
    if (verdict._tag !== "Verified")
      return webhook.answer(answerOfVerdict(verdict), endOfVerdict(verdict, webhook));
    if (request.method !== "POST") return this.refuseMethod(webhook);
    if (verdict.items !== undefined) return void this.storeEvents(webhook, verdict, verdict.items);
    const targets = route.also === undefined ? undefined : targetsOf(route, request);
    if (targets !== undefined && targets.length > 1)
      return void this.storeEvents(webhook, verdict, [{ ...verdict, body: request.body }]);
    const target = targets === undefined ? route : targets[0];
    if (target?.when?.(request) === false || target === undefined)
      return webhook.answer(FILTERED, NOT_TAKEN);
    const found = agentOf(target, request);
    if (found._tag === "Refused") return webhook.answer(found.answer, refused(found.answer.body));
    const wait = this.services.entityLimit?.take(addressKey(found.id)) ?? 0;
    if (wait > 0) return webhook.respond(tooMany(wait), OVER_RATE);
    if (this.isBusy()) return webhook.respond(BUSY, TOO_BUSY);
    this.forward(webhook, verdict, found);
  }

  /** Verifies the request, in a span of its own if the request is traced. */
  private verdictOf({ route, request, span }: IncomingWebhook): Verdict {
    if (span === undefined) return route.verifier.verify(request);
    const { tracing } = this.services;
    const name = `verify ${route.verifier.provider}`;
    const own = tracing?.start(name, { kind: "internal", parent: span.traceparent });
    const verdict = route.verifier.verify(request);
    own?.set({ "agents.verdict": verdict._tag });
    own?.end();
    return verdict;
  }

  private refuseMethod(webhook: IncomingWebhook): void {
    const { route, request } = webhook;
    webhook.answer(methodNotAllowed(route), refused(`the method ${request.method}`));
  }

  private isBusy(): boolean {
    return this.pending.size + this.batchItems >= this.services.config.webhooksWaitingMax;
  }

  /** Rule 3. */
  private async storeEvents(
    webhook: IncomingWebhook,
    verdict: Verified,
    items: ReadonlyArray<BatchItem>,
  ): Promise<void> {
    if (items.length > BATCH_ITEMS_MAX)
      return webhook.answer(BODY_TOO_LARGE, refused(`more than ${BATCH_ITEMS_MAX} events`));
    if (this.isBusy()) return webhook.respond(BUSY, TOO_BUSY);
    const { route, request, id: delivery } = webhook;
    const { inbox, log, time, entityLimit: limit } = this.services;
    const signal = this.signals.in(route.deadlineMs);
    const isWhole = items[0]?.body === request.body;
    const batch = {
      route,
      request,
      items,
      isWhole,
      replayId: verdict.replayId,
      delivery,
      traceparent: webhook.span?.traceparent,
      headers: webhook.headers(verdict),
    };
    let answer = UNAVAILABLE;
    this.batchItems += items.length;
    try {
      answer = await storeBatch(batch, { inbox, log, signal, id: () => time.id(), limit });
    } catch (error) {
      log.error("a webhook's batch could not be stored", {
        route: route.path,
        delivery,
        error: String(error),
      });
    } finally {
      this.batchItems -= items.length;
    }
    if (answer === FILTERED) return webhook.answer(answer, NOT_TAKEN);
    const isStored = answer.status < 300;
    const end = isStored
      ? ({ status: "stored", parts: items.length } as const)
      : answer.status === UNAVAILABLE.status
        ? ({ status: "unavailable", why: "it could not be stored" } as const)
        : refused(answer.body);
    webhook.answer(answer, end);
  }

  /** Rule 2. */
  private forward(webhook: IncomingWebhook, verdict: Verified, { id, entity }: FoundAgent): void {
    const { config, time } = this.services;
    const { route, request } = webhook;
    const { dedupId, replayId, eventType } = verdict;
    const byAgent = route.answer === "agent";
    const number = this.pending.next();
    const reply = byAgent
      ? {
          subject: this.replySubject,
          id: this.replyIdPrefix + numberText(number),
          ms: route.deadlineMs,
        }
      : undefined;
    const headers = webhook.headers(verdict);
    const head = webhookHead({
      route, request, headers, entity, dedupId, replayId, eventType, id: time.id, reply,
      delivery: webhook.id, traceparent: webhook.span?.traceparent,
    }); // prettier-ignore
    webhook.input = { id, key: head.key, type: eventType };
    const pending = new PendingWebhook({
      services: this.services,
      timeouts: this.timeouts,
      signal: this.signals.in(route.deadlineMs),
      deadlineMs: route.deadlineMs,
      id,
      envelope: { head, body: request.body },
      byAgent,
      storeFirst: config.storeFirst,
      respond: (response, end) => {
        this.pending.take(number);
        webhook.respond(response, end);
      },
    });
    this.pending.set(number, pending);
    pending.start();
  }

  private onReply(data: Uint8Array): void {
    const { head, body } = decodeMessage<InputAnswer>(data);
    if (!head.id.startsWith(this.replyIdPrefix)) return;
    const number = numberOf(head.id.slice(this.replyIdPrefix.length));
    // Undefined if the deadline has passed and the caller has received its 202.
    this.pending.get(number)?.onAnswer(head, body);
  }
}

const BUSY = tooMany(1);
const NO_BODY = new Uint8Array(0);

const refused = (why: string): DeliveryEnd => ({ status: "refused", why });
const NOT_TAKEN: DeliveryEnd = { status: "filtered", why: "no target accepts it" };
const TOO_COSTLY = refused(TOO_MANY_OPENINGS);
const OVER_RATE = refused("its agent exceeds its rate");
const TOO_BUSY = refused("the gateway is busy");
const NO_ROOM: DeliveryEnd = { status: "unavailable", why: "there is no room for its body" };

/** A request's target may have 16 KiB, and anyone can send one. */
const URL_LOGGED_MAX = 500;

/** Log lines contain no query. Only whether there is one is shown, because it is signed too. */
const loggedUrl = (url: string): string =>
  REDACTION.url(url.replace(/\?.*$/s, "?…")).slice(0, URL_LOGGED_MAX);

/** The end of a request that is not verified. The reasons are fixed texts without secrets. */
function endOfVerdict(
  verdict: Exclude<Verdict, Verified>,
  { route, request }: Pick<IncomingWebhook, "route" | "request">,
): DeliveryEnd {
  switch (verdict._tag) {
    case "Handshake":
      return { status: "handshake" };
    case "Rejected": {
      const url = route.verifier.signedUrl?.(request);
      return {
        ...refused(verdict.reason),
        ...(typeof url === "string" && { url: loggedUrl(url) }),
      };
    }
    case "Misconfigured":
      return { status: "unavailable", why: `its route is misconfigured: ${verdict.message}` };
    case "Unavailable":
      return { status: "unavailable", why: verdict.message };
  }
}
