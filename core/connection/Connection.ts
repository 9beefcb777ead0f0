/**
 * A WebSocket client of an agent, as the agent's code sees it. The socket itself lives at a
 * gateway; this object lives as long as the agent is in memory and is made again from the gateway's
 * record when it wakes: `id`, `uri`, `tags`, `state` and the flags survive, fields of its own do
 * not.
 *
 * Sends and closes pass the output gate: they leave after the writes made before them are stored.
 */
import type { SocketAttachment, SocketInfo } from "../../schemas/Call.ts";

export type ConnectionMessage = string | ArrayBuffer | ArrayBufferView;

/** How a connection reaches its socket; the agent's runtime. */
export interface ConnectionOutlet {
  readonly send: (connection: Connection, message: ConnectionMessage) => void;
  readonly close: (connection: Connection, code: number, reason: string) => void;
  readonly attach: (connection: Connection) => void;
}

/** Tags of one connection, its id included, and the length of one (`protocol.md` §0, limits). */
const TAGS_MAX = 10;
const TAG_LENGTH_MAX = 256;

/**
 * Close codes that no frame may carry: they stand for what happened without one (RFC 6455 §7.4.1).
 */
const CODES_UNSENDABLE = new Set([1004, 1005, 1006, 1015]);
const CODE_MIN = 1000; // 0-999 are not used by the protocol
const CODE_MAX = 4999; // the end of those for applications
/** UTF-8 bytes of a close reason: a control frame's 125 less the code. */
const REASON_BYTES_MAX = 123;

export class Connection<TState = unknown> {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly CONNECTING = Connection.CONNECTING;
  readonly OPEN = Connection.OPEN;
  readonly CLOSING = Connection.CLOSING;
  readonly CLOSED = Connection.CLOSED;
  /** The client's `_pk`, or made by the gateway. Two sockets may share one. */
  readonly id: string;
  /** URL of the upgrade request. */
  readonly uri: string;
  /** The id first, then what `getConnectionTags` gave. */
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

  /** Per-connection state, JSON; `null` until set. Survives hibernation, not a reconnect. */
  get state(): TState | null {
    return this.#internals.state as TState | null;
  }

  /**
   * Sets the connection's own state, to a value or by a function of the one before; gives it back.
   */
  setState(change: (previous: TState | null) => TState | null): TState | null;
  setState(next: TState | null): TState | null;
  setState(next: TState | null | ((previous: TState | null) => TState | null)): TState | null {
    this.#internals.state =
      typeof next === "function"
        ? (next as (previous: TState | null) => TState | null)(this.state)
        : next;
    this.#internals.outlet.attach(this as Connection);
    return this.state;
  }

  /** URL of the upgrade request, as a WebSocket calls it. */
  get url(): string {
    return this.uri;
  }

  /** Sends one message; nothing happens when the socket is closing or has closed. */
  send(message: ConnectionMessage): void {
    if (this.readyState === Connection.OPEN)
      this.#internals.outlet.send(this as Connection, message);
  }

  /**
   * Closes the socket after what was sent before; a second call does nothing. Throws `RangeError`
   * for a `code` that no close frame may carry and a `reason` past 123 bytes. 1008 and 4000-4999
   * tell our clients, and the reference's, not to come back.
   */
  close(code = 1000, reason = ""): void {
    if (!Number.isInteger(code) || code < CODE_MIN || code > CODE_MAX || CODES_UNSENDABLE.has(code))
      throw new RangeError(
        `A close code is 1000-4999 and none of 1004, 1005, 1006, 1015; got ${code}`,
      );
    if (new TextEncoder().encode(reason).length > REASON_BYTES_MAX)
      throw new RangeError(`A close reason has at most ${REASON_BYTES_MAX} bytes of UTF-8`);
    if (this.readyState !== Connection.OPEN) return;
    this.#internals.readyState = Connection.CLOSING;
    this.#internals.outlet.close(this as Connection, code, reason);
  }

  /** As a WebSocket's: `OPEN`, `CLOSING` after `close()`, `CLOSED`. */
  get readyState(): number {
    return this.#internals.readyState;
  }

  /** The runtime's view: flags and addressing. Not part of the agent's API. */
  static internals(connection: Connection): ConnectionInternals {
    return connection.#internals;
  }
}

export interface ConnectionInternals {
  readonly info: SocketInfo;
  readonly: boolean;
  protocol: boolean;
  /** The agent's life that it belongs to (`AgentImage.life`). */
  readonly life: number;
  /** Number of its client's message that is next (`Call`); undefined: its gateway has to tell. */
  next: number | undefined;
  closed(): void;
  attachment(): SocketAttachment;
}

/** One plain object a connection: an agent may have ten thousand. */
class Internals implements ConnectionInternals {
  readonly info: SocketInfo;
  readonly outlet: ConnectionOutlet;
  readonly life: number;
  readonly: boolean;
  protocol: boolean;
  state: unknown;
  next: number | undefined;
  readyState: number = Connection.OPEN;
  private readonly tags: ReadonlyArray<string>;

  constructor(
    info: SocketInfo,
    outlet: ConnectionOutlet,
    tags: ReadonlyArray<string>,
    life: number,
  ) {
    const { attachment } = info;
    this.info = info;
    this.outlet = outlet;
    this.tags = tags;
    this.state = attachment?.state ?? null;
    this.readonly = attachment?.readonly ?? false;
    this.protocol = attachment?.protocol ?? true;
    this.life = attachment === undefined ? life : (attachment.life ?? 0);
    this.next = info.next;
  }

  closed(): void {
    this.readyState = Connection.CLOSED;
  }

  attachment(): SocketAttachment {
    const { tags, state, readonly, protocol, life } = this;
    return { tags, state, readonly, protocol, ...(life === 0 ? {} : { life }) };
  }
}

/**
 * The tag list of a connection. Throws `RangeError` for more than 10 in all, an empty or an
 * over-long one.
 */
export function checkTags(id: string, tags: ReadonlyArray<unknown>): ReadonlyArray<string> {
  const all = [id, ...tags.filter((tag) => tag !== id)];
  if (all.length > TAGS_MAX)
    throw new RangeError(`A connection has at most ${TAGS_MAX} tags, its id included`);
  return all.map((tag) => {
    if (typeof tag !== "string" || tag.length === 0 || tag.length > TAG_LENGTH_MAX)
      throw new RangeError(`A connection tag is a string of 1 to ${TAG_LENGTH_MAX} characters`);
    return tag;
  });
}
