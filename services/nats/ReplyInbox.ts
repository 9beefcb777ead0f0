/**
 * Answers that this process awaits, through one wildcard subscription with integer ids. There are
 * three: for the broker's answers (acks of publishes, the JetStream API), for hosts' answers to
 * calls, and for all other answers on the bus. Whoever is asked on the bus learns the address that it
 * answers to, and may publish there. Nobody can forge an ack at the first, and no gateway learns the
 * second (`NatsBus`). The client's own request keeps a timer and several promises for each; that
 * costs 40 % of the publishing rate.
 *
 * 1. Each request ends exactly once: by `reply` returning true, by `lost`, or by its cancel function.
 * 2. What is in flight when the connection breaks is lost at once, not at its timeout.
 * 3. Nothing is sent while the broker is away: that is `notSent`, the only certain "not stored".
 * 4. Whoever sends here learns of the process's end from the broker: what it delivered before that is still read.
 *
 * Timeouts and signals are looked at by one interval, only while something is in flight.
 * Feeds: `AckPublisher`, `JetStreamApi`, `StreamReader`, `NatsBus`, and `RequestBatcher`, whose messages come here too.
 */
import type { Msg, MsgHdrs } from "@nats-io/nats-core";
import { NumberedTable, numberOf, numberText } from "../../core/collections/NumberedTable.ts";
import type { NatsConnectionShape } from "./NatsConnection.ts";

export type Lost = "notSent" | "timedOut" | "disconnected" | "aborted";

export interface Waiter {
  /** Returns true when this was the last answer; false gives the next one `timeoutMs` again. */
  readonly reply: (message: Msg) => boolean;
  readonly lost: (why: Lost) => void;
  /** The one answer, when it came in a parcel. Undefined: nobody was there. */
  readonly inParcel?: (data: Uint8Array | undefined) => void;
}

export interface SendOptions {
  readonly timeoutMs: number;
  readonly headers?: HeaderBlock;
  readonly signal?: AbortSignal;
}

/** A header block that is already bytes. */
export type HeaderBlock = Uint8Array;

interface Pending {
  readonly waiter: Waiter;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  deadline: number;
}

/** Timeouts and aborts are noticed this late at most; nobody times anything by them. */
const SWEEP_MS = 25;
const EMPTY = new Uint8Array(0);
/** In the place of a number, for parcels: it is none. */
export const PARCEL_TOKEN = "-";

/** `headers(["Name", "value"], …)`: values must be free of CR and LF. */
export function headers(...lines: ReadonlyArray<readonly [string, string]>): HeaderBlock {
  let text = "NATS/1.0\r\n";
  for (const [name, value] of lines) text += `${name}: ${value}\r\n`;
  return Buffer.from(text + "\r\n", "latin1");
}

/** The publish options of the client for ready-made headers: of `MsgHdrs` it calls only `encode`. */
export const clientHeaders = (block: HeaderBlock): MsgHdrs =>
  ({ encode: () => block }) as unknown as MsgHdrs;

/** A message's data as a plain array: the client gives Node buffers, whose `slice` copies nothing. */
export const plain = (data: Uint8Array): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.length);

export const isNoResponders = (message: Msg): boolean =>
  message.headers?.code === 503 && message.data.length === 0;

export class ReplyInbox {
  private readonly connection: NatsConnectionShape;
  /** Start of the subjects of all answers, without the last dot. */
  readonly address: string;
  /** Set by who reads parcels. */
  onParcel: ((message: Msg) => void) | undefined;
  private readonly prefix: string;
  private readonly pending = new NumberedTable<Pending>();
  private sweeper: NodeJS.Timeout | undefined;

  /** `address`: a subject of its own, `newInbox` or `newAnswerInbox`. */
  constructor(connection: NatsConnectionShape, address: string) {
    this.connection = connection;
    this.address = address;
    this.prefix = `${this.address}.`;
    const subscription = connection.client.subscribe(`${this.prefix}*`, {
      callback: (error, message) => {
        if (error === null) this.receive(message);
        else connection.log("error", "replies can't be received", { error: String(error) });
      },
    });
    connection.onChange((up) => {
      if (!up) this.loseAll();
    });
    connection.beforeClose(() => subscription.drain());
  }

  /** Sends `data` and gives every answer to `waiter`. The returned function forgets the request. */
  send(subject: string, data: Uint8Array, waiter: Waiter, options: SendOptions): () => void {
    const id = this.expect(waiter, options);
    if (id === undefined) return () => undefined;
    const reply = this.prefix + numberText(id);
    const block = options.headers;
    this.connection.client.publish(
      subject,
      data.length === 0 ? EMPTY : data,
      block === undefined ? { reply } : { reply, headers: clientHeaders(block) },
    );
    return () => void this.pending.take(id);
  }

  /** For a request that goes another way: the number that its answers come with. Undefined: it is lost already. */
  expect(waiter: Waiter, { timeoutMs, signal }: SendOptions): number | undefined {
    if (!this.connection.connected()) {
      waiter.lost("notSent");
      return undefined;
    }
    const id = this.pending.next();
    this.pending.set(id, { waiter, timeoutMs, signal, deadline: performance.now() + timeoutMs });
    this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS);
    return id;
  }

  /** Ends the wait for an answer that came another way. */
  take(id: number): Waiter | undefined {
    return this.pending.take(id)?.waiter;
  }

  /** Ends it for all of a kind. */
  takeAll(isOfKind: (waiter: Waiter) => boolean): Waiter[] {
    const found: Waiter[] = [];
    for (const [id, { waiter }] of this.pending.entries())
      if (isOfKind(waiter)) {
        this.pending.take(id);
        found.push(waiter);
      }
    return found;
  }

  /** Sends what nobody answers; dropped while the broker is away. */
  sendOnly(subject: string, data: Uint8Array, block: HeaderBlock): void {
    if (!this.connection.connected()) return;
    this.connection.client.publish(subject, data, { headers: clientHeaders(block) });
  }

  private receive(message: Msg): void {
    const token = message.subject.slice(this.prefix.length);
    const id = numberOf(token);
    const entry = this.pending.get(id);
    if (entry === undefined && token !== PARCEL_TOKEN) return; // came after its timeout
    try {
      if (entry === undefined) this.onParcel?.(message);
      else if (entry.waiter.reply(message)) this.pending.take(id);
      else entry.deadline = performance.now() + entry.timeoutMs;
    } catch (error) {
      this.pending.take(id);
      // A throw here would end the client's reading loop without a word: make it fatal instead.
      queueMicrotask(() => {
        throw error;
      });
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

  /** Unless it has been cancelled meanwhile. */
  private lose(id: number, why: Lost): void {
    this.pending.take(id)?.waiter.lost(why);
  }
}
