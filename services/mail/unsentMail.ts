/**
 * A transport that sends nothing: mail counts as sent and is logged. For processes that must not
 * send (`agents dev --from`) and for `agents dev` without a relay, where the mails of a module that
 * is being tried out would otherwise become dead letters.
 */
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";

/** `why` ends the sentence "a mail was not sent, …". */
export const unsentMail = (log: Pick<LogShape, "info">, why: string): MailTransportShape => ({
  configured: true,
  send: async ({ to, envelope, subject }) => {
    const receivers = envelope?.to ?? to.map(({ address }) => address);
    log.info(`a mail was not sent, ${why}`, { to: receivers.join(","), subject });
    return { _tag: "Sent", refused: [], deferred: [] };
  },
});
