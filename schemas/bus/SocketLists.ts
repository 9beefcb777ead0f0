/**
 * Lists of sockets: what a gateway tells a host that takes over a shard, and what a host tells an
 * operator.
 */
import type { SocketInfo } from "./GatewayMessage.ts";

/** A host's request on `census` to every gateway for a shard's sockets. Answered `CensusReply`. */
export interface CensusRequest {
  readonly shard: number;
  /** `next` of the previous reply; absent for the first page. */
  readonly cursor?: string;
}
export interface CensusReply {
  readonly gateway: string;
  /** Cursor of the next page. Absent: this is the last one. */
  readonly next?: string;
  readonly sockets: ReadonlyArray<{
    readonly agent: readonly [string, string];
    readonly socket: SocketInfo;
    /** It is a Durable Object, and events of it ran when it was last heard of (`working`). */
    readonly isWorking?: true;
  }>;
}

/**
 * A host's request to one gateway, on `census` too, for what it has counted of these sockets.
 * Answered `TrafficReply`.
 */
export interface TrafficRequest {
  /** Their `sid`s. */
  readonly traffic: ReadonlyArray<string>;
}
export interface TrafficReply {
  /** Absent: from an older gateway, which counts nothing. */
  readonly traffic?: ReadonlyArray<SocketTraffic & Pick<SocketInfo, "sid">>;
}

/**
 * Frames that a gateway has passed on since a socket opened, without pings, and their bytes before
 * compression. In: from the client.
 */
export interface SocketTraffic {
  readonly framesIn: number;
  readonly bytesIn: number;
  readonly framesOut: number;
  readonly bytesOut: number;
}

/** The answer to a `connections`. */
export interface ConnectionsReply {
  /**
   * Where the agent is. `hibernated`: in no memory, though its sockets are open. `isolated`: in a
   * process of its own, which knows of sockets that are not listed.
   */
  readonly agent: "inMemory" | "hibernated" | "isolated" | "quarantined";
  readonly total: number;
  readonly connections: ReadonlyArray<ListedConnection>;
}
export interface ListedConnection extends Pick<SocketInfo, "id" | "sid" | "gateway" | "since"> {
  readonly tags: ReadonlyArray<string>;
  /** Bytes of its state as JSON; 0: it has none. */
  readonly stateBytes: number;
  readonly readonly: boolean;
  /** False: protocol frames are not sent to it. */
  readonly protocol: boolean;
  /** Durable streams that its client reads. */
  readonly reads: number;
  /** Absent: its gateway has not answered, or is an older one. */
  readonly traffic?: SocketTraffic;
}
