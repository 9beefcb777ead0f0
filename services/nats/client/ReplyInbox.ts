/**
 * Receives the replies that this process awaits, through one wildcard subscription with integer
 * ids. A process has three: for the broker's replies (publish acks, the JetStream API), for hosts'
 * answers to calls, and for all other answers on the bus. A process that is asked on the bus learns
 * the address that it answers to and may publish to it; it cannot forge an ack at the first, and no
 * gateway learns the second (`NatsBus`). The client's own request function keeps a timer and
 * several promises for each request, which costs 40 % of the publishing rate.
 *
 * 1. Each request ends exactly once: by `reply` returning true, by `lost`, or by its cancel
 *    function.
 * 2. Requests in flight when the connection breaks, and those that the login may not make or may
 *    receive no reply to, are lost at once, not at their timeouts.
 * 3. Nothing is sent while the broker is unreachable (`notSent`), or past its limit (`tooLarge`).
 *    Only these are certainly not stored.
 * 4. A process that closes drains the subscription first. It still reads what the broker delivered
 *    before that, and a later sender learns from the broker that the process is gone.
 * 5. A reply that has arrived comes before its timeout, however late the process reads it.
 *
 * One interval checks timeouts and signals, only while a request is in flight. Feeds
 * `AckPublisher`, `JetStreamApi`, `StreamReader`, `NatsBus` and `RequestBatcher`, whose batches are
 * received here too.
 */
import type { Msg, MsgHdrs } from "@nats-io/nats-core";
import { NumberedTable, numberOf, numberText } from "../../../core/collections/NumberedTable.ts";
import { payloadBytesMax, type NatsConnectionShape } from "./NatsConnection.ts";
import { subscribe } from "./subscribe.ts";

/**
 * Why a request ended without its last reply. All but `notSent` and `tooLarge` leave open whether
 * it was received. `tooLarge`: it exceeds the limit of the server that is connected now, which may
 * be lower than that of the one before.
 */
export type Lost = "notSent" | "tooLarge" | "timedOut" | "disconnected" | "aborted" | "denied";

/** For messages: what the login lacks. */
export const notPermitted = (subject: string): string => `the login may not use ${subject}`;

/** Receives the outcome of one request. */
export interface Waiter {
  /** Returns true for the last reply. After false, the next reply has `timeoutMs` again. */
  readonly reply: (message: Msg) => boolean;
  /** No further reply is awaited. `subject`: what the login may not use, where it is denied. */
  readonly lost: (why: Lost, subject?: string) => void;
  /** The only reply, when it arrives in a batch. Undefined means that there was no listener. */
  readonly batchedReply?: (data: Uint8Array | undefined) => void;
}

export interface SendOptions {
  readonly timeoutMs: number;
  readonly headers?: HeaderBlock;
  readonly signal?: AbortSignal;
}

/** An encoded header block. */
export type HeaderBlock = Uint8Array;

interface Pending {
  readonly waiter: Waiter;
  /** Undefined: it is in a batch. */
  readonly subject: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  deadline: number;
}

/** The longest delay with which timeouts and aborts are noticed. No caller needs less. */
const SWEEP_MS = 25;
const EMPTY = new Uint8Array(0);
/** Takes the place of the id in the subject of a batch. It is not a number. */
export const BATCH_TOKEN = "-";

/** Encodes `["Name", "value"]` lines. Values must not contain CR or LF. */
export function headers(...lines: ReadonlyArray<readonly [string, string]>): HeaderBlock {
  let text = "NATS/1.0\r\n";
  for (const [name, value] of lines) text += `${name}: ${value}\r\n`;
  return Buffer.from(text + "\r\n", "latin1");
}

/** Wraps an encoded block for the client, which calls no method of `MsgHdrs` but `encode`. */
const clientHeaders = (block: HeaderBlock): MsgHdrs =>
  ({ encode: () => block }) as unknown as MsgHdrs;

/** A view of a message's data as a plain array: `slice` of Node's buffers does not copy. */
export const plain = (data: Uint8Array): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.length);

/** The broker's reply to a message for which there is no subscription. */
export const isNoResponders = (message: Msg): boolean =>
  message.headers?.code === 503 && message.data.length === 0;

export class ReplyInbox {
  /** Start of the subjects of all replies, without the last dot. */
  readonly address: string;
  /** Receives messages with `BATCH_TOKEN`. Set by `RequestBatcher`. */
  onBatch: ((message: Msg) => void) | undefined;
  private readonly prefix: string;
  private readonly pending = new NumberedTable<Pending>();
  private sweeper: NodeJS.Timeout | undefined;
  /**
   * True once the login may not receive the replies. The client has given up the subscription then,
   * so only a new process can receive them.
   */
  private isDenied = false;

  /** `address`: a subject of its own, from `newInbox` or `newAnswerInbox`. */
  constructor(
    private readonly connection: NatsConnectionShape,
    address: string,
  ) {
    this.address = address;
    this.prefix = `${this.address}.`;
    const subscription = subscribe(connection.client, `${this.prefix}*`, (error, message) => {
      if (error === null) this.receive(message);
      else connection.log("error", "replies cannot be received", { error: String(error) });
    });
    connection.onChange((up) => {
      if (!up) this.loseAll();
    });
    connection.onDenied((subject) => this.loseDenied(subject));
    connection.beforeClose(() => subscription.drain());
  }

  /** Sends `data` and passes every reply to `waiter`. The returned function cancels the request. */
  send(subject: string, data: Uint8Array, waiter: Waiter, options: SendOptions): () => void {
    const block = options.headers;
    if (this.connection.connected() && !this.fits(data.length + (block?.length ?? 0))) {
      waiter.lost("tooLarge");
      return () => undefined;
    }
    const id = this.expect(waiter, options, subject);
    if (id === undefined) return () => undefined;
    const reply = this.prefix + numberText(id);
    this.connection.client.publish(
      subject,
      data.length === 0 ? EMPTY : data,
      block === undefined ? { reply } : { reply, headers: clientHeaders(block) },
    );
    return () => void this.pending.take(id);
  }

  /**
   * Registers a request that the caller sends itself. Returns the id under which its replies come;
   * undefined when the broker is unreachable or its replies can't be received, and `waiter.lost`
   * has been called.
   */
  expect(waiter: Waiter, { timeoutMs, signal }: SendOptions, subject?: string): number | undefined {
    if (!this.connection.connected()) {
      waiter.lost("notSent");
      return undefined;
    }
    if (this.isDenied) {
      waiter.lost("denied", `${this.prefix}*`); // rule 2
      return undefined;
    }
    const id = this.pending.next();
    const deadline = performance.now() + timeoutMs;
    this.pending.set(id, { waiter, subject, timeoutMs, signal, deadline });
    // After the socket was read: a process that stood still has replies there.
    this.sweeper ??= setInterval(() => setImmediate(() => this.sweep()), SWEEP_MS);
    return id;
  }

  /** Whether the connected server accepts a message of so many bytes, headers included. */
  fits(bytes: number): boolean {
    return bytes <= payloadBytesMax(this.connection);
  }

  /** The options of a request that is under way; undefined when it has ended. */
  underWay(id: number): Pick<SendOptions, "signal"> | undefined {
    const entry = this.pending.get(id);
    return entry?.signal === undefined ? entry && {} : { signal: entry.signal };
  }

  /** Ends the request, whose reply came in a batch. Undefined when it has ended already. */
  take(id: number): Waiter | undefined {
    return this.pending.take(id)?.waiter;
  }

  /** Ends all requests whose waiters match, and returns these waiters. */
  takeAll(matches: (waiter: Waiter) => boolean): Waiter[] {
    const found: Waiter[] = [];
    for (const [id, { waiter }] of this.pending.entries())
      if (matches(waiter)) {
        this.pending.take(id);
        found.push(waiter);
      }
    return found;
  }

  /** Sends a message without a reply. It is dropped while the broker is unreachable. */
  sendOnly(subject: string, data: Uint8Array, block: HeaderBlock): void {
    if (!this.connection.connected()) return;
    this.connection.client.publish(subject, data, { headers: clientHeaders(block) });
  }

  private receive(message: Msg): void {
    const token = message.subject.slice(this.prefix.length);
    const id = numberOf(token);
    const entry = this.pending.get(id);
    if (entry === undefined && token !== BATCH_TOKEN) return; // came after its timeout
    try {
      if (entry === undefined) this.onBatch?.(message);
      else if (entry.waiter.reply(message)) this.pending.take(id);
      else entry.deadline = performance.now() + entry.timeoutMs;
    } catch (error) {
      this.pending.take(id);
      throw error;
    }
  }

  private sweep(): void {
    if (this.pending.size === 0) {
      clearInterval(this.sweeper);
      this.sweeper = undefined;
      return;
    }
    const now = performance.now();
    for (const [id, entry] of this.pending.entries()) {
      const aborted = entry.signal?.aborted === true;
      if (aborted || entry.deadline <= now) this.lose(id, aborted ? "aborted" : "timedOut");
    }
  }

  private loseAll(): void {
    for (const [id] of this.pending.entries()) this.lose(id, "disconnected");
  }

  /** The broker answers no request that it refuses, and sends no reply that it may not deliver. */
  private loseDenied(denied: string): void {
    const isReplies = denied === `${this.prefix}*`;
    this.isDenied ||= isReplies;
    for (const [id, { subject }] of this.pending.entries())
      if (isReplies || subject === denied) this.lose(id, "denied", denied);
  }

  /** Does nothing for a request that was cancelled meanwhile. */
  private lose(id: number, why: Lost, subject?: string): void {
    this.pending.take(id)?.waiter.lost(why, subject);
  }
}
