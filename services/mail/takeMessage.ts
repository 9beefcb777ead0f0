/**
 * A message from SMTP to its agents: each recipient by the module's `email`, or by its declared routes. Fed by
 * the listener, while the sender waits; what it gives is what the sender is told.
 *
 * 1. `Accepted` only when every recipient's part is done: stored in an agent's inbox, or whatever the module's
 *    own handler does.
 * 2. One that can't be done now (no broker, a module that throws) makes it `Later` for all: the sender sends
 *    all again, and what was stored is known by its key.
 * 3. One answer holds for all recipients. Where some are rejected and others not, it is `Accepted`, and logged:
 *    a rejection would tell the sender that nobody has it.
 */
import { ReceivedEmail, type AgentEmail } from "../../core/mail/AgentEmail.ts";
import type { MailDraft } from "../../core/mail/composeMail.ts";
import { composeForward, composeRaw } from "../../core/mail/composeReply.ts";
import { EmailFailed, EmailRefused, sendNow } from "../../core/mail/EmailBinding.ts";
import { MailNotStored } from "../../core/mail/mailDrop.ts";
import type { IncomingMessage, MailAnswer } from "../../core/mail/MailServer.ts";
import { routeAgentEmail, UnknownAgentNamespace } from "../../core/namespace/routeAgentEmail.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import type { MailModule, MailServices } from "./MailServices.ts";

const ACCEPTED: MailAnswer = { _tag: "Accepted" };
export const UNKNOWN_RECIPIENT: MailAnswer = {
  _tag: "Rejected",
  code: "5.1.1",
  message: "No such recipient here",
};
const LATER: MailAnswer = { _tag: "Later", code: "4.3.0", message: "Try again later" };

/** Never rejects. */
export async function takeMessage(
  services: MailServices,
  message: IncomingMessage,
): Promise<MailAnswer> {
  const recipients = [...new Set(message.to)];
  const answers = await Promise.all(
    recipients.map((to) =>
      takeFor(services, message, to).catch((error: unknown) =>
        failed(services, message, to, error),
      ),
    ),
  );
  const later = answers.find(({ _tag }) => _tag === "Later");
  if (later !== undefined) return later; // rule 2
  const rejected = answers.filter(({ _tag }) => _tag === "Rejected");
  if (rejected.length === answers.length) return rejected[0] ?? UNKNOWN_RECIPIENT;
  if (rejected.length > 0)
    services.log.warn("a mail was rejected for some of its recipients, and taken for others", {
      from: message.from,
      rejected: recipients.filter((_, i) => answers[i]!._tag === "Rejected").join(", "),
    }); // rule 3
  return ACCEPTED;
}

/** Rejects with what the module throws. */
async function takeFor(
  services: MailServices,
  { from, raw }: IncomingMessage,
  to: string,
): Promise<MailAnswer> {
  const module = services.module();
  let verdict: MailAnswer = ACCEPTED;
  const send = async (draft: MailDraft) => {
    await sendNow(services.transport, services.time, draft);
  };
  const email: AgentEmail = new ReceivedEmail(
    { from, to, raw, secureRouted: false },
    {
      reject: (reason) => void (verdict = { _tag: "Rejected", code: "5.7.1", message: reason }),
      noRoute: () => {
        services.log.warn("a mail is for no agent", { from, to });
        verdict = UNKNOWN_RECIPIENT;
      },
      // The sender waits: it is told when the relay has it.
      forward: async (recipient, headers) => send(await composeForward(email, recipient, headers)),
      reply: async (message) => send(await composeRaw(message, "reply")),
    },
    services.time.nowMs(),
  );
  await handle(services, module, email);
  return verdict;
}

async function handle(
  { log }: MailServices,
  { env, email: handler, resolver }: MailModule,
  email: AgentEmail,
): Promise<void> {
  if (handler === undefined)
    return resolver === undefined
      ? ReceivedEmail.noRoute(email)
      : routeAgentEmail(email, env, { resolver });
  await handler(email, env, {
    waitUntil: (promise) =>
      void promise.catch((error: unknown) =>
        log.error("a waitUntil promise rejected", { error: String(error) }),
      ),
    passThroughOnException: () => undefined,
  });
}

/** What is the sender's fault is refused; whatever else may end otherwise next time. */
function failed(
  { log }: MailServices,
  { from }: IncomingMessage,
  to: string,
  error: unknown,
): MailAnswer {
  if (error instanceof InvalidAddress || isSendersChoice(error, to)) {
    log.warn("a mail is for no agent", { from, to, why: (error as Error).message });
    return UNKNOWN_RECIPIENT;
  }
  const isOutside =
    error instanceof MailNotStored || error instanceof EmailFailed || error instanceof EmailRefused;
  log.error(isOutside ? "a mail could not be handled now" : "the module's email failed", {
    from,
    to,
    error: isOutside || !(error instanceof Error) ? String(error) : (error.stack ?? error.message),
  });
  return LATER;
}

/** An agent that there is not, named by the address: else the module named it, and a repair may follow. */
const isSendersChoice = (error: unknown, to: string): boolean =>
  error instanceof UnknownAgentNamespace &&
  to.toLowerCase().startsWith(`${error.agentName.toLowerCase()}+`);
