/**
 * Handles requests to webhook routes, from the raw body to the answer (`interface.md` §4.1, §7):
 * checks the method, verifies the signature over the raw body, finds the agent, and stores the
 * input or forwards it to the agent's host. The answer is the agent's own, or 202 at the deadline
 * (`PendingWebhook`).
 *
 * 1. Nothing is parsed before its signature is verified. A request with an invalid signature never
 *    reaches an agent (I10).
 * 2. Only refusals are answered before the input is stored, either in the inbox or by the event of
 *    its turn. An input that cannot be stored is answered with 503.
 * 3. A batch is answered once each of its events is stored (`storeBatch`), not by its agents.
 * 4. While the broker elects a leader or a shard moves, the request is held and retried within its
 *    deadline.
 */
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import type { Exchange } from "../../core/http/HttpServer.ts";
import { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import {
  answerOfVerdict,
  BODY_TOO_LARGE,
  methodNotAllowed,
  UNAVAILABLE,
} from "../../core/webhook/answers.ts";
import type { RouteMatch } from "../../core/webhook/RouteTable.ts";
import { allowsMethod, type BatchItem, type Verdict } from "../../core/webhook/WebhookRoute.ts";
import { addressKey } from "../../schemas/Address.ts";
import { decodeMessage, type InputAnswer } from "../../schemas/Call.ts";
import { DeadlineSignals } from "./DeadlineSignals.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { IncomingWebhook } from "./IncomingWebhook.ts";
import { listen } from "./listen.ts";
import { PendingWebhook } from "./PendingWebhook.ts";
import { tooMany } from "./RateLimit.ts";
import { plain } from "./requests.ts";
import { BATCH_ITEMS_MAX, storeBatch } from "./storeBatch.ts";
import { agentOf, webhookHead, type FoundAgent } from "./webhookInput.ts";

/** Deadlines are seconds: this much more is not noticed. */
const DEADLINE_SLACK_MS = 25;

type Verified = Verdict & { readonly _tag: "Verified" };

export class WebhookEndpoint {
  private readonly services: GatewayServices;
  private readonly timeouts: TimeoutQueue;
  private readonly signals: DeadlineSignals;
  private readonly replySubject: string;
  /** Webhooks that wait for an answer on `replySubject`, by the number in their reply id. */
  private readonly pending = new NumberedTable<PendingWebhook>();
  private readonly unsubscribe: () => void;
  /**
   * Prefix of reply ids. No other endpoint has the same, in this process or an earlier one, so an
   * answer to one of theirs is never taken for an answer to one of ours.
   */
  private readonly replyIdPrefix: string;
  /** Events of batches that are being stored. */
  private batchItems = 0;

  constructor(services: GatewayServices) {
    const { config, time } = services;
    this.services = services;
    this.timeouts = new TimeoutQueue(time, DEADLINE_SLACK_MS);
    this.signals = new DeadlineSignals(time, this.timeouts);
    this.replyIdPrefix = `${time.id()}-`;
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
    const webhook = new IncomingWebhook(this.services, exchange, match);
    this.guard(webhook, () => this.receive(webhook));
  }

  /** Runs a step and answers 500 if it throws. */
  private guard(webhook: IncomingWebhook, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.services.log.error("a webhook could not be handled", {
        route: webhook.route.path,
        error: error instanceof Error ? error.stack : String(error),
      });
      webhook.respond(plain(500, "Internal Server Error"));
    }
  }

  private receive(webhook: IncomingWebhook): void {
    const { route, request } = webhook;
    if (!allowsMethod(route, request.method)) return webhook.answer(methodNotAllowed(route));
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
    const verdict = route.verifier.verify(request);
    if (verdict._tag !== "Verified") {
      this.logRefusal(webhook, verdict);
      return webhook.answer(answerOfVerdict(verdict));
    }
    if (request.method !== "POST") return webhook.answer(methodNotAllowed(route));
    if (verdict.items !== undefined)
      return void this.storeEvents(webhook, verdict.items, verdict.replayId);
    const found = agentOf(route, request);
    if (found._tag === "Refused") return webhook.answer(found.answer);
    const wait = this.services.entityLimit?.take(addressKey(found.id)) ?? 0;
    if (wait > 0) return webhook.respond(tooMany(wait));
    if (this.isBusy()) return webhook.respond(BUSY);
    this.forward(webhook, verdict, found);
  }

  private isBusy(): boolean {
    return this.pending.size + this.batchItems >= this.services.config.webhooksWaitingMax;
  }

  /** Rule 3. */
  private async storeEvents(
    webhook: IncomingWebhook,
    items: ReadonlyArray<BatchItem>,
    replayId: string | undefined,
  ): Promise<void> {
    if (items.length > BATCH_ITEMS_MAX) return webhook.answer(BODY_TOO_LARGE);
    if (this.isBusy()) return webhook.respond(BUSY);
    const { route, request } = webhook;
    const { inbox, log, time, entityLimit: limit } = this.services;
    const signal = this.signals.in(route.deadlineMs);
    const batch = { route, request, items, replayId, headers: webhook.headers() };
    let answer = UNAVAILABLE;
    this.batchItems += items.length;
    try {
      answer = await storeBatch(batch, { inbox, log, signal, id: () => time.id(), limit });
    } catch (error) {
      log.error("a webhook's batch could not be stored", {
        route: route.path,
        error: String(error),
      });
    } finally {
      this.batchItems -= items.length;
    }
    webhook.answer(answer);
  }

  /** Rule 2. */
  private forward(webhook: IncomingWebhook, verdict: Verified, { id, entity }: FoundAgent): void {
    const { config, time } = this.services;
    const { route, request } = webhook;
    const { dedupId, replayId, eventType } = verdict;
    const byAgent = route.answer === "agent";
    const number = this.pending.next();
    const reply = byAgent
      ? { subject: this.replySubject, id: this.replyIdPrefix + numberText(number) }
      : undefined;
    const headers = webhook.headers();
    const head = webhookHead({
      route, request, headers, entity, dedupId, replayId, eventType, id: time.id, reply,
    }); // prettier-ignore
    const pending = new PendingWebhook({
      services: this.services,
      timeouts: this.timeouts,
      signal: this.signals.in(route.deadlineMs),
      deadlineMs: route.deadlineMs,
      id,
      envelope: { head, body: request.body },
      byAgent,
      storeFirst: config.storeFirst,
      respond: (response) => {
        this.pending.take(number);
        webhook.respond(response);
      },
    });
    this.pending.set(number, pending);
    pending.start();
  }

  private logRefusal({ route, remoteAddress: from }: IncomingWebhook, verdict: Verdict): void {
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

  private onReply(data: Uint8Array): void {
    const { head, body } = decodeMessage<InputAnswer>(data);
    if (!head.id.startsWith(this.replyIdPrefix)) return;
    const number = numberOf(head.id.slice(this.replyIdPrefix.length));
    // Undefined if the deadline has passed and the caller has received its 202.
    this.pending.get(number)?.onAnswer(head, body);
  }
}

const BUSY = tooMany(1);
