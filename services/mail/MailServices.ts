/**
 * The dependencies of the mail process as one record: the module, the ports and the bounds.
 * `runMail` builds it.
 */
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { EmailResolver } from "../../core/mail/EmailResolver.ts";
import type { EmailContext } from "../../core/mail/EmailRoute.ts";
import type { MailServerOptions } from "../../core/mail/MailServer.ts";
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import type { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/** What the mail process uses of the user's module. */
export interface MailModule {
  readonly env: Readonly<Record<string, unknown>>;
  /** The module's own handler. Undefined if the module declares routes, or takes no mail. */
  readonly email?: (
    message: unknown,
    env: Readonly<Record<string, unknown>>,
    context: EmailContext,
  ) => unknown;
  /** Resolves recipients by the declared routes. */
  readonly resolver?: EmailResolver;
  /** Returns false if no agent can have the address. Checked before the message is transferred. */
  readonly mayKnow: (recipient: string) => boolean;
}

export interface MailBounds extends Omit<MailServerOptions, "hostname" | "port"> {
  /** A peer that sends more receives a temporary error. */
  readonly messagesPerPeerPerMinute: number;
  /** Time limit of the module's handler. Past it, the sender receives a temporary error. */
  readonly handlerTimeoutMs: number;
}

export const MAIL_BOUNDS_DEFAULT: MailBounds = {
  /** The limit of the large providers. */
  messageBytesMax: 25 * 1024 * 1024,
  /** Ten of the largest messages: a mail process fits into half a gigabyte. */
  bytesInFlightMax: 250 * 1024 * 1024,
  /** The largest message takes that long on a line of 350 kbit/s. */
  messageTimeoutMs: 10 * 60_000,
  /** RFC 5321 requires at least 100. */
  recipientsMax: 100,
  connectionsMax: 500,
  /** Large providers send from many addresses, with a few connections each. */
  connectionsPerPeerMax: 20,
  idleTimeoutMs: 60_000,
  /** The rate of a busy relay. A flood is far above it. */
  messagesPerPeerPerMinute: 600,
  /** Below the idle timeout, so that the connection is still open for the answer. */
  handlerTimeoutMs: 50_000,
};

export interface MailServices {
  /** A function, because `agents dev` replaces the module while the process runs. */
  readonly module: () => MailModule;
  readonly transport: MailTransportShape;
  /** What the module's `email` passed to `waitUntil`. */
  readonly unfinished: UnfinishedWork;
  readonly time: TimeShape;
  readonly log: LogShape;
}
