/**
 * Records what agents under test send: webhooks (`this.sendWebhook`), mail and their own `fetch`.
 * Nothing leaves the process, because the test's handler answers each request.
 */
import type { OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { asyncAmbient } from "../node/AsyncAmbient.ts";
import { nodeOutgoing } from "../node/NodeOutgoing.ts";
import type { MailTransportShape, OutgoingMail } from "../../core/mail/MailTransport.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import { fetched } from "./fetched.ts";

/** One attempt of a request or mail that an agent sent. */
export interface Sent {
  readonly kind: "webhook" | "fetch" | "email";
  /** The agent that sent it. */
  readonly agent: { readonly class: string; readonly name: string };
  readonly url: string;
  readonly method: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For an email: the message that the relay receives. `url` is `mailto:…`, `json` the mail. */
  readonly mail?: OutgoingMail;
  /** The body parsed as JSON; undefined if it is not JSON. */
  readonly json: unknown;
  /** Virtual time, milliseconds since the epoch. */
  readonly timeMs: number;
  /** The status of the answer; undefined while it is pending, or if the handler threw. */
  status: number | undefined;
}

const ANSWER_IT =
  "a test sends no real requests. Answer it: testAgents({ …, outgoing: (request) => new Response(…) })";

/** Answers for the outside world. If it throws, the connection fails. */
export type OutgoingHandler = (request: Request) => Response | Promise<Response>;

export class TestOutgoing {
  readonly sent: Sent[] = [];
  handler: OutgoingHandler | undefined;

  private readonly unanswered: string;

  /** `unanswered`: what a `fetch` without a handler rejects with, after its method and URL. */
  constructor(
    private readonly nowMs: () => number,
    handler: OutgoingHandler | undefined,
    unanswered = ANSWER_IT,
  ) {
    this.handler = handler;
    this.unanswered = unanswered;
  }

  /** The port, for hosts. The guard against private addresses is the real one, except for DNS. */
  readonly port: OutgoingShape = {
    refusal: nodeOutgoing.refusal,
    hmacSha256: nodeOutgoing.hmacSha256,
    post: async ({ url, headers, body, allowPrivate }) => {
      const message = allowPrivate ? undefined : nodeOutgoing.refusal(new URL(url));
      if (message !== undefined) return { _tag: "Refused", message };
      const request = new Request(url, { method: "POST", headers, body });
      try {
        // Accepted by default, as by most receivers.
        const response = await this.answer("webhook", request, () => new Response("OK"));
        return { _tag: "Answered", status: response.status };
      } catch (error) {
        return { _tag: "Failed", message: messageOf(error) };
      }
    },
  };

  /** The relay. The handler's status is treated as an SMTP code: 4xx is retried, 5xx is final. */
  readonly relay: MailTransportShape = {
    configured: true,
    send: async (mail) => {
      const to = mail.envelope?.to ?? mail.to.map(({ address }) => address);
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify(mail);
      const request = new Request(`mailto:${to.join(",")}`, { method: "SEND", headers, body });
      const response = await this.answer("email", request, () => new Response("OK"), mail);
      const message = `the relay said ${response.status}`;
      if (response.ok) return { _tag: "Sent", refused: [], deferred: [] };
      return { _tag: response.status >= FINAL_CODES_MIN ? "Refused" : "Failed", message };
    },
  };

  /** Answers an agent's own `fetch`. Rejects without a handler. */
  fetch(request: Request): Promise<Response> {
    const fallback = ({ method, url }: Request): never => {
      throw new TypeError(`fetch ${method} ${url}: ${this.unanswered}`);
    };
    return fetched(request, (asked) => this.answer("fetch", asked, fallback));
  }

  private async answer(
    kind: Sent["kind"],
    request: Request,
    fallback: OutgoingHandler,
    mail?: OutgoingMail,
  ): Promise<Response> {
    const body = await request.clone().text();
    const sent: Sent = {
      kind,
      agent: senderOf(),
      url: request.url,
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body,
      ...(mail === undefined ? {} : { mail }),
      json: parse(body),
      timeMs: this.nowMs(),
      status: undefined,
    };
    this.sent.push(sent);
    const response = await (this.handler ?? fallback)(request);
    sent.status = response.status;
    return response;
  }
}

/** SMTP codes from here on are permanent failures. */
const FINAL_CODES_MIN = 500;

function senderOf(): AgentId {
  const owner = asyncAmbient.current()?.owner;
  if (!(owner instanceof ActiveAgent))
    throw new Error(
      "an agent sent a request after its turn had ended, or from a timer: await the request in a method",
    );
  return owner.id;
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return undefined;
  }
}
