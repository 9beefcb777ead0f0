/**
 * A socket of `Lifecycle`, as hooks receive it: the socket of a Durable Object with an id, its URL,
 * tags and a state. These are kept in the socket's attachment, so that they outlive the object's
 * time in memory; a socket without them was accepted by other code. Used by `Lifecycle`.
 */
import type { ObjectState } from "../../core/durableObject/ObjectState.ts";
import type { ObjectSocket } from "../../core/socket/ObjectSocket.ts";

/** A message as sent or received. */
export type WSMessage = ArrayBuffer | ArrayBufferView | string;
/** The state of a connection; null until it is set. */
export type ConnectionState<T> = Readonly<T> | null;
/** Makes the next state of the one before. */
export type ConnectionSetStateFn<T> = (previous: ConnectionState<T>) => T;

/** What the hooks of a connect receive. */
export interface ConnectionContext {
  /** The upgrade request. */
  request: Request;
}

/** A connected socket. The attachment is used: a `serializeAttachment` of one's own replaces it. */
export type Connection<T = unknown> = ObjectSocket & {
  /** `_pk` of the URL, else a random one. */
  readonly id: string;
  /** URL of the upgrade request. */
  readonly uri: string | null;
  /** The id, then those of `getConnectionTags`. */
  readonly tags: readonly string[];
  readonly state: ConnectionState<T>;
  /** Sets the state, or makes it of the one before. Returns it. */
  setState(state: T | ConnectionSetStateFn<T> | null): ConnectionState<T>;
};

interface Kept {
  readonly id: string;
  readonly uri: string;
  readonly tags: readonly string[];
  readonly state: unknown;
}

/** The key of `Kept` in the attachment. */
const KEY = "agents/lifecycle";
const known = new WeakMap<ObjectSocket, Kept>();

function keptOf(socket: ObjectSocket): Kept | undefined {
  const found = known.get(socket);
  if (found !== undefined) return found;
  const attachment = socket.deserializeAttachment() as { readonly [KEY]?: Kept } | null;
  const kept = typeof attachment === "object" ? attachment?.[KEY] : undefined;
  if (kept !== undefined) known.set(socket, kept);
  return kept;
}

function keep(socket: ObjectSocket, kept: Kept): void {
  socket.serializeAttachment({ [KEY]: kept });
  known.set(socket, kept);
}

/** The connection of a socket; undefined where other code has accepted it. */
export function connectionOf(socket: ObjectSocket): Connection | undefined {
  if (keptOf(socket) === undefined) return undefined;
  if ("setState" in socket) return socket as Connection;
  const read = <K extends keyof Kept>(key: K) => ({
    configurable: true,
    get: () => keptOf(socket)![key],
  });
  return Object.defineProperties(socket, {
    id: read("id"),
    uri: read("uri"),
    tags: read("tags"),
    state: read("state"),
    setState: {
      configurable: true,
      value: (next: unknown): unknown => {
        const kept = keptOf(socket)!;
        const state: unknown = (typeof next === "function" ? next(kept.state) : next) ?? null;
        keep(socket, { ...kept, state });
        return state;
      },
    },
  }) as Connection;
}

/**
 * Makes a connection of a socket, and accepts it. `tagsOf` is asked with the connection. Throws the
 * errors of `acceptWebSocket`.
 */
export async function acceptConnection(
  ctx: Pick<ObjectState, "acceptWebSocket">,
  socket: ObjectSocket,
  uri: string,
  tagsOf: (connection: Connection) => ReadonlyArray<string> | Promise<ReadonlyArray<string>>,
): Promise<Connection> {
  const id = new URL(uri).searchParams.get("_pk") || crypto.randomUUID();
  keep(socket, { id, uri, tags: [id], state: null });
  const connection = connectionOf(socket)!;
  const tags = [...new Set([id, ...(await tagsOf(connection))])];
  ctx.acceptWebSocket(socket, tags);
  keep(socket, { ...keptOf(socket)!, tags });
  return connection;
}
