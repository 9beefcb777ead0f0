/**
 * The port of a server that receives mail. `services/smtp/SmtpListener` implements it;
 * `services/mail` decides what happens to each message.
 *
 * 1. `Accepted` is sent only in answer to a whole message. The handler returns it only once the
 *    message is stored, because the sender then discards its copy.
 * 2. A message that exceeds the size limit, or the bytes that all connections may hold, is refused
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
  /** The sender's address as a key of limits (`addressKeyOf`). */
  readonly peer: string;
}

/** `code` is the enhanced status (RFC 3463), such as `5.1.1`. */
export type MailAnswer =
  /** 250 */
  | { readonly _tag: "Accepted" }
  /** 550 */
  | { readonly _tag: "Rejected"; readonly code: string; readonly message: string }
  /** 451: the sender tries again. */
  | { readonly _tag: "Later"; readonly code: string; readonly message: string };

export interface MailHandlers {
  /** Called before a message is accepted from this peer, with its key. */
  readonly peer: (peer: string) => MailAnswer;
  /** Called before the message is sent; refuses an unknown address. */
  readonly recipient: (address: string) => MailAnswer;
  /** Never rejects. */
  readonly message: (message: IncomingMessage) => Promise<MailAnswer>;
}

export interface MailServerOptions {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  /** The name in the server's greeting; default: the machine's name. */
  readonly name?: string;
  readonly messageBytesMax: number;
  /** The most bytes of all messages being received. Of one peer's: half, or one message. */
  readonly bytesInFlightMax: number;
  /**
   * A message that is not complete by then receives a temporary error, and its room is free. After
   * a further `idleTimeoutMs`, its connection is closed. So is one on which none comes.
   */
  readonly messageTimeoutMs: number;
  readonly recipientsMax: number;
  readonly connectionsMax: number;
  readonly connectionsPerPeerMax: number;
  readonly idleTimeoutMs: number;
  /** PEM. Enables STARTTLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Requires senders to log in. The login is offered over TLS only. */
  readonly auth?: { readonly user: string; readonly password: string };
}

export interface MailServerShape {
  /** Listens until the scope closes. Messages on their way are answered for some seconds more. */
  readonly listen: (
    options: MailServerOptions,
    handlers: MailHandlers,
  ) => Effect.Effect<{ readonly port: number }, ListenFailed, Scope.Scope>;
}

export class MailServer extends Context.Service<MailServer, MailServerShape>()(
  "agents/core/mail/MailServer",
) {}
