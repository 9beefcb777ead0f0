/** Joins mail with its adapters, for `joinProcess`: the relay that every process may send by, and the listener. */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import { MailTransport } from "../../core/mail/MailTransport.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Time } from "../../core/time/Time.ts";
import { runMail } from "../mail/runMail.ts";
import type { MailModule } from "../mail/MailServices.ts";
import { handlesMail } from "../module/mailModule.ts";
import { gatedDrop, gatedTransport } from "../node/gatedMail.ts";
import { layer as listenerLayer } from "../smtp/SmtpListener.ts";
import { smtpRelayLayer } from "../smtp/SmtpRelay.ts";
import { usage } from "../cli/CliError.ts";
import type { ProcessSettings } from "./Joins.ts";
import { SMTP_PORT_DEFAULT } from "../cli/options.ts";

export function mailLayers({ mail, env }: ProcessSettings) {
  // A `.env` file beside the module may name the relay, too.
  const named = typeof env["SMTP_URL"] === "string" ? env["SMTP_URL"] : undefined;
  return Layer.merge(listenerLayer, smtpRelayLayer(mail.relayUrl ?? (named || undefined)));
}

/** How a module's code hands mail to agents, and sends it: what `bindEnv` takes. */
export const mailOfEnv = Effect.gen(function* () {
  const time = yield* Time;
  const transport = yield* MailTransport;
  return {
    drop: gatedDrop(makeMailDrop({ inbox: yield* Inbox, time })),
    binding: new EmailBinding(gatedTransport(transport), time),
  };
});

/** The listener's port; undefined where this process takes no mail: `dev` does where its module does. */
export const serveMail = (settings: ProcessSettings, module: () => MailModule) =>
  Effect.gen(function* () {
    const { role, mail, hostname } = settings;
    const inDev = role === "dev" && (mail.port !== undefined || handlesMail(settings.module));
    if (role !== "mail" && !inDev) return undefined;
    const { messageBytesMax, messagesPerPeerPerMinute, tls } = mail;
    // Of `agents mail` only: in development there is no certificate to ask for a password under.
    const auth = role === "mail" ? mail.auth : undefined;
    if (auth !== undefined && tls === undefined)
      throw usage(
        "AGENTS_SMTP_USER and AGENTS_SMTP_PASS need --tls-cert and --tls-key: a password is never asked for in the clear",
      );
    const { port } = yield* runMail({
      hostname,
      port: mail.port ?? SMTP_PORT_DEFAULT,
      module,
      bounds: {
        ...(messageBytesMax === undefined ? {} : { messageBytesMax }),
        ...(messagesPerPeerPerMinute === undefined ? {} : { messagesPerPeerPerMinute }),
        ...(tls === undefined ? {} : { tls }),
        ...(auth === undefined ? {} : { auth }),
      },
    });
    return port;
  });
