/**
 * A WebSocket client of an agent, as the agent's code sees it. The socket itself lives at a gateway;
 * this object lives as long as the agent is in memory and is made again from the gateway's record
 * when it wakes: `id`, `uri`, `tags`, `state` and the flags survive, fields of its own do not.
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

export class Connection<TState = unknown> {
  /** The client's `_pk`, or made by the gateway. Two sockets may share one. */
  readonly id: string;
  /** URL of the upgrade request. */
  readonly uri: string;
  /** The id first, then what `getConnectionTags` gave. */
  readonly tags: ReadonlyArray<string>;
  readonly #outlet: ConnectionOutlet;
  readonly #info: SocketInfo;
  #state: TState | null;
  #readonly: boolean;
  #protocol: boolean;
  #open = true;

  /** Made by the runtime only. */
  constructor(info: SocketInfo, outlet: ConnectionOutlet, tags?: ReadonlyArray<string>) {
    this.id = info.id;
    this.uri = info.url;
    this.tags = tags ?? info.attachment?.tags ?? [info.id];
    this.#info = info;
    this.#outlet = outlet;
    this.#state = (info.attachment?.state ?? null) as TState | null;
    this.#readonly = info.attachment?.readonly ?? false;
    this.#protocol = info.attachment?.protocol ?? true;
  }

  /** Per-connection state, JSON; `null` until set. Survives hibernation, not a reconnect. */
  get state(): TState | null {
    return this.#state;
  }

  /** Sets the connection's own state, to a value or by a function of the one before; gives it back. */
  setState(change: (previous: TState | null) => TState | null): TState | null;
  setState(next: TState | null): TState | null;
  setState(next: TState | null | ((previous: TState | null) => TState | null)): TState | null {
    this.#state =
      typeof next === "function"
        ? (next as (previous: TState | null) => TState | null)(this.#state)
        : next;
    this.#outlet.attach(this as Connection);
    return this.#state;
  }

  /** Sends one message; nothing happens when the socket has closed. */
  send(message: ConnectionMessage): void {
    if (this.#open) this.#outlet.send(this as Connection, message);
  }

  /** Closes the socket; `code` 1000 or 3000-4999 as for any WebSocket (1001 and 1011 are the runtime's). */
  close(code = 1000, reason = ""): void {
    if (!this.#open) return;
    this.#outlet.close(this as Connection, code, reason);
  }

  /** 1 while open, 3 after it closed: the constants of WebSocket. */
  get readyState(): number {
    return this.#open ? 1 : 3;
  }

  /** The runtime's view: flags and addressing. Not part of the agent's API. */
  static internals(connection: Connection): ConnectionInternals {
    return connection.#internals;
  }

  readonly #internals: ConnectionInternals = ((self: Connection<TState>): ConnectionInternals => ({
    get info() {
      return self.#info;
    },
    get readonly() {
      return self.#readonly;
    },
    set readonly(value: boolean) {
      self.#readonly = value;
    },
    get protocol() {
      return self.#protocol;
    },
    set protocol(value: boolean) {
      self.#protocol = value;
    },
    closed() {
      self.#open = false;
    },
    attachment: () => ({
      tags: self.tags,
      state: self.#state,
      readonly: self.#readonly,
      protocol: self.#protocol,
    }),
  }))(this);
}

export interface ConnectionInternals {
  readonly info: SocketInfo;
  readonly: boolean;
  protocol: boolean;
  readonly closed: () => void;
  readonly attachment: () => SocketAttachment;
}

/** The tag list of a connection. Throws `RangeError` for more than 10 in all, an empty or an over-long one. */
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
