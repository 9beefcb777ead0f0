/**
 * Receives mail by SMTP: implements `core/mail/MailServer` on the `smtp-server` package, which is
 * loaded when a process listens. It speaks the protocol and enforces its limits. The handlers
 * decide about each message.
 *
 * 1. Handlers receive whole messages only, never one that was cut off.
 * 2. The reply 250 is sent for a handler's `Accepted` and for nothing else.
 * 3. The bytes of incoming messages are bounded over all connections, and for each peer. Past the
 *    bound, no message is begun, and one whose next part has no room, or that takes too long, is
 *    dropped at once. Its sender receives a temporary error.
 * 4. Only messages keep a connection open: one whose client sends none within the time of a message
 *    is closed, whatever commands it sends.
 * 5. Each accepted recipient receives the message, also where two differ only in case: agents have
 *    names in which case counts. The package keeps the last one of such addresses.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { SMTPServer, SMTPServerDataStream, SMTPServerSession } from "smtp-server";
import { BodyBuffer } from "../../core/http/BodyBuffer.ts";
import { addressKeyOf } from "../../core/http/clientAddress.ts";
import { hostAndPort } from "../../core/http/hostAndPort.ts";
import { ListenFailed } from "../../core/http/HttpServer.ts";
import {
  MailServer,
  type MailAnswer,
  type MailHandlers,
  type MailServerOptions,
  type MailServerShape,
} from "../../core/mail/MailServer.ts";
import { BytesInFlight } from "./BytesInFlight.ts";

/** How long closing waits for messages in transfer. Storing them has a deadline of its own. */
const CLOSE_TIMEOUT_MS = 5_000;
/** SMTP reply codes for the answers of handlers. */
const REPLY_CODES = { Rejected: 550, Later: 451 } as const;

const busy = (message: string): MailAnswer => ({ _tag: "Later", code: "4.3.2", message });
const TOOK_TOO_LONG = "The message took too long";
const SENT_NOTHING = "No message has come for too long";
const TOO_LONG = busy(TOOK_TOO_LONG);
const TOO_MUCH = busy("Too much mail at once");
const TOO_MANY_RECIPIENTS = {
  _tag: "Later",
  code: "4.5.3",
  message: "Too many recipients",
} as const;
const TOO_LARGE = { _tag: "Rejected", code: "5.3.4", message: "The message is too large" } as const;

/** Those that RFC 5321 wants in place of `REPLY_CODES`. */
const SPECIAL_CODES: ReadonlyMap<MailAnswer, number> = new Map<MailAnswer, number>([
  [TOO_LARGE, 552],
  [TOO_MANY_RECIPIENTS, 452],
]);

type Reply = (error?: Error | null) => void;

/** Makes the error from which `smtp-server` takes its reply. Undefined for 250. */
function errorOf(answer: MailAnswer): Error | undefined {
  if (answer._tag === "Accepted") return undefined;
  // The module's text becomes one short line.
  const text = `${answer.code} ${shortened(answer.message.replace(/\s+/g, " "))}`;
  const responseCode = SPECIAL_CODES.get(answer) ?? REPLY_CODES[answer._tag];
  return Object.assign(new Error(text), { responseCode });
}

/** RFC 5321: a reply line has at most 512 octets. */
const REPLY_BYTES_MAX = 400;

/** Cuts text at whole characters. */
function shortened(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= REPLY_BYTES_MAX) return text;
  return new TextDecoder().decode(bytes.subarray(0, REPLY_BYTES_MAX), { stream: true });
}

class Listener {
  private readonly peers = new Map<string, number>();
  /** Each closes the connection of its session (`closeLater`). */
  private readonly closings = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  /** The recipients of the messages under way (rule 5), by their envelopes. */
  private readonly recipients = new WeakMap<SMTPServerSession["envelope"], Set<string>>();
  private readonly inFlight: BytesInFlight;
  private server: SMTPServer | undefined;

  constructor(
    private readonly options: MailServerOptions,
    private readonly handlers: MailHandlers,
  ) {
    this.inFlight = new BytesInFlight(options.bytesInFlightMax, options.messageBytesMax);
  }

  async listen(): Promise<{ readonly server: SMTPServer; readonly port: number }> {
    const { SMTPServer: Server } = await import("smtp-server");
    const { options } = this;
    const { tls, auth } = options;
    const server = new Server({
      ...(options.name === undefined ? {} : { name: options.name }),
      banner: "agents",
      size: options.messageBytesMax,
      rejectOversized: true,
      maxClients: options.connectionsMax,
      socketTimeout: options.idleTimeoutMs,
      closeTimeout: CLOSE_TIMEOUT_MS,
      disableReverseLookup: true,
      logger: false,
      authOptional: auth === undefined,
      authMethods: ["PLAIN", "LOGIN"],
      disabledCommands: [
        ...(tls === undefined ? ["STARTTLS"] : []),
        ...(auth === undefined ? ["AUTH"] : []),
      ],
      ...tls,
      onConnect: (session, reply) => this.connect(session, reply),
      onClose: (session) => this.closed(session),
      onAuth: (given, _session, reply) => {
        const right =
          auth !== undefined &&
          isSame(given.username, auth.user) &&
          isSame(given.password, auth.password);
        reply(right ? null : new Error("Wrong user or password"), { user: auth?.user });
      },
      onMailFrom: (_address, session, reply) => reply(this.begin(session)),
      onRcptTo: ({ address }, session, reply) => reply(this.addRecipient(session, address)),
      onData: (stream, session, reply) => void this.take(stream, session, reply),
    });
    this.server = server;
    // Errors of single connections need no handling.
    server.on("error", () => undefined);
    const port = await new Promise<number>((resolve, reject) => {
      const net = server.listen(options.port, options.hostname);
      net.once("error", reject);
      net.once("listening", () => resolve((net.address() as { readonly port: number }).port));
    });
    return { server, port };
  }

  private connect(session: SMTPServerSession, reply: Reply): void {
    this.closeLater(session, SENT_NOTHING);
    const peer = peerOf(session);
    const open = (this.peers.get(peer) ?? 0) + 1;
    this.peers.set(peer, open);
    const full = open > this.options.connectionsPerPeerMax;
    const error = errorOf(busy("Too many connections from your address"));
    reply(full ? Object.assign(error!, { responseCode: 421 }) : null);
  }

  private closed(session: SMTPServerSession): void {
    this.keepOpen(session);
    const peer = peerOf(session);
    const left = (this.peers.get(peer) ?? 1) - 1;
    if (left > 0) this.peers.set(peer, left);
    else this.peers.delete(peer);
  }

  /** Rule 4, and for a message that goes on without an end. A later call replaces it. */
  private closeLater(session: SMTPServerSession, why: string): void {
    const { messageTimeoutMs, idleTimeoutMs } = this.options;
    this.keepOpen(session);
    const late = setTimeout(() => this.end(session, why), messageTimeoutMs + idleTimeoutMs);
    this.closings.set(session, late.unref());
  }

  private keepOpen(session: SMTPServerSession): void {
    clearTimeout(this.closings.get(session));
  }

  private begin(session: SMTPServerSession): Error | undefined {
    const peer = peerOf(session);
    // Rule 3: checked before the transfer, so that the sender does not transfer the message twice.
    if (!this.inFlight.hasRoom(peer, 1)) return errorOf(TOO_MUCH);
    return errorOf(this.handlers.peer(peer));
  }

  /** Returns the refusal, or undefined. */
  private addRecipient({ envelope }: SMTPServerSession, address: string): Error | undefined {
    const recipients = this.recipients.get(envelope) ?? new Set<string>();
    this.recipients.set(envelope, recipients);
    if (recipients.size >= this.options.recipientsMax && !recipients.has(address))
      return errorOf(TOO_MANY_RECIPIENTS);
    const refusal = errorOf(this.handlers.recipient(address));
    if (refusal === undefined) recipients.add(address); // rule 5
    return refusal;
  }

  private async take(
    stream: SMTPServerDataStream,
    session: SMTPServerSession,
    reply: Reply,
  ): Promise<void> {
    const { mailFrom } = session.envelope;
    const peer = peerOf(session);
    let answer: MailAnswer = busy("Internal error");
    const held = { bytes: 0 };
    try {
      const raw = await this.read(stream, session, held);
      if (raw === undefined) return; // rule 1: the sender has gone
      answer =
        "_tag" in raw
          ? raw
          : await this.handlers.message({
              from: mailFrom === false ? "" : mailFrom.address,
              to: [...this.recipients.get(session.envelope)!],
              raw,
              peer,
            });
    } finally {
      this.inFlight.add(peer, -held.bytes);
      this.closeLater(session, SENT_NOTHING);
      reply(errorOf(answer) ?? null);
    }
  }

  /** Closes the connection of a session. */
  private end(session: SMTPServerSession, why: string): void {
    for (const connection of this.server?.connections ?? [])
      if (connection.session === session) connection.send(421, why);
  }

  /**
   * Resolves with undefined if the message was cut off, and with the answer if it is too large, has
   * no room, or took too long.
   */
  private async read(
    stream: SMTPServerDataStream,
    session: SMTPServerSession,
    held: { bytes: number },
  ): Promise<Uint8Array | MailAnswer | undefined> {
    const { messageBytesMax, messageTimeoutMs } = this.options;
    const peer = peerOf(session);
    // Not a list of parts: a line that begins with a dot is one, and costs fifty times its bytes.
    const message = new BodyBuffer(messageBytesMax);
    let refusal: MailAnswer | undefined;
    const refuse = (why: MailAnswer): void => {
      refusal = why;
      // The rest is read, so that the sender receives the reply, and discarded.
      this.inFlight.add(peer, -held.bytes);
      held.bytes = 0;
      message.free();
    };
    const late = setTimeout(() => refusal ?? refuse(TOO_LONG), messageTimeoutMs);
    this.closeLater(session, TOOK_TOO_LONG);
    const whole = await new Promise<boolean>((resolve) => {
      stream.on("data", (part: Uint8Array) => {
        if (refusal !== undefined) return;
        if (held.bytes + part.length > messageBytesMax) return refuse(TOO_LARGE);
        if (!this.inFlight.hasRoom(peer, part.length)) return refuse(TOO_MUCH);
        held.bytes += part.length;
        this.inFlight.add(peer, part.length);
        message.add(part);
      });
      stream.once("end", () => resolve(true));
      stream.once("close", () => resolve(false));
      stream.once("error", () => resolve(false));
    });
    clearTimeout(late);
    this.keepOpen(session);
    if (!whole) return undefined;
    if (stream.sizeExceeded) return TOO_LARGE;
    return refusal ?? message.take().slice();
  }
}

/** The sender as a key of limits. A connection that ends before it is greeted has no address. */
const peerOf = ({ remoteAddress }: Partial<SMTPServerSession>): string =>
  addressKeyOf(remoteAddress ?? "");

/** Compares in constant time, for any lengths. */
function isSame(given: string | null | undefined, wanted: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(given ?? ""), hash(wanted));
}

export const smtpListener: MailServerShape = {
  listen: (options, handlers) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.tryPromise({
          try: () => new Listener(options, handlers).listen(),
          catch: (error) => listenFailed(options, error as NodeJS.ErrnoException),
        }),
        ({ server }) =>
          Effect.promise(() => new Promise<void>((closed) => server.close(() => closed()))),
      ),
      ({ port }) => ({ port }),
    ),
};

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use by another process: stop it, or choose another port (--smtp-port)",
  EACCES:
    "needs privileges that this user does not have: choose a port of 1024 or above, and forward port 25 to it",
  EADDRNOTAVAIL: "is not an address of this machine",
};

function listenFailed({ hostname, port }: MailServerOptions, error: NodeJS.ErrnoException) {
  const why = REASONS[error.code ?? ""] ?? `can't be listened on for mail (${error.message})`;
  return new ListenFailed({ port, message: `${hostAndPort(hostname, port)} ${why}` });
}

export const layer: Layer.Layer<MailServer> = Layer.succeed(MailServer, smtpListener);
