/**
 * Joins mail with its adapters for `joinProcess`: the relay that every process may send through,
 * and the SMTP listener.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import { MailTransport } from "../../core/mail/MailTransport.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Time } from "../../core/time/Time.ts";
import { runMail } from "../mail/runMail.ts";
import type { MailModule } from "../mail/MailServices.ts";
import { unsentMail } from "../mail/unsentMail.ts";
import { handlesMail } from "../module/mailModule.ts";
import { gatedDrop, gatedTransport } from "../node/gatedMail.ts";
import { layer as listenerLayer } from "../smtp/SmtpListener.ts";
import { smtpRelayLayer } from "../smtp/SmtpRelay.ts";
import { SMTP_PORT_DEFAULT, type ProcessSettings } from "./ProcessSettings.ts";
import { defined } from "../../core/collections/defined.ts";

export function mailLayers({ role, mail, env, sealed, log }: ProcessSettings) {
  // A `.env` file beside the module may also name the relay.
  const named = typeof env["SMTP_URL"] === "string" ? env["SMTP_URL"] : undefined;
  const relayUrl = mail.relayUrl ?? (named || undefined);
  const unsentBecause =
    sealed !== undefined
      ? "because of --from"
      : role === "dev" && relayUrl === undefined
        ? "because no relay is configured (SMTP_URL)"
        : undefined;
  const transport =
    unsentBecause === undefined
      ? smtpRelayLayer(relayUrl)
      : Layer.succeed(MailTransport, unsentMail(log, unsentBecause));
  return Layer.merge(listenerLayer, transport);
}

/** The mail bindings of a module's code, for `bindEnv`: storing mail for agents, and sending. */
export const mailOfEnv = Effect.gen(function* () {
  const time = yield* Time;
  const transport = yield* MailTransport;
  return {
    drop: gatedDrop(makeMailDrop({ inbox: yield* Inbox, time })),
    binding: new EmailBinding(gatedTransport(transport), time),
  };
});

/**
 * Starts the SMTP listener and returns its port. Returns undefined where the process takes no mail:
 * in every role but `mail`, and `dev` where neither an option nor the module asks for mail.
 */
export const serveMail = (settings: ProcessSettings, module: () => MailModule) =>
  Effect.gen(function* () {
    const { role, mail, hostname } = settings;
    const inDev = role === "dev" && (mail.port !== undefined || handlesMail(settings.module));
    if (role !== "mail" && !inDev) return undefined;
    const { messageBytesMax, messagesPerPeerPerMinute, tls } = mail;
    // `dev` has no certificate. For `agents mail` the command line has checked that a login has
    // one.
    const auth = role === "mail" ? mail.auth : undefined;
    const { port } = yield* runMail({
      hostname,
      port: mail.port ?? SMTP_PORT_DEFAULT,
      module,
      bounds: defined({ messageBytesMax, messagesPerPeerPerMinute, tls, auth }),
    });
    return port;
  });
