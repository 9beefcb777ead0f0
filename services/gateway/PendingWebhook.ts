/**
 * One verified webhook between its gateway and its agent: given to the agent's host or stored, and answered once.
 *
 * 1. Where the agent answers, its host is given the input before it is stored (`core/input/DirectInput`). It is put into
 *    the inbox only if nothing comes of that: no host, one that can't take it now, or takes longer than
 *    `PATIENCE_MS`. Both at once is a repetition, which the agent knows by its key.
 * 2. At the deadline it is 202 if it is known to be stored, else 503.
 *
 * Made by `WebhookEndpoint`, which hands it the answers that come to the reply subject.
 */
import type { HttpResponse } from "../../core/http/HttpServer.ts";
import { assertSendable, textResponse } from "../../core/http/responseHead.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { ACCEPTED, UNAVAILABLE } from "../../core/webhook/answers.ts";
import type { PlainAnswer } from "../../core/webhook/WebhookRoute.ts";
import type { TopLevelId } from "../../schemas/AgentPath.ts";
import type { CallReply, InputAnswer } from "../../schemas/Call.ts";
import { encodeEnvelope, type InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { Deadlines } from "./Deadlines.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { messageHeaders } from "./requests.ts";

/**
 * An input that its host has for so long is stored. More than nearly every turn takes, on a machine that is busy, too: what
 * is stored for nothing costs most when there is most to do. Half of a deadline that is shorter than two of it.
 */
const PATIENCE_MS = 1_000;

export interface WebhookOutOptions {
  readonly services: Pick<GatewayServices, "inbox" | "calls" | "blobs" | "log">;
  readonly deadlines: Deadlines;
  readonly deadlineMs: number;
  readonly id: TopLevelId;
  readonly envelope: InboxEnvelope;
  /** Whether its agent answers it, or the gateway does, once it is stored. */
  readonly byAgent: boolean;
  readonly storeFirst: boolean;
  /** Called once. */
  readonly respond: (response: HttpResponse) => void;
}

type Answer = Omit<InputAnswer, "id">;
type Body = Uint8Array | string;

export class PendingWebhook {
  private readonly options: WebhookOutOptions;
  private stored = false;
  private storing = false;
  private answered = false;
  /** A host has it, unstored, and has not answered yet. */
  private given = false;
  /** What its stored copy was answered meanwhile, that it is done: for when nothing better comes. */
  private spare: (() => void) | undefined;
  private readonly signal: AbortSignal;
  private readonly inTime: () => void;
  private cancelPatience: (() => void) | undefined;

  constructor(options: WebhookOutOptions) {
    this.options = options;
    const deadline = options.deadlines.in(options.deadlineMs);
    this.signal = deadline.signal;
    this.inTime = deadline.onPassed(() =>
      this.finish(toHttp(this.stored ? ACCEPTED : UNAVAILABLE)),
    );
  }

  /** The answer may come before the ack of a store does. */
  start(): void {
    const { services, envelope, byAgent, storeFirst } = this.options;
    if (byAgent && !storeFirst && services.calls.fits(envelope.body)) this.give();
    else this.store();
  }

  /** On its reply subject. */
  hear(answer: Answer, body: Uint8Array): void {
    const finish = (): void => this.finished(answer, body);
    // Its host has just done it, and the answer itself is on its way.
    if (this.given && answer.duplicateOf !== undefined) this.spare = finish;
    else finish();
  }

  private give(): void {
    const { services, deadlines, deadlineMs, id, envelope } = this.options;
    const { head, body } = envelope;
    const patienceMs = Math.min(PATIENCE_MS, deadlineMs / 2);
    this.cancelPatience = deadlines.in(patienceMs).onPassed(() => this.store());
    this.given = true;
    services.calls.give(id, head, { body, deadlineMs }).then(
      (result) => this.gave(result?.reply, result?.body),
      () => this.gave(undefined, undefined),
    );
  }

  private gave(reply: CallReply | undefined, body: Body | undefined): void {
    this.given = false;
    if (reply?.kind === "done") return this.finished(reply, body ?? "");
    if (reply?.kind === "stored") this.stored = true;
    if (this.spare === undefined) this.store();
    else this.spare();
  }

  private store(): void {
    if (this.answered || this.stored || this.storing) return;
    this.storing = true;
    this.cancelPatience?.();
    this.publish().catch((error: unknown) => this.failed(String(error)));
  }

  private async publish(): Promise<void> {
    const { services, id, envelope, byAgent } = this.options;
    const data = encodeEnvelope(envelope.head, envelope.body);
    const result = await services.inbox.publish(id, data, { signal: this.signal });
    if (result._tag !== "Stored") return this.failed(result.message);
    this.stored = true;
    if (!byAgent) this.finish(toHttp(ACCEPTED));
  }

  private failed(why: string): void {
    const { services, id } = this.options;
    services.log.error("a webhook could not be stored", { ...id, why });
    this.finish(toHttp(UNAVAILABLE));
  }

  /** Hosts answer what can be sent (`takeResponse`). What else a frame may say is not trusted, nor does it end anything here. */
  private finished(answer: Answer, body: Body): void {
    const { services, id } = this.options;
    const { status, duplicateOf, blob } = answer;
    const { blobs, log } = services;
    const finish = (whole: Body): void => this.finish(sendable(answer, whole, log, id));
    if (duplicateOf !== undefined)
      log.info(`a webhook came again; first applied at seq ${duplicateOf}`, { status });
    if (blob === undefined) return finish(body);
    blobs.get(blob).then(
      (whole) => {
        finish(whole ?? "");
        // A blob that stays behind costs space, nothing else.
        void blobs.remove(blob).catch(() => undefined);
      },
      (error: unknown) => log.warn("an answer's body could not be read", { error: String(error) }),
    );
  }

  private finish(response: HttpResponse): void {
    if (this.answered) return;
    this.answered = true;
    this.inTime();
    this.cancelPatience?.();
    this.options.respond(response);
  }
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

/** Undefined is an `Entity` or `Verified`, which the caller has told apart: a defect. */
export function toHttp(answer: PlainAnswer | undefined): HttpResponse {
  if (answer === undefined) throw new Error("there is nothing to answer yet");
  return { status: answer.status, headers: Object.entries(answer.headers), body: answer.body };
}
