/**
 * The mail methods of `Agent` (`interface.md` §4.3, `protocol.md` §8): composes replies and
 * messages, and signs the agent's headers. What it sends waits in the agent
 * (`core/outgoing/MailLane`) until a relay accepts it.
 */
import { camelCaseToKebabCase } from "../../schemas/Address.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AgentEmail } from "../mail/AgentEmail.ts";
import { AGENT_ID, AGENT_NAME, signAgent } from "../mail/agentSignature.ts";
import { whyNoReply } from "../mail/autoReply.ts";
import { composeMail, mergeHeaders, type MailDraft } from "../mail/composeMail.ts";
import type { SendEmailOptions } from "../mail/SendEmailOptions.ts";
import { composeReply, type ReplyOptions } from "../mail/composeReply.ts";
import { EmailBinding, type SentEmail } from "../mail/EmailBinding.ts";

export interface MailApiAgent extends Pick<AgentWork, "id" | "time" | "log" | "emit" | "flush"> {
  readonly mail: { send(draft: MailDraft, retry: RetryOptions | undefined): string };
}

const MS_PER_SECOND = 1000;

/** Its public methods are those of `Agent`, which documents them. */
export class MailApi {
  readonly #agent: MailApiAgent;

  constructor(agent: MailApiAgent) {
    this.#agent = agent;
  }

  async reply(email: AgentEmail, options: ReplyOptions): Promise<SentEmail | undefined> {
    const agent = this.#agent;
    if (typeof (email as Partial<AgentEmail> | undefined)?.headers?.get !== "function")
      throw new TypeError("replyToEmail(email, options): pass the email that onEmail received");
    if (email._secureRouted === true && options.secret === undefined)
      throw new TypeError(
        "replyToEmail: this mail was routed by createSecureReplyEmailResolver: pass the same secret, so that the next reply is routed too, or secret: null to send it unsigned",
      );
    const headers = await this.#agentHeaders(options.secret);
    const why = whyNoReply(email);
    if (why !== undefined) {
      agent.log.warn("a mail is not answered", { from: email.from, to: email.to, why });
      return undefined;
    }
    const draft = composeReply(email, options, headers);
    const messageId = agent.mail.send(draft, options.retry);
    agent.emit("email:reply", { from: email.to, to: email.from, subject: draft.subject });
    return { messageId };
  }

  async send(options: SendEmailOptions): Promise<SentEmail> {
    const agent = this.#agent;
    const { binding, secret, retry, inReplyTo, ...content } = options;
    if (typeof binding?.send !== "function")
      throw new TypeError(
        "sendEmail: the binding is missing: sendEmail({ binding: this.env.EMAIL, … })",
      );
    const headers = mergeHeaders(content.headers, await this.#agentHeaders(secret));
    const isOwn = binding instanceof EmailBinding;
    // A binding of the app's own receives all that it is given.
    const draft = composeMail({
      ...content,
      ...(isOwn ? {} : { attachments: [] }),
      inReplyTo,
      headers,
    });
    const event = { from: draft.from.address, to: addressesOf(draft), subject: draft.subject };
    if (isOwn) {
      const messageId = agent.mail.send(draft, retry);
      agent.emit("email:send", event);
      return { messageId };
    }
    // A foreign binding's effect can't be undone, so everything before it is stored first.
    await agent.flush();
    // As in the reference, the thread is a header.
    const thread = inReplyTo === undefined ? {} : { "In-Reply-To": inReplyTo };
    const message = { ...content, headers: mergeHeaders(thread, headers) };
    const sent = (await binding.send(message as never)) as Partial<SentEmail> | undefined;
    agent.emit("email:send", event);
    return { messageId: sent?.messageId ?? "" };
  }

  async #agentHeaders(secret: string | null | undefined): Promise<Record<string, string>> {
    const { id, time } = this.#agent;
    const name = camelCaseToKebabCase(id.class);
    return typeof secret === "string"
      ? signAgent(secret, name, id.name, Math.floor(time.nowMs() / MS_PER_SECOND))
      : { [AGENT_NAME]: name, [AGENT_ID]: id.name };
  }
}

const addressesOf = ({ to }: MailDraft): string => to.map(({ address }) => address).join(", ");
