/**
 * A WebSocket client of an agent, as the agent's code sees it. The socket itself lives at a
 * gateway; this object lives as long as the agent is in memory and is made again from the gateway's
 * record when it wakes: `id`, `uri`, `tags`, `state` and the flags survive, fields of its own do
 * not.
 *
 * Sends and closes pass the output gate: they leave after the writes made before them are stored.
 */
import type { SocketAttachment, SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { assertWireValue } from "../call/wireValue.ts";
import { SparseMap, SparseSet } from "../collections/sparse.ts";

/** A frame: text, or bytes. */
export type ConnectionMessage = string | ArrayBuffer | ArrayBufferView;

/** The way from a connection to its socket. Implemented by the agent's runtime. */
export interface ConnectionOutlet {
  readonly send: (connection: Connection, message: ConnectionMessage) => void;
  readonly close: (connection: Connection, code: number, reason: string) => void;
  readonly attach: (connection: Connection) => void;
}

/** Tags of one connection, its id included, and the length of one (`protocol.md` §0, limits). */
const TAGS_MAX = 10;
export const TAG_LENGTH_MAX = 256;

/**
 * UTF-8 bytes of a connection's state as JSON: a host that takes over the agent receives it in one
 * message, with the socket's URL, and a broker's messages have 1 MB.
 */
const STATE_BYTES_MAX = 262_144;

/** Close codes that a frame can't carry: they describe a close without one (RFC 6455 §7.4.1). */
const CODES_UNSENDABLE = new Set([1004, 1005, 1006, 1015]);
const CODE_MIN = 1000; // 0-999 are not used by the protocol
const CODE_MAX = 4999; // the end of those for applications
/** UTF-8 bytes of a close reason: a control frame's 125 less the code. */
const REASON_BYTES_MAX = 123;

/** One client's socket. `state`, `tags`, flags outlive hibernation and moves, not a reconnect. */
export class Connection<TState = unknown> {
  /** `readyState` of a WebSocket before it opens. */
  static readonly CONNECTING = 0;
  /** `readyState` of an open connection. */
  static readonly OPEN = 1;
  /** `readyState` after `close()`. */
  static readonly CLOSING = 2;
  /** `readyState` once the socket has closed. */
  static readonly CLOSED = 3;
  /** As the static member. */
  readonly CONNECTING = Connection.CONNECTING;
  /** As the static member. */
  readonly OPEN = Connection.OPEN;
  /** As the static member. */
  readonly CLOSING = Connection.CLOSING;
  /** As the static member. */
  readonly CLOSED = Connection.CLOSED;
  /** The client's `_pk`, or an id from the gateway. Two sockets can share one. */
  readonly id: string;
  /** URL of the upgrade request. */
  readonly uri: string;
  /** The id, followed by the result of `getConnectionTags`. */
  readonly tags: ReadonlyArray<string>;
  readonly #internals: Internals;

  /** Made by the runtime only. */
  constructor(
    info: SocketInfo,
    outlet: ConnectionOutlet,
    { tags, life = 0 }: { readonly tags?: ReadonlyArray<string>; readonly life?: number } = {},
  ) {
    this.id = info.id;
    this.uri = info.url;
    this.tags = tags ?? info.attachment?.tags ?? [info.id];
    this.#internals = new Internals(info, outlet, this.tags, life);
  }

  /** State of this connection, JSON; `null` until set. Survives hibernation, not a reconnect. */
  get state(): TState | null {
    return this.#internals.state as TState | null;
  }

  /**
   * Sets the connection's state, to a value or by a function of the previous one. Returns the new
   * state. Throws `TypeError` for a value that JSON can't carry, and `RangeError` for more than 256
   * KiB of JSON; then nothing has changed.
   */
  setState(change: (previous: TState | null) => TState | null): TState | null;
  setState(next: TState | null): TState | null;
  setState(next: TState | null | ((previous: TState | null) => TState | null)): TState | null {
    const value =
      typeof next === "function"
        ? (next as (previous: TState | null) => TState | null)(this.state)
        : next;
    assertWireValue(value, "the state of a connection");
    assertStateSize(value);
    this.#internals.state = value;
    this.#internals.outlet.attach(this as Connection);
    return this.state;
  }

  /** URL of the upgrade request, under a WebSocket's name for it. */
  get url(): string {
    return this.uri;
  }

  /** Sends one message once the writes before it are stored. Does nothing on a socket not open. */
  send(message: ConnectionMessage): void {
    if (this.readyState === Connection.OPEN)
      this.#internals.outlet.send(this as Connection, message);
  }

  /**
   * Closes the socket after the messages sent before. A second call does nothing. Throws
   * `RangeError` for a `code` that a close frame can't carry and for a `reason` longer than 123
   * bytes of UTF-8. After 1008 and 4000-4999 the clients of this package and of the reference don't
   * reconnect.
   */
  close(code = 1000, reason = ""): void {
    // As by every WebSocket: JavaScript may pass anything.
    const text = String(reason);
    assertCloseFrame(code, text);
    if (this.readyState !== Connection.OPEN) return;
    this.#internals.readyState = Connection.CLOSING;
    this.#internals.outlet.close(this as Connection, code, text);
  }

  /** As a WebSocket's: `OPEN`, `CLOSING` after `close()`, or `CLOSED`. */
  get readyState(): number {
    return this.#internals.readyState;
  }

  /**
   * For the runtime: flags and addressing. Not part of the agent's API. Throws `TypeError` for what
   * is no connection.
   */
  static internals(connection: Connection): Internals {
    if (!(#internals in Object(connection)))
      throw new TypeError("not a connection: pass what onConnect received, or getConnection(id)");
    return connection.#internals;
  }
}

/** One plain object per connection, since an agent can have ten thousand. */
class Internals {
  readonly info: SocketInfo;
  readonly outlet: ConnectionOutlet;
  /** The agent's life that it belongs to (`AgentImage.life`). */
  readonly life: number;
  readonly: boolean;
  protocol: boolean;
  state: unknown;
  /** Number of the client's next message (`Call`). Undefined: only the gateway knows. */
  next: number | undefined;
  readyState: number = Connection.OPEN;
  /** Keys of the durable streams that its client reads, by the client's ids. */
  readonly reads = new SparseMap<string, string>();
  /** Ids of its client's calls that run for longer (`lostCalls`). */
  readonly calls = new SparseSet<string>();

  constructor(
    info: SocketInfo,
    outlet: ConnectionOutlet,
    private readonly tags: ReadonlyArray<string>,
    life: number,
  ) {
    const { attachment } = info;
    this.info = info;
    this.outlet = outlet;
    this.state = attachment?.state ?? null;
    this.readonly = attachment?.readonly ?? false;
    this.protocol = attachment?.protocol ?? true;
    this.life = attachment === undefined ? life : (attachment.life ?? 0);
    this.next = info.next;
    for (const [id, key] of attachment?.reads ?? []) this.reads.set(id, key);
  }

  closed(): void {
    this.readyState = Connection.CLOSED;
  }

  attachment(): SocketAttachment {
    const { tags, state, readonly, protocol, life, reads, calls } = this;
    return {
      tags,
      state,
      readonly,
      protocol,
      ...(life === 0 ? {} : { life }),
      ...(reads.size === 0 ? {} : { reads: [...reads] }),
      ...(calls.size === 0 ? {} : { calls: [...calls] }),
    };
  }
}

function assertStateSize(value: unknown): void {
  const text = JSON.stringify(value) ?? "";
  // A unit of UTF-16 has at most 3 bytes, so that a usual state is not encoded.
  if (text.length * 3 <= STATE_BYTES_MAX) return;
  const { length } = new TextEncoder().encode(text);
  if (length > STATE_BYTES_MAX)
    throw new RangeError(
      `The state of a connection has at most ${STATE_BYTES_MAX} bytes of JSON, but this one has ${length}. Keep it in the agent's state or tables, by the connection's id`,
    );
}

/** Throws `RangeError` as `Connection.close`. */
export function assertCloseFrame(code: number, reason: string): void {
  if (!Number.isInteger(code) || code < CODE_MIN || code > CODE_MAX || CODES_UNSENDABLE.has(code))
    throw new RangeError(
      `A close code must be 1000-4999, without 1004, 1005, 1006 and 1015, not ${code}`,
    );
  if (new TextEncoder().encode(reason).length > REASON_BYTES_MAX)
    throw new RangeError(`A close reason has at most ${REASON_BYTES_MAX} bytes of UTF-8`);
}

/**
 * The tags of a connection. Throws `RangeError` for more than 10 in all, an empty tag or one of
 * more than 256 characters.
 */
export function checkTags(id: string, tags: ReadonlyArray<unknown>): ReadonlyArray<string> {
  const all = [id, ...tags.filter((tag) => tag !== id)];
  if (all.length > TAGS_MAX)
    throw new RangeError(`A connection has at most ${TAGS_MAX} tags, its id included`);
  return all.map((tag) => {
    if (typeof tag !== "string" || tag.length === 0 || tag.length > TAG_LENGTH_MAX)
      throw new RangeError(
        `A connection tag must be a string of 1 to ${TAG_LENGTH_MAX} characters`,
      );
    return tag;
  });
}
