/**
 * Sockets on the bus: what gateways and hosts know of one, and the messages of a host to a gateway
 * on `Subjects.gateway(id, "frame")`, in order. What a client sends is a `Call`.
 */
import type { HeaderPairs } from "./message.ts";

/** One socket as its gateway knows it: all that a host needs to take it over. */
export interface SocketInfo {
  readonly gateway: string;
  /** Unique for the gateway's life. */
  readonly sid: string;
  /** The connection's id: `_pk`, or an id from the gateway. Not necessarily unique. */
  readonly id: string;
  /** When the upgrade arrived, milliseconds since the epoch. Absent: from an older gateway. */
  readonly since?: number;
  /** The upgrade request. */
  readonly url: string;
  readonly headers: HeaderPairs;
  /** Set by the host at `connect`; outlives hibernation and moves. The gateway reads `protocol`. */
  readonly attachment?: SocketAttachment;
  /** The client's first message not known to be accepted. Absent: only the gateway knows. */
  readonly next?: number;
}

/** Tells an agent's sockets apart. */
export const socketKey = ({ gateway, sid }: Pick<SocketInfo, "gateway" | "sid">): string =>
  `${gateway}/${sid}`;

export interface SocketAttachment {
  readonly tags: ReadonlyArray<string>;
  readonly state: unknown;
  readonly readonly: boolean;
  /** False: protocol frames (identity, state, MCP servers) are not sent to this socket. */
  readonly protocol: boolean;
  /** The agent's life that it belongs to, by the last `destroyed` event. Absent: the first. */
  readonly life?: number;
  /** The durable streams that its client reads: the client's id for it, and the key. */
  readonly reads?: ReadonlyArray<readonly [id: string, key: string]>;
  /** Ids of the client's calls that run for longer (`core/runtime/lostCalls`). */
  readonly calls?: ReadonlyArray<string>;
}

/** Host to gateway. Bodies are socket payloads. */
export type GatewayMessage =
  /** One socket. */
  | { readonly op: "send"; readonly sid: string; readonly text: boolean }
  /**
   * Every socket of the agent at that gateway, except those with a connection id in `except`;
   * `protocol`: only sockets whose attachment has `protocol: true`. `counts`: only sockets whose
   * URL has a place in the kept broadcasts, or only those whose URL has none. Absent: all.
   */
  | {
      readonly op: "cast";
      readonly agent: readonly [string, string];
      readonly except: ReadonlyArray<string>;
      readonly text: boolean;
      readonly protocol: boolean;
      readonly counts?: boolean;
    }
  /** `forget`: the agent does not know this socket and is not notified of the close. */
  | {
      readonly op: "close";
      readonly sid: string;
      readonly code: number;
      readonly reason: string;
      readonly forget?: true;
    }
  /**
   * `begin`: the connect sequence starts. From now on the socket receives casts; frames of an
   * earlier attempt to connect it, whose host was lost, are dropped.
   */
  | {
      readonly op: "attach";
      readonly sid: string;
      readonly attachment: SocketAttachment;
      readonly begin?: true;
    }
  /**
   * Events of this Durable Object run for longer, or no longer: what it does for its sockets is
   * lost with its host (`CensusReply.isWorking`). Gateways of older releases drop it.
   */
  | { readonly op: "working"; readonly agent: readonly [string, string]; readonly is: boolean }
  /**
   * A piece of a message past the broker's payload limit: the bodies with one `id`, joined in order
   * up to `last`, are the message as it would have been sent.
   */
  | { readonly op: "part"; readonly id: string; readonly last: boolean };
