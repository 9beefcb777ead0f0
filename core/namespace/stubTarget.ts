/**
 * The target of a stub: what `makeStub` creates it from, and what code that receives a stub from a
 * user reads back.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import type { TargetReference } from "../../schemas/bus/TargetCall.ts";
import type { CallClient } from "../call/CallClient.ts";
import type { CallResult } from "../call/RepeatedCall.ts";
import type { PendingSocket, SocketHolder } from "../socket/PendingSocket.ts";
import type { Abortable } from "../lazyFetch/AbortSource.ts";
import type { RpcTarget } from "../rpcTarget/RpcTarget.ts";

/** How long a stub's call may take, including the time in which the agent moves. */
export const STUB_DEADLINE_MS = 60_000;

/** The turn whose code makes a call. */
interface CallingTurn {
  /** Lends a target of its agent until the holder drops it. Throws `RangeError` past the limit. */
  lend(target: RpcTarget): TargetReference;
  /** Runs `f` when the turn ends, or never if it has already ended. */
  atEnd(f: () => void): void;
}

/** The upgrade request by which a socket connects to an agent. */
export interface UpgradeCall {
  readonly url: string;
  readonly headers: HeaderPairs;
  readonly props?: unknown;
  /** Makes the connection readonly unless its agent decides otherwise. */
  readonly readonly?: true;
  /** Fires when nobody waits for the answer anymore. */
  readonly abort?: Abortable | undefined;
}

/** The socket that the agent accepted, or what it answered instead. */
export type Connected = { readonly socket: PendingSocket } | CallResult;

/** Connects sockets for code of this process. */
export interface StubSockets {
  /** Rejects with `AgentUnreachable`, and with the reason of `abort`. */
  readonly connect: (id: AgentId, upgrade: UpgradeCall) => Promise<Connected>;
  /** The code that runs now. */
  readonly holder: () => SocketHolder;
}

export interface StubCalls extends Pick<CallClient, "call"> {
  /** Returns undefined outside of agents' code. Absent in a process without agents. */
  readonly callingTurn?: () => CallingTurn | undefined;
  /**
   * Lends a target of code outside of agents until the holder drops it. Throws `RangeError` past
   * the limit. Absent in a process that can't be called back.
   */
  readonly lend?: (target: RpcTarget) => TargetReference;
  /** Absent in a process that has no sockets. */
  readonly sockets?: StubSockets;
}

/** Returns the calls of the gateway or host: bindings exist before their process runs. */
export type CallClientSource = () => StubCalls;

export interface StubMaking {
  /** As `StubOptions.props`. */
  readonly props?: unknown;
  /** The key of its calls (`withKey`). */
  readonly key?: string;
  /** Called before each call of a method, which waits for it. */
  readonly before?: () => Promise<void>;
  /** The id that a Durable Object's stub shows. */
  readonly objectId?: { readonly name?: string | undefined };
}

export interface StubTarget {
  readonly client: CallClientSource;
  readonly id: AgentId;
  readonly options: StubMaking;
}

/** The key under which a stub has its target. */
export const TARGET = Symbol("target");

/** The target of a stub; undefined for any other value. */
export const stubTarget = (stub: unknown): StubTarget | undefined =>
  typeof stub === "object" && stub !== null
    ? (stub as { readonly [TARGET]?: StubTarget })[TARGET]
    : undefined;
