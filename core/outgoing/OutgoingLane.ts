/**
 * The webhooks that an agent sends: a lane like the queue's, and beside it, so that a target that
 * is down holds back no queue item of the agent's own. In order, one at a time, with all its
 * retries; the last failed attempt goes to the dead letters and to `onError`.
 *
 * Nothing is sent before the commit of the turn that asked for it (`QueueLane`, rule 1).
 */
import { toHex } from "../../schemas/toHex.ts";
import type { OutgoingShape } from "./Outgoing.ts";
import {
  headersOf,
  makeWebhook,
  OutgoingWebhookFailed,
  OutgoingWebhookRefused,
  type OutgoingWebhook,
  type SendWebhookOptions,
} from "./OutgoingWebhook.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { WEBHOOK_KEYS } from "../journal/laneKeys.ts";
import { QueueLane, type JobPorts, type QueueAgent } from "../queue/QueueLane.ts";

/** A receiver that needs longer should answer first and work later; providers allow 5 to 30 s. */
const ATTEMPT_TIMEOUT_MS = 15_000;
/** The binding that allows private addresses to every agent: for development. */
const ALLOW_PRIVATE = "AGENTS_ALLOW_PRIVATE_HOSTS";

export interface OutgoingLaneParts {
  readonly jobs: JobPorts;
  readonly outgoing: OutgoingShape;
  /** The bindings of the agent's module: secrets that sign webhooks are looked up in it. */
  readonly env: unknown;
}

/** The agent that sends. */
export interface OutgoingAgent extends QueueAgent {
  readonly options: {
    readonly retry?: RetryOptions;
    /** May reach addresses that are not public. Default false. */
    readonly allowPrivateHosts?: boolean;
  };
}

/** Webhooks that wait to be sent. */
export const OUTGOING_TABLE = "svc_agents_outgoing";

export class OutgoingLane extends QueueLane {
  readonly #agent: OutgoingAgent;
  readonly #outgoing: OutgoingShape;
  readonly #env: Readonly<Record<string, unknown>>;

  constructor(agent: OutgoingAgent, parts: OutgoingLaneParts) {
    super(agent, parts.jobs, {
      table: OUTGOING_TABLE,
      keys: WEBHOOK_KEYS,
      payload: "sendWebhook: the webhook",
      events: "webhook",
      callback: () => (webhook) => this.#post(webhook as OutgoingWebhook),
      mayRetry: (error) => !(error instanceof OutgoingWebhookRefused),
      ceiling: "outgoingMax",
    });
    this.#agent = agent;
    this.#outgoing = parts.outgoing;
    this.#env = (parts.env ?? {}) as Readonly<Record<string, unknown>>;
  }

  /**
   * The idempotency key. Throws `TypeError` for what can't be sent, `OutgoingWebhookRefused` for an
   * address that may not be.
   */
  send(url: string | URL, body: unknown, options: SendWebhookOptions): string {
    const webhook = makeWebhook(
      {
        id: this.#newId(),
        url,
        body,
        options,
        env: this.#env,
        allowPrivate: this.#mayBePrivate(options),
        nowMs: this.#agent.time.nowMs(),
      },
      this.#outgoing,
    );
    const { retry } = options;
    return this.push("sendWebhook", webhook, {
      id: webhook.id,
      ...(retry === undefined ? {} : { retry }),
    });
  }

  #mayBePrivate({ allowPrivate }: SendWebhookOptions): boolean {
    return (
      allowPrivate ??
      this.#agent.options.allowPrivateHosts ??
      ["1", "true"].includes(String(this.#env[ALLOW_PRIVATE]))
    );
  }

  /** The id is the same when a durable input's turn runs again: the receiver can recognize it. */
  #newId(): string {
    const turn = this.#agent.turn();
    const { id } = turn.cause;
    if (!turn.durable || id === undefined) return `msg_${this.#agent.time.id()}`;
    const encoder = new TextEncoder();
    const { class: className, name } = this.#agent.id;
    const mac = this.#outgoing.hmacSha256(
      encoder.encode(`${className}/${name}`),
      encoder.encode(`${id} ${++turn.webhooksSent}`),
    );
    return `msg_${toHex(mac).slice(0, ID_DIGITS)}`;
  }

  async #post(webhook: OutgoingWebhook): Promise<void> {
    const { url, body, allowPrivate } = webhook;
    const { abort } = this.#agent.turn();
    const headers = headersOf(webhook, this.#env, this.#agent.time.nowMs(), this.#outgoing);
    const request = { url, headers, body, allowPrivate, timeoutMs: ATTEMPT_TIMEOUT_MS, abort };
    const result = await this.#outgoing.post(request);
    const to = `The webhook to ${withoutQuery(url)}`;
    if (result._tag === "Refused")
      throw new OutgoingWebhookRefused({ message: `${to} was not sent: ${result.message}` });
    if (result._tag === "Failed")
      throw new OutgoingWebhookFailed({ message: `${to} failed: ${result.message}` });
    const { status } = result;
    if (status < 200 || status > 299)
      throw new OutgoingWebhookFailed({ message: `${to} was answered ${status}`, status });
    this.#agent.emit("webhook:sent", { id: webhook.id, status });
  }
}

/** 128 bits. */
const ID_DIGITS = 32;

/** A URL for logs: queries carry tokens. */
function withoutQuery(href: string): string {
  const { origin, pathname } = new URL(href);
  return origin + pathname;
}
