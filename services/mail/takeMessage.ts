/**
 * Delivers a message from SMTP to its agents: for each recipient, it runs the module's `email` or
 * the declared routes. The listener calls it while the sender waits; the result is the sender's
 * answer.
 *
 * 1. The answer is `Accepted` only after each recipient is done: its copy is stored in an agent's
 *    inbox, or the module's handler has finished.
 * 2. If a recipient fails temporarily (no broker, a module that throws), the answer is `Later` for
 *    all. The sender sends the message again, and copies that were stored are recognized by their
 *    keys.
 * 3. One answer covers all recipients. If only some are rejected, the answer is `Accepted` and the
 *    rejections are logged: a rejection would tell the sender that nobody received the message.
 * 4. Each recipient that is being served may hold copies of the message. Those of a small message
 *    are served at once, those of a large one a few at a time, and none is begun after `late`.
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
import { readable, stackOf } from "../../core/errors/thrown.ts";

export const ACCEPTED: MailAnswer = { _tag: "Accepted" };
export const UNKNOWN_RECIPIENT: MailAnswer = {
  _tag: "Rejected",
  code: "5.1.1",
  message: "No such recipient here",
};
export const LATER: MailAnswer = { _tag: "Later", code: "4.3.0", message: "Try again later" };

/** Rule 4: two of the largest messages by default. */
const COPIES_BYTES_MAX = 50 * 1024 * 1024;
/** Rule 4: one recipient whose handler never finishes does not keep the message from the others. */
const AT_ONCE_MIN = 2;

/** Resolves with the answer. Never rejects. `late` aborts when the sender was answered already. */
export async function takeMessage(
  services: MailServices,
  message: IncomingMessage,
  late?: AbortSignal,
): Promise<MailAnswer> {
  const recipients = [...new Set(message.to)];
  const answers: MailAnswer[] = recipients.map(() => LATER);
  const waiting = recipients.entries();
  const serve = async (): Promise<void> => {
    for (const [i, to] of waiting) {
      if (late?.aborted === true) return;
      answers[i] = await takeFor(services, message, to).catch((error: unknown) =>
        failed(services, message, to, readable(error)),
      );
    }
  };
  const atOnce = Math.max(AT_ONCE_MIN, Math.floor(COPIES_BYTES_MAX / (message.raw.length + 1)));
  const servers = Math.min(recipients.length, atOnce);
  await Promise.all(Array.from({ length: servers }, serve)); // rule 4
  const later = answers.find(({ _tag }) => _tag === "Later");
  if (later !== undefined) return later; // rule 2
  const rejected = answers.filter(({ _tag }) => _tag === "Rejected");
  if (rejected.length === answers.length) return rejected[0] ?? UNKNOWN_RECIPIENT;
  if (rejected.length > 0)
    services.log.warn("a mail was rejected for some of its recipients, and accepted for others", {
      from: message.from,
      rejected: recipients.filter((_, i) => answers[i]!._tag === "Rejected").join(", "),
    }); // rule 3
  return ACCEPTED;
}

/** Delivers to one recipient. Rejects with what the module throws. */
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
      // Not queued: the sender waits until the relay has accepted the mail.
      forward: async (recipient, headers) => send(await composeForward(email, recipient, headers)),
      reply: async (message) => send(await composeRaw(message, "reply")),
    },
    services.time.nowMs(),
  );
  await handle(services, module, email);
  return verdict;
}

async function handle(
  { unfinished }: MailServices,
  { env, email: handler, resolver }: MailModule,
  email: AgentEmail,
): Promise<void> {
  if (handler === undefined)
    return resolver === undefined
      ? ReceivedEmail.noRoute(email)
      : routeAgentEmail(email, env, { resolver });
  await handler(email, env, {
    waitUntil: (promise) => unfinished.add(promise),
    passThroughOnException: () => undefined,
  });
}

/** Rejects the recipient if the sender chose a bad address. Other failures may be temporary. */
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
  log.error(
    isOutside
      ? "a mail could not be processed; its sender will retry"
      : "the module's email failed",
    { from, to, error: isOutside ? String(error) : stackOf(error) },
  );
  return LATER;
}

/** True if the address names the missing agent. Else the module does, which can be repaired. */
const isSendersChoice = (error: unknown, to: string): boolean =>
  error instanceof UnknownAgentNamespace &&
  to.toLowerCase().startsWith(`${error.agentName.toLowerCase()}+`);
