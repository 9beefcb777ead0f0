/**
 * The port of a server that takes mail. `services/smtp/SmtpListener` implements it; `services/mail`
 * decides what becomes of each message.
 *
 * 1. The sender receives `Accepted` only as the answer to the whole message. The handler returns it
 *    only for a stored message, because from then on nobody else has it.
 * 2. A message past the size limit, or past the bytes that all connections may hold, is refused
 *    before it reaches the handler.
 */
import * as Context from "effect/Context";
import type * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { ListenFailed } from "../http/HttpServer.ts";

export interface IncomingMessage {
  /** Envelope sender; empty for a bounce. */
  readonly from: string;
  /** At least one. */
  readonly to: ReadonlyArray<string>;
  readonly raw: Uint8Array;
  readonly peer: string;
}

/** `code` is the enhanced status (RFC 3463), like `5.1.1`. */
export type MailAnswer =
  /** 250 */
  | { readonly _tag: "Accepted" }
  /** 550 */
  | { readonly _tag: "Rejected"; readonly code: string; readonly message: string }
  /** 451: the sender tries again. */
  | { readonly _tag: "Later"; readonly code: string; readonly message: string };

export interface MailHandlers {
  /** Before a message is taken from this peer. */
  readonly peer: (address: string) => MailAnswer;
  /** Before the message is sent: an address that nobody has is refused here. */
  readonly recipient: (address: string) => MailAnswer;
  /** Never rejects. */
  readonly message: (message: IncomingMessage) => Promise<MailAnswer>;
}

export interface MailServerOptions {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  /** How the server calls itself; default: the machine's name. */
  readonly name?: string;
  readonly messageBytesMax: number;
  /** The most bytes of all messages that are being received at once. */
  readonly bytesInFlightMax: number;
  readonly recipientsMax: number;
  readonly connectionsMax: number;
  readonly connectionsPerPeerMax: number;
  readonly idleTimeoutMs: number;
  /** PEM. With it STARTTLS is offered. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Only senders that log in may send. The login is requested over TLS only. */
  readonly auth?: { readonly user: string; readonly password: string };
}

export interface MailServerShape {
  /**
   * Listens until the scope closes: then messages that are being taken are answered, for some
   * seconds.
   */
  readonly listen: (
    options: MailServerOptions,
    handlers: MailHandlers,
  ) => Effect.Effect<{ readonly port: number }, ListenFailed, Scope.Scope>;
}

export class MailServer extends Context.Service<MailServer, MailServerShape>()(
  "agents/core/mail/MailServer",
) {}
