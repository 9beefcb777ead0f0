/**
 * The WebSocket connections of an agent in memory, and the frames sent to them. The sockets are
 * held by their gateways; every frame passes the output gate on its way there.
 *
 * One message goes to each gateway that holds sockets of the agent, on one ordered stream for each
 * gateway. A client therefore receives frames in the order of the agent's commits.
 */
import { ownBytes } from "../../schemas/ownBuffer.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { socketKey, type SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import {
  Connection,
  type ConnectionMessage,
  type ConnectionOutlet,
} from "../connection/Connection.ts";
import { refuseLost } from "./lostCalls.ts";
import { stateFrame, streamFrame } from "../connection/protocol.ts";
import type { AgentOutlet } from "../turn/AgentOutlet.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { Committer } from "../turn/Committer.ts";
import { withEntry, withItem, without } from "../collections/sparse.ts";

interface CastOptions {
  /** Ids of connections that do not receive it. */
  readonly except: ReadonlyArray<string>;
  readonly text: boolean;
  /** Only connections that take protocol frames. */
  readonly protocol: boolean;
  /** Only connections that track their place in kept broadcasts, or the others. Default: all. */
  readonly counts?: boolean;
}

const encoder = new TextEncoder();

/** Close code and reason of a destroyed agent's sockets (`protocol.md` §2.5). */
interface Farewell {
  readonly code: number;
  readonly reason: string;
}
const DESTROYED: Farewell = { code: 1001, reason: "Durable Object destroyed" };

/** Closes the sockets of a life that has ended, and removes them at their gateways. */
export function closeAll(
  sockets: Iterable<Pick<SocketInfo, "gateway" | "sid">>,
  outlet: Pick<AgentOutlet, "toGateway">,
  farewell: Farewell = DESTROYED,
): void {
  for (const { gateway, sid } of sockets)
    outlet.toGateway(gateway, { op: "close", sid, ...farewell, forget: true });
}

/** The agent that has the sockets. Its committer is made after them: looked up when needed. */
interface SocketsOwner {
  readonly id: AgentId;
  /** Names the agent's current life. A socket of an earlier life is closed when it is found. */
  readonly image: Pick<AgentImage, "life" | "seq" | "state">;
  readonly committer: Pick<Committer, "afterCommit">;
}

const NO_SOCKETS: ReadonlyMap<string, Connection> = new Map();

export class AgentSockets implements ConnectionOutlet {
  private byKey: Map<string, Connection> | undefined;
  /** Keys of upgrades that have not joined yet: `getConnectionTags` or an object's `fetch` runs. */
  private connecting: Set<string> | undefined;
  private isWorking = false;
  /** Close code and reason that `destroy` uses. Undefined: `DESTROYED`. */
  farewell: Farewell | undefined;

  constructor(
    private readonly agent: SocketsOwner,
    private readonly outlet: AgentOutlet,
  ) {}

  get size(): number {
    return this.byKey?.size ?? 0;
  }
  /**
   * Runs an upgrade, which joins its socket or refuses it. Undefined: with those that connect, the
   * agent already has `max`.
   */
  admit<A>(info: SocketInfo, max: number, connect: () => Promise<A>): Promise<A> | undefined {
    if (this.size + (this.connecting?.size ?? 0) >= max) return undefined;
    const key = socketKey(info);
    this.connecting = withItem(this.connecting, key);
    return connect().finally(() => this.connected(key));
  }
  private connected(key: string): void {
    this.connecting = without(this.connecting, key);
  }
  get(key: string): Connection | undefined {
    return this.byKey?.get(key);
  }
  has(key: string): boolean {
    return this.byKey?.has(key) === true;
  }
  /** Adds a socket that is already open: from before hibernation, or reported to `meet`. */
  resume(info: SocketInfo): void {
    const key = socketKey(info);
    const known = this.get(key);
    if (known !== undefined) return skipTo(known, info.next);
    if ((info.attachment?.life ?? 0) === this.agent.image.life) {
      const connection = this.make(refuseLost(info, this.outlet));
      this.byKey = withEntry(this.byKey, key, connection);
      this.askReader(connection);
    }
    // It belongs to a destroyed life whose host could not close it.
    else this.closeDestroyed(info);
  }

  /**
   * Adds a socket that its gateway or a census reports. Frames for it may have been lost, so the
   * state is sent again (`tellState`).
   */
  meet(info: SocketInfo): Connection | undefined {
    const { seq, state } = this.agent.image;
    const known = this.get(socketKey(info));
    this.resume(info);
    const connection = this.get(socketKey(info));
    if (known !== undefined) this.askReader(known);
    if (
      state !== undefined &&
      connection !== undefined &&
      Connection.internals(connection).protocol
    )
      this.sendStored(connection, stateFrame(state, seq));
    return connection;
  }

  /** The open sockets, with their current attachments. */
  *open(): Generator<SocketInfo> {
    for (const [, info] of this.records({ inOrder: true })) yield info;
  }

  infos(): ReadonlyArray<SocketInfo> {
    return Array.from(this.values(), (connection) => Connection.internals(connection).info);
  }

  /** Closes every socket of a destroyed agent, and removes them at their gateways. */
  destroy(): void {
    for (const connection of this.values()) {
      const internals = Connection.internals(connection);
      internals.closed();
      this.closeDestroyed(internals.info);
    }
    this.byKey = undefined;
  }

  private closeDestroyed(info: SocketInfo): void {
    closeAll([info], this.outlet, this.farewell);
  }

  delete(key: string): void {
    this.byKey = without(this.byKey, key);
  }
  values(): IterableIterator<Connection> {
    return (this.byKey ?? NO_SOCKETS).values();
  }
  [Symbol.iterator](): IterableIterator<[string, Connection]> {
    return (this.byKey ?? NO_SOCKETS).entries();
  }

  /**
   * Its sockets, for the next activation. `inOrder`: every message that was taken is stored.
   * Otherwise messages may have to be taken again, and the gateways are asked which.
   */
  *records({ inOrder }: { readonly inOrder: boolean }): Generator<[string, SocketInfo]> {
    for (const [key, connection] of this) {
      const internals = Connection.internals(connection);
      const { next: _, ...same } = internals.info;
      const attachment = internals.attachment();
      const order = inOrder && internals.next !== undefined ? { next: internals.next } : {};
      yield [key, { ...same, attachment, ...order }];
    }
  }

  /** Makes a connection object. It is the agent's once `join` or `resume` has added it. */
  make(info: SocketInfo, tags?: ReadonlyArray<string>): Connection {
    const { life } = this.agent.image;
    // The upgrade's headers are read only when it connects.
    const kept = { ...info, headers: [] };
    return new Connection(kept, this, { ...(tags === undefined ? {} : { tags }), life });
  }

  // ConnectionOutlet

  send(connection: Connection, message: ConnectionMessage): void {
    const { text, bytes } = encodeMessage(message);
    this.sendBytes(connection, bytes, text);
  }

  close(connection: Connection, code: number, reason: string): void {
    const { gateway, sid } = Connection.internals(connection).info;
    this.gated(() => this.outlet.toGateway(gateway, { op: "close", sid, code, reason }));
  }

  /** Its state or flags changed: sends them to the gateway, which keeps them. */
  attach(connection: Connection): void {
    const { info } = Connection.internals(connection);
    // It has not joined yet: `join` will report it.
    if (this.get(socketKey(info)) === connection) this.tellAttachment(connection, {});
  }

  /** The connection joins: broadcasts of earlier changes do not reach it, later ones do. */
  join(connection: Connection): void {
    const internals = Connection.internals(connection);
    internals.next = 1;
    const key = socketKey(internals.info);
    this.connected(key);
    this.byKey = withEntry(this.byKey, key, connection);
    this.tellAttachment(connection, { begin: true });
    if (this.isWorking) this.working(true);
  }

  /** Tells the gateways what the loss of the host means for the sockets of a Durable Object. */
  working(is: boolean): void {
    this.isWorking = is;
    const agent = this.address;
    for (const gateway of this.gateways())
      this.outlet.toGateway(gateway, { op: "working", agent, is });
  }

  private sendBytes(connection: Connection, bytes: Uint8Array, text: boolean): void {
    const { gateway, sid } = Connection.internals(connection).info;
    this.gated(() => this.outlet.toGateway(gateway, { op: "send", sid, text }, bytes));
  }

  sendText(connection: Connection, frame: string): void {
    this.sendBytes(connection, encoder.encode(frame), true);
  }

  broadcast(message: ConnectionMessage, except: ReadonlyArray<string>): void {
    const { text, bytes } = encodeMessage(message);
    this.gated(() => this.castNow(bytes, { except, text, protocol: false }));
  }

  /** A stored broadcast: with its number to sockets that track their place, plain to the others. */
  castKept(message: string | Uint8Array, frame: string, except: ReadonlyArray<string>): void {
    const { text, bytes } = encodeMessage(message);
    this.castNow(bytes, { except, text, protocol: false, counts: false });
    this.castNow(encoder.encode(frame), { except, text: true, protocol: false, counts: true });
  }

  /** Sends a protocol frame to every socket that takes those. */
  castProtocol(frame: string): void {
    const bytes = encoder.encode(frame);
    this.gated(() => this.castNow(bytes, { except: [], text: true, protocol: true }));
  }

  /** `state` is JSON text. Its sequence is that of its commit. */
  sendState(connection: Connection, state: string): void {
    this.agent.committer.afterCommit((seq) => this.sendStored(connection, stateFrame(state, seq)));
  }

  /**
   * Sends a committed state to every protocol socket except those with `except`'s id. Does not wait
   * for the output gate: the caller has.
   */
  castState(state: string, seq: number, except: Connection | undefined): void {
    if (this.size === 0) return;
    this.castNow(encoder.encode(stateFrame(state, seq)), {
      except: except === undefined ? [] : [except.id],
      text: true,
      protocol: true,
    });
  }

  /**
   * Sends the committed state again, to all. Frames are sent at most once, so one in flight is lost
   * with a host or a connection to the broker, and a client that only listens would show an old
   * state until the next change.
   */
  tellState(): void {
    const { seq, state } = this.agent.image;
    if (state !== undefined) this.castState(state, seq, undefined);
    for (const connection of this.values()) this.askReader(connection);
  }

  /** Does not wait for the output gate: the caller has. */
  private castNow(bytes: Uint8Array, how: CastOptions): void {
    const agent = this.address;
    for (const gateway of this.gateways())
      this.outlet.toGateway(gateway, { op: "cast", agent, ...how }, bytes);
  }

  private get address(): readonly [string, string] {
    const { id } = this.agent;
    return [id.class, id.name];
  }

  private gateways(): ReadonlySet<string> {
    const gateways = new Set<string>();
    for (const connection of this.values())
      gateways.add(Connection.internals(connection).info.gateway);
    return gateways;
  }

  /** Sends what is already stored, without waiting for the gate. */
  sendStored(connection: Connection, frame: string): void {
    const { gateway, sid } = Connection.internals(connection).info;
    this.outlet.toGateway(gateway, { op: "send", sid, text: true }, encoder.encode(frame));
  }

  /**
   * Asks the client for its place in the durable streams that it reads: their frames may have been
   * lost, or have no sender any more.
   */
  private askReader(connection: Connection): void {
    for (const [id, key] of Connection.internals(connection).reads)
      this.sendStored(connection, streamFrame({ id, key, resume: true }));
  }

  private tellAttachment(connection: Connection, begin: { readonly begin?: true }): void {
    const internals = Connection.internals(connection);
    const { gateway, sid } = internals.info;
    this.gated(() => {
      const attachment = internals.attachment();
      this.outlet.toGateway(gateway, { op: "attach", sid, attachment, ...begin });
    });
  }

  private gated(f: () => void): void {
    this.agent.committer.afterCommit(f);
  }
}

/**
 * Messages with lower numbers were taken, by this agent or by an earlier owner. The number never
 * decreases, because messages would then run again.
 */
function skipTo(connection: Connection, next: number | undefined): void {
  const internals = Connection.internals(connection);
  if (next !== undefined) internals.next = Math.max(internals.next ?? next, next);
}

/** A value that is neither text nor bytes is sent as its text, as every WebSocket does. */
function encodeMessage(message: ConnectionMessage): { text: boolean; bytes: Uint8Array } {
  // A copy, because it is sent after the commit and the caller may reuse its buffer.
  if (ArrayBuffer.isView(message) || isArrayBuffer(message))
    return { text: false, bytes: ownBytes(message) };
  return { text: true, bytes: encoder.encode(String(message)) };
}

/** Recognizes buffers of other realms, too. */
const isArrayBuffer = (message: unknown): message is ArrayBuffer =>
  Object.prototype.toString.call(message) === "[object ArrayBuffer]";
