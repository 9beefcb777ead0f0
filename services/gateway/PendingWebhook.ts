/**
 * One verified webhook from its acceptance to its answer: forwards the input to the agent's host or
 * stores it, and answers once. `WebhookEndpoint` creates it and passes on the answers that arrive
 * at the reply subject.
 *
 * 1. If the agent answers, its host receives the input before it is stored
 *    (`core/input/DirectInput`). The input is stored in the inbox only if no host takes it, or if
 *    the host has not answered within `PATIENCE_MS`. An agent that receives it both ways recognizes
 *    the repetition by its key.
 * 2. If the agent answers that a stored copy is a repetition, the host has run the forwarded input,
 *    and its own answer follows. That answer may be lost with a broker connection: the other one is
 *    sent after `OWN_ANSWER_MS`.
 * 3. At the deadline, the answer is 202 if the input is known to be stored, else 503.
 */
import type { HttpResponse } from "../../core/http/HttpServer.ts";
import { assertSendable, textResponse } from "../../core/http/responseHead.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import { ACCEPTED, UNAVAILABLE } from "../../core/webhook/answers.ts";
import type { TopLevelId } from "../../schemas/AgentPath.ts";
import type { CallReply, InputAnswer } from "../../schemas/bus/CallReply.ts";
import { encodeEnvelope, type InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import type { DeliveryEnd } from "./deliveryRecord.ts";
import { toHttp } from "./IncomingWebhook.ts";
import { messageHeaders } from "./requests.ts";

/**
 * How long a host may have an input before the input is also stored. Nearly every turn takes less,
 * even on a busy machine, where a needless store costs most. If the deadline is shorter than twice
 * this time, it is half of the deadline.
 */
const PATIENCE_MS = 1_000;
/** Rule 2. Both answers are sent within the same milliseconds, unless a connection breaks. */
const OWN_ANSWER_MS = 1_000;

interface PendingWebhookOptions {
  readonly services: Pick<GatewayServices, "inbox" | "calls" | "blobs" | "log">;
  readonly timeouts: TimeoutQueue;
  /** Ends attempts to store the input. Fires `deadlineMs` from now, or shortly after. */
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly id: TopLevelId;
  readonly envelope: InboxEnvelope;
  /** True if the agent answers, false if the gateway answers once the input is stored. */
  readonly byAgent: boolean;
  /** Stores the input before any host receives it. */
  readonly storeFirst: boolean;
  /** Called once. */
  readonly respond: (response: HttpResponse, end: DeliveryEnd) => void;
}

type Answer = Omit<InputAnswer, "id">;
type Body = Uint8Array | string;

export class PendingWebhook {
  private stored = false;
  private storing = false;
  private responded = false;
  /** A host has the input, which is not stored, and has not answered yet. */
  private forwarded = false;
  /** Sends the answer for a stored copy, in case the host's own answer does not arrive. */
  private fallback: (() => void) | undefined;
  private cancelFallback: (() => void) | undefined;
  private readonly cancelDeadline: () => void;
  private cancelPatience: (() => void) | undefined;

  constructor(private readonly options: PendingWebhookOptions) {
    this.cancelDeadline = options.timeouts.after(options.deadlineMs, () =>
      this.stored
        ? this.respond(toHttp(ACCEPTED), STORED)
        : this.respond(toHttp(UNAVAILABLE), notStored("its deadline passed before it was stored")),
    );
  }

  /** Forwards or stores the input. An answer may arrive before a store is acknowledged. */
  start(): void {
    const { services, envelope, byAgent, storeFirst } = this.options;
    if (byAgent && !storeFirst && services.calls.fits(envelope.body)) this.forward();
    else this.store();
  }

  /** Handles an answer that arrived at the reply subject. */
  onAnswer(answer: Answer, body: Uint8Array): void {
    const send = (): void => this.answer(answer, body);
    // Rule 2.
    if (this.forwarded && answer.duplicateOf !== undefined) {
      this.fallback = send;
      this.cancelFallback = this.options.timeouts.after(OWN_ANSWER_MS, send);
    } else send();
  }

  /** Rule 1. */
  private forward(): void {
    const { services, timeouts, deadlineMs, id, envelope } = this.options;
    const { head, body } = envelope;
    const patienceMs = Math.min(PATIENCE_MS, deadlineMs / 2);
    this.cancelPatience = timeouts.after(patienceMs, () => this.store());
    this.forwarded = true;
    services.calls.give(id, head, { body, deadlineMs }).then(
      (result) => this.onHostReply(result?.reply, result?.body),
      () => this.onHostReply(undefined, undefined),
    );
  }

  private onHostReply(reply: CallReply | undefined, body: Body | undefined): void {
    this.forwarded = false;
    if (reply?.kind === "done") return this.answer(reply, body ?? "");
    if (reply?.kind === "stored") this.stored = true;
    if (this.fallback === undefined) this.store();
    else this.fallback();
  }

  private store(): void {
    if (this.responded || this.stored || this.storing) return;
    this.storing = true;
    this.cancelPatience?.();
    this.publish().catch((error: unknown) => this.onStoreFailed(String(error)));
  }

  private async publish(): Promise<void> {
    const { services, id, envelope, byAgent, signal } = this.options;
    const data = encodeEnvelope(envelope.head, envelope.body);
    const result = await services.inbox.publish(id, data, { signal });
    if (result._tag !== "Stored") return this.onStoreFailed(result.message);
    this.stored = true;
    if (!byAgent) this.respond(toHttp(ACCEPTED), STORED);
  }

  private onStoreFailed(why: string): void {
    const { services, id, envelope } = this.options;
    const { delivery } = envelope.head;
    services.log.error("a webhook could not be stored", { ...id, delivery, why });
    this.respond(toHttp(UNAVAILABLE), notStored("it could not be stored"));
  }

  /**
   * Sends an agent's answer. Hosts check their answers (`takeResponse`), but the frame is not
   * trusted: an answer that cannot be sent becomes a 502.
   */
  private answer(answer: Answer, body: Body): void {
    const { services, id } = this.options;
    const { blob } = answer;
    const { blobs, log } = services;
    const send = (whole: Body): void =>
      this.respond(sendable(answer, whole, log, id), endOf(answer));
    if (blob === undefined) return send(body);
    blobs.get(blob).then(
      (whole) => {
        send(whole ?? "");
        // A blob that is not removed only costs space.
        void blobs.remove(blob).catch(() => undefined);
      },
      (error: unknown) => log.warn("an answer's body could not be read", { error: String(error) }),
    );
  }

  private respond(response: HttpResponse, end: DeliveryEnd): void {
    if (this.responded) return;
    this.responded = true;
    this.cancelDeadline();
    this.cancelPatience?.();
    this.cancelFallback?.();
    this.options.respond(response, end);
  }
}

const STORED: DeliveryEnd = { status: "stored" };
const notStored = (why: string): DeliveryEnd => ({ status: "unavailable", why });

function endOf({ seq, duplicateOf, dead, refused, reported }: Answer): DeliveryEnd {
  if (refused !== undefined) return { status: "refused", why: refused };
  if (duplicateOf !== undefined) return { status: "duplicate", duplicateOf };
  return { status: dead === true ? "dead" : "answered", seq, reported };
}

const BAD_GATEWAY = textResponse(502, "Bad Gateway");

function sendable(
  { status, headers: pairs }: Answer,
  body: Body,
  log: LogShape,
  id: TopLevelId,
): HttpResponse {
  try {
    const response = { status, headers: messageHeaders(pairs), body };
    assertSendable(response);
    return response;
  } catch (error) {
    log.error("a host's answer to a webhook can't be sent", { ...id, error: String(error) });
    return BAD_GATEWAY;
  }
}
