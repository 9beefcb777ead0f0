/** What the mail process stands on, as one record: the module, ports, bounds. `runMail` builds it; tests too. */
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { EmailResolver } from "../../core/mail/EmailResolver.ts";
import type { MailServerOptions } from "../../core/mail/MailServer.ts";
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/** The third argument of a module's `email`. */
export interface MailContext {
  readonly waitUntil: (promise: Promise<unknown>) => void;
  readonly passThroughOnException: () => void;
}

/** What a module gives to mail. A function: `agents dev` replaces the module while it runs. */
export interface MailModule {
  readonly env: Readonly<Record<string, unknown>>;
  /** The module's own handler; undefined where it has routes, or takes no mail. */
  readonly email?: (
    message: unknown,
    env: Readonly<Record<string, unknown>>,
    context: MailContext,
  ) => unknown;
  /** Of declared routes. */
  readonly resolver?: EmailResolver;
  /** May the address be somebody's? Asked before the message is sent. */
  readonly mayKnow: (recipient: string) => boolean;
}

export interface MailBounds extends Omit<MailServerOptions, "hostname" | "port"> {
  /** A peer that sends more is told to come later. */
  readonly messagesPerPeerPerMinute: number;
  /** For the module's handler; past it the sender is told to come again. */
  readonly handlerTimeoutMs: number;
}

export const MAIL_BOUNDS_DEFAULT: MailBounds = {
  /** What the large providers let through. */
  messageBytesMax: 25 * 1024 * 1024,
  /** Ten of the largest: a mail process fits into half a gigabyte. */
  bytesInFlightMax: 250 * 1024 * 1024,
  /** RFC 5321 asks for 100 at least. */
  recipientsMax: 100,
  connectionsMax: 500,
  /** Large providers send by many addresses, a few connections each. */
  connectionsPerPeerMax: 20,
  idleTimeoutMs: 60_000,
  /** A busy relay's rate; a flood is far above it. */
  messagesPerPeerPerMinute: 600,
  /** Below the idle timeout: the connection is still there to be answered. */
  handlerTimeoutMs: 50_000,
};

export interface MailServices {
  readonly module: () => MailModule;
  readonly transport: MailTransportShape;
  readonly time: TimeShape;
  readonly log: LogShape;
}
