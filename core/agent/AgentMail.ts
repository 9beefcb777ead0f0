/**
 * The part of `Agent` that receives and sends mail (`interface.md` §4.3, §6.2, `protocol.md` §8):
 * `onEmail`, `replyToEmail`, `sendEmail`. Between `AgentWorkflows` and `Agent` in the chain of
 * classes. Outgoing mail waits in the agent (`core/outgoing/MailLane`) until a relay accepts it.
 */
import { camelCaseToKebabCase } from "../../schemas/Address.ts";
import type { AgentEmail } from "../mail/AgentEmail.ts";
import { AGENT_ID, AGENT_NAME, signAgent } from "../mail/agentSignature.ts";
import { whyNoReply } from "../mail/autoReply.ts";
import {
  composeMail,
  mergeHeaders,
  type EmailContent,
  type MailDraft,
  type SendingOptions,
} from "../mail/composeMail.ts";
import { composeReply, type ReplyOptions } from "../mail/composeReply.ts";
import { EmailBinding, type SentEmail } from "../mail/EmailBinding.ts";
import { AgentWorkflows } from "./AgentWorkflows.ts";
import { runtimeOf } from "./AgentContext.ts";

/** A sender of mail: `env.EMAIL`, or the app's own object. */
export interface SendsEmail {
  send(message: EmailContent): Promise<unknown>;
}

/** Options of `sendEmail`: the message, and how it is sent. */
export interface SendEmailOptions extends EmailContent, SendingOptions {
  /**
   * `this.env.EMAIL`: the message waits in the agent and is retried. Any other: its `send` is
   * called once.
   */
  readonly binding: SendsEmail | undefined;
  /**
   * Signs the agent's headers, so that a reply that keeps them reaches this agent. Default:
   * unsigned.
   */
  readonly secret?: string | null | undefined;
}

const MS_PER_SECOND = 1000;

/** See `Agent`. */
export class AgentMail extends AgentWorkflows {
  /**
   * Hook: a mail that was routed to this agent, in a turn of its own that is retried when it
   * throws. Without it, mail is logged and dropped.
   */
  onEmail?(email: AgentEmail): void | Promise<void>;

  /**
   * Answers a mail once this turn is stored: from the address that it was sent to, to its sender,
   * in its thread. Resolves to undefined and sends nothing when the mail is a bounce or an
   * automatic message, since two machines would answer each other forever. Rejects with `TypeError`
   * for a reply that can't be sent, and for a mail that came by a signed reply when `secret` is
   * absent (null sends it unsigned). Rejects with `EmailRefused` without a relay.
   */
  async replyToEmail(email: AgentEmail, options: ReplyOptions): Promise<SentEmail | undefined> {
    const runtime = runtimeOf(this.ctx);
    if (email._secureRouted === true && options.secret === undefined)
      throw new TypeError(
        "replyToEmail: this mail came by createSecureReplyEmailResolver: pass the same secret, so that the next reply comes home too, or secret: null to send it unsigned",
      );
    const headers = await this.#agentHeaders(options.secret);
    const why = whyNoReply(email);
    if (why !== undefined) {
      runtime.log.warn("a mail is not answered", { from: email.from, to: email.to, why });
      return undefined;
    }
    const draft = composeReply(email, options, headers);
    const messageId = runtime.mail.send(draft, options.retry);
    runtime.emit("email:reply", { from: email.to, to: email.from, subject: draft.subject });
    return { messageId };
  }

  /**
   * Sends a mail once this turn is stored, retried while the relay can't be reached. Resolves to
   * its message id. Rejects with `TypeError` for a mail that can't be sent and without `binding`,
   * and with `EmailRefused` without a relay.
   */
  async sendEmail(options: SendEmailOptions): Promise<SentEmail> {
    const runtime = runtimeOf(this.ctx);
    const { binding, secret, retry, ...content } = options;
    if (typeof binding?.send !== "function")
      throw new TypeError(
        "sendEmail: give the binding to send by: sendEmail({ binding: this.env.EMAIL, … })",
      );
    const headers = mergeHeaders(content.headers, await this.#agentHeaders(secret));
    const draft = composeMail({ ...content, headers });
    const told = { from: draft.from.address, to: addressesOf(draft), subject: draft.subject };
    if (binding instanceof EmailBinding) {
      const messageId = runtime.mail.send(draft, retry);
      runtime.emit("email:send", told);
      return { messageId };
    }
    // A foreign binding's effect can't be undone, so everything before it is stored first.
    await runtime.flush();
    const sent = (await binding.send({ ...content, headers })) as Partial<SentEmail> | undefined;
    runtime.emit("email:send", told);
    return { messageId: sent?.messageId ?? "" };
  }

  async #agentHeaders(secret: string | null | undefined): Promise<Record<string, string>> {
    const { id, time } = runtimeOf(this.ctx);
    const name = camelCaseToKebabCase(id.class);
    return typeof secret === "string"
      ? signAgent(secret, name, id.name, Math.floor(time.nowMs() / MS_PER_SECOND))
      : { [AGENT_NAME]: name, [AGENT_ID]: id.name };
  }
}

const addressesOf = ({ to }: MailDraft): string => to.map(({ address }) => address).join(", ");
