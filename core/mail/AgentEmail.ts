/**
 * A message as modules and agents receive it (`protocol.md` §8): the envelope, the headers and the
 * raw bytes. The body is not parsed: code that needs its parts parses `getRaw()`.
 *
 * The same class serves a module's `email(message, env)`, which runs while SMTP waits, and an
 * agent's `onEmail`, which runs long after SMTP was answered. What `setReject`, `forward` and
 * `reply` do differs between them, and is passed in as `EmailActions`.
 */
import { readHeaders } from "./mailHead.ts";

/** A complete message, which `reply` sends. */
export interface RawEmail {
  readonly from: string;
  readonly to: string;
  readonly raw: string | Uint8Array | ReadableStream<Uint8Array>;
}

/** A received message, as `onEmail` and a module's `email` receive it. */
export interface AgentEmail {
  /** Envelope sender; empty for a bounce. */
  readonly from: string;
  /** Envelope recipient. A message with several recipients is one `AgentEmail` each. */
  readonly to: string;
  /** Values as they were sent, but unfolded; encoded words are not decoded. */
  readonly headers: Headers;
  /** Bytes. */
  readonly rawSize: number;
  /** The message's bytes, as they were received. */
  getRaw(): Promise<Uint8Array>;
  /** Refuses the message: in a module's `email` by SMTP, in `onEmail` by a mail to the sender. */
  setReject(reason: string): void;
  /** Forwards it unchanged; `headers` may only add `X-` headers. */
  forward(recipient: string, headers?: Headers): Promise<void>;
  /**
   * Sends an answer to the sender, in the message's thread. Rejects with `TypeError` for a message
   * that can't be sent.
   */
  reply(message: RawEmail): Promise<void>;
  /** True when `createSecureReplyEmailResolver` routed it. */
  readonly _secureRouted?: boolean;
}

interface EmailActions {
  readonly reject: (reason: string) => void;
  readonly forward: (recipient: string, headers: Headers | undefined) => Promise<void>;
  readonly reply: (message: RawEmail) => Promise<void>;
  /** `routeAgentEmail` found no agent for it. */
  readonly noRoute?: () => void;
}

/** What is stored of a message for an agent. */
export interface MailInput {
  readonly from: string;
  readonly to: string;
  readonly raw: Uint8Array;
  readonly secureRouted: boolean;
}

export class ReceivedEmail implements AgentEmail {
  readonly from: string;
  readonly to: string;
  readonly headers: Headers;
  readonly rawSize: number;
  readonly _secureRouted?: boolean;
  readonly #raw: Uint8Array;
  readonly #actions: EmailActions;

  /** When it arrived, by the clock of the process that accepted it; undefined if unknown. */
  readonly #timeMs: number | undefined;

  constructor({ from, to, raw, secureRouted }: MailInput, actions: EmailActions, timeMs?: number) {
    this.#timeMs = timeMs;
    this.from = from;
    this.to = to;
    this.headers = readHeaders(raw);
    this.rawSize = raw.length;
    if (secureRouted) this._secureRouted = true;
    this.#raw = raw;
    this.#actions = actions;
  }

  /** Returns a copy, so that the message can't be changed. */
  async getRaw(): Promise<Uint8Array> {
    return new Uint8Array(this.#raw); // a Buffer's own `slice` copies nothing
  }

  /** The message as a stream, for modules that read one. */
  get raw(): ReadableStream<Uint8Array> {
    return new Blob([this.#raw as Uint8Array<ArrayBuffer>]).stream();
  }

  setReject(reason: string): void {
    this.#actions.reject(String(reason));
  }
  forward(recipient: string, headers?: Headers): Promise<void> {
    return this.#actions.forward(recipient, headers);
  }
  reply(message: RawEmail): Promise<void> {
    return this.#actions.reply(message);
  }

  /**
   * For the runtime: the bytes that `getRaw` copies, which the reader must not change. A `getRaw`
   * that the module has replaced is called instead.
   */
  static async rawOf(email: AgentEmail): Promise<Uint8Array> {
    const isOwn = email instanceof ReceivedEmail && !Object.hasOwn(email, "getRaw");
    return isOwn ? email.#raw : email.getRaw();
  }

  /** For the runtime: when it arrived, milliseconds since the epoch. */
  static timeMs(email: AgentEmail): number | undefined {
    return email instanceof ReceivedEmail ? email.#timeMs : undefined;
  }

  /** For the runtime: records that no agent accepts this message. */
  static noRoute(email: AgentEmail): void {
    if (email instanceof ReceivedEmail) email.#actions.noRoute?.();
  }
}

/** The bytes of a raw message in any of its forms. */
export async function rawBytes(raw: RawEmail["raw"]): Promise<Uint8Array> {
  if (typeof raw === "string") return new TextEncoder().encode(raw);
  if (raw instanceof Uint8Array) return raw;
  return new Uint8Array(
    await new Response(raw as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
  );
}
