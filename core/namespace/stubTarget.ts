/**
 * The target of a stub: what `makeStub` makes it of, and what code that receives a stub from a user
 * reads back.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { HeaderPairs } from "../../schemas/Call.ts";
import type { TargetReference } from "../../schemas/TargetCall.ts";
import type { CallClient, CallResult } from "../call/CallClient.ts";
import type { PendingSocket, SocketHolder } from "../socket/PendingSocket.ts";
import type { Abortable } from "../lazyFetch/AbortSource.ts";
import type { RpcTarget } from "../rpcTarget/RpcTarget.ts";

/** How long a stub's call may take, moves of the agent included. */
export const STUB_DEADLINE_MS = 60_000;

/** The turn whose code makes a call. */
export interface CallingTurn {
  /** Of its agent, until its holder drops it. Throws `RangeError` for one too many. */
  lend(target: RpcTarget): TargetReference;
  /** Runs `f` when the turn ends; never, if it has ended already. */
  atEnd(f: () => void): void;
}

/** The upgrade request by which a socket connects to an agent. */
export interface UpgradeCall {
  readonly url: string;
  readonly headers: HeaderPairs;
  readonly props?: unknown;
  /** The connection is readonly unless its agent decides otherwise. */
  readonly readonly?: true;
  /** Fires when nobody waits for the answer any more. */
  readonly abort?: Abortable;
}

/** The socket that the agent accepted, or what it answered instead. */
export type Connected = { readonly socket: PendingSocket } | CallResult;

/** Sockets of code of this process. */
export interface StubSockets {
  /** Rejects with `AgentUnreachable`, and with the reason of `abort`. */
  readonly connect: (id: AgentId, upgrade: UpgradeCall) => Promise<Connected>;
  /** The running code. */
  readonly holder: () => SocketHolder;
}

/** Makes a stub's calls. */
export interface StubCalls extends Pick<CallClient, "call"> {
  /** Undefined outside of agents' code; absent: there is none. */
  readonly callingTurn?: () => CallingTurn | undefined;
  /**
   * Lends a target of code outside of agents, until its holder drops it. Throws `RangeError` for
   * one too many. Absent: there is nobody who could be called back.
   */
  readonly lend?: (target: RpcTarget) => TargetReference;
  /** Absent in a process that has no sockets. */
  readonly sockets?: StubSockets;
}

/** The gateway's or the host's. Resolved late: a binding exists before its process runs. */
export type CallClientSource = () => StubCalls;

/** How a stub is made. */
export interface StubMaking {
  /** As `StubOptions.props`. */
  readonly props?: unknown;
  /** The key of its calls (`withKey`). */
  readonly key?: string;
  /** What it resolves to is given to the caller. Default: the answer itself. */
  readonly through?: <R>(method: string, answer: Promise<R>) => Promise<R>;
  /** What its holder sees as its id, where it is a Durable Object's. */
  readonly objectId?: { readonly name?: string | undefined };
}

/** The target of a stub. */
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
