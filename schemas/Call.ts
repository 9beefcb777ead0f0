/**
 * What gateways and hosts say to each other over the bus (core NATS). Each message is a `Frame`.
 *
 * A *call* goes to `Subjects.call(shard, id)` as a request; the host that owns the shard answers with
 * one `CallReply`. No responders means that nobody owns the shard just now: the caller holds and
 * retries within its own deadline. A *gateway message* goes to `Subjects.gateway(id, "frame")`: frames
 * for sockets, in order. An *answer* to a durable input goes to the subject in its envelope.
 *
 * These are plain types, not decoded by schema: both ends are this release's own processes, `Frame`
 * has checked version and checksum, and the socket relay is a hot path.
 */
import { decodeFrame, encodeFrame } from "./Frame.ts";
import type { InboxHead } from "./InboxEnvelope.ts";

/** Start of the names of blobs that hold a call's body. A host reads no other blob for a call. */
export const CALL_BLOBS = "calls/";
/** The same for an answer's body. A caller reads and removes no other blob for an answer. */
export const ANSWER_BLOBS = "answers/";

export type HeaderPairs = ReadonlyArray<readonly [string, string]>;

/** One socket as its gateway knows it: everything a host needs to know about it again. */
export interface SocketInfo {
  readonly gateway: string;
  /** Unique for the gateway's life. */
  readonly sid: string;
  /** The connection's id (`_pk`, or made by the gateway); need not be unique. */
  readonly id: string;
  /** The upgrade request. */
  readonly url: string;
  readonly headers: HeaderPairs;
  /** Set by the host after `connect`; survives hibernation and hosts. Opaque to the gateway but for `protocol`. */
  readonly attachment?: SocketAttachment;
  /** Number of the first message of its client that is not known to be taken; absent: ask its gateway. */
  readonly next?: number;
}

export interface SocketAttachment {
  readonly tags: ReadonlyArray<string>;
  readonly state: unknown;
  readonly readonly: boolean;
  /** False: protocol frames (identity, state, MCP servers) are not sent to this socket. */
  readonly protocol: boolean;
  /** The agent's life that it belongs to: the sequence of its last `destroyed` event; absent for its first. */
  readonly life?: number;
}

/** An error as it crosses the wire: what the other side's code can catch. No stack: it is of this side. */
export interface RemoteError {
  readonly name: string;
  readonly message: string;
  readonly cause?: RemoteCause;
}
export type RemoteCause = { readonly error: RemoteError } | { readonly value: unknown };

/** `suspect`: its host was lost while it was out, so it may be what ended it (`core/input/Suspects`). An older host ignores this. */
export type Call = CallHead & { readonly suspect?: true };

type CallHead =
  | {
      readonly kind: "fetch";
      readonly id: string;
      readonly method: string;
      readonly url: string;
      readonly headers: HeaderPairs;
      /** Props for `onStart`, given to `routeAgentRequest` or `getAgentByName`; the edge strips any that a client sends. */
      readonly props?: unknown;
      /** The body lies in the blob store (it is past the bus's payload limit). */
      readonly blob?: string;
    }
  /**
   * Whether this upgrade is for the agent itself, or for a sub-agent that its URL names: answered `taken`, or as a `fetch` of it is
   * (`core/runtime/subAgentCalls`).
   */
  | {
      readonly kind: "gate";
      readonly id: string;
      readonly method: string;
      readonly url: string;
      readonly headers: HeaderPairs;
      readonly props?: unknown;
    }
  /** `readonly`: so it is unless the agent's `shouldConnectionBeReadonly` decides otherwise. */
  | {
      readonly kind: "connect";
      readonly socket: SocketInfo;
      readonly props?: unknown;
      readonly readonly?: true;
    }
  /** Tells a host that took over (or woke) about a socket that is already open; answered `taken`. */
  | { readonly kind: "resume"; readonly socket: SocketInfo }
  /**
   * The frame's body is the message. `text`: it was a text message. `number`: the client's first is 1; it is taken only
   * in its turn, and not again by the agent that has taken it. Absent: a gateway of before, which sends one at a time.
   */
  | {
      readonly kind: "message";
      readonly gateway: string;
      readonly sid: string;
      readonly text: boolean;
      readonly number?: number;
      /** As for `fetch`. */
      readonly blob?: string;
    }
  | {
      readonly kind: "close";
      readonly gateway: string;
      readonly sid: string;
      readonly code: number;
      readonly reason: string;
      readonly wasClean: boolean;
    }
  | {
      readonly kind: "rpc";
      readonly method: string;
      readonly args: ReadonlyArray<unknown>;
      readonly props?: unknown;
    }
  /** The next piece of a response's body (`stream` of a `response`); `cancel`: no more is wanted. */
  | { readonly kind: "pull"; readonly stream: string; readonly cancel?: true }
  /**
   * A durable input that is not stored (`core/input/DirectInput`); the body is its own. Answered `done` or `stored`; whoever
   * hears anything else, or nothing, stores it in the inbox.
   */
  | { readonly kind: "input"; readonly head: InboxHead }
  /** Ends its life without running any of its code, and drops what waits for it; answered by a `result`, the journal's sequence (`endLife`). */
  | { readonly kind: "erase" }
  /** About one of its sub-agents: it is asked for, or has destroyed itself; answered by a `result`. */
  | {
      readonly kind: "child";
      readonly op: "add" | "forget";
      readonly className: string;
      readonly name: string;
    }
  /** Its parent deletes it; answered by a `result` when that is stored. */
  | { readonly kind: "end" }
  /** Throws it out of memory, if it is there, with what it has not stored; answered `taken`. */
  | { readonly kind: "abort"; readonly reason: string }
  /** Its current state; starts it, with `props`, when it is not in memory. */
  | { readonly kind: "state"; readonly props?: unknown };

/** Those that the agent itself answers. */
export type AgentCall = Exclude<Call, { readonly kind: "erase" | "input" | "abort" }>;

export type CallReply =
  | {
      readonly kind: "response";
      readonly status: number;
      readonly headers: HeaderPairs;
      readonly blob?: string;
      /** The body goes on: `pull` it by this id. */
      readonly stream?: string;
    }
  /**
   * The request is another agent's: to be asked of that one with this URL, and, where they are given, with this method and
   * these headers and the reply's body in place of its own.
   */
  | {
      readonly kind: "forward";
      readonly agent: readonly [string, string];
      readonly url: string;
      readonly method?: string;
      readonly headers?: HeaderPairs;
      readonly blob?: string;
    }
  /**
   * A piece of a body; empty when there was nothing for a while: pull again. `end`: there is no more, `whole`
   * or because the agent's stream failed, or is gone with its host.
   */
  | {
      readonly kind: "piece";
      readonly end?: "whole" | "failed" | "gone";
      readonly blob?: string;
    }
  /** The socket is accepted. Frames that were sent to it before this reply come first. `close` follows them. */
  | {
      readonly kind: "connected";
      readonly attachment: SocketAttachment;
      readonly close?: { readonly code: number; readonly reason: string };
    }
  /**
   * The message or the close has been taken; nothing more will be said about it. `next`: so have all
   * messages of the socket below this number.
   */
  | { readonly kind: "taken"; readonly next?: number }
  /** The host does not know this socket, or another message was next: send `resume` with all about it, then the message again. */
  | { readonly kind: "unknownSocket" }
  /** The input is applied, and that is stored; the body is its response's. The rest as in `InputAnswer`. */
  | ({ readonly kind: "done" } & Omit<InputAnswer, "id">)
  /** The input lies in the inbox: its answer comes to its envelope's reply subject. */
  | { readonly kind: "stored" }
  | { readonly kind: "result"; readonly value?: unknown }
  | ({ readonly kind: "error" } & RemoteError)
  /** `seq` and `time` of the last event, 0 when there is none. */
  | {
      readonly kind: "state";
      readonly seq: number;
      readonly time: number;
      readonly state?: unknown;
    }
  /** Not handled here and now (no lease, starting, stopping): nothing was done; try again. */
  /** `late`: from one whose lease has run out, or of a call that had begun. It may be done, or be done elsewhere. */
  | { readonly kind: "notHere"; readonly late?: true };

/** Host to gateway. Bodies are socket payloads. */
export type GatewayMessage =
  /** One socket. */
  | { readonly op: "send"; readonly sid: string; readonly text: boolean }
  /**
   * Every socket of the agent at that gateway, except those with a connection id in `except`;
   * `protocol`: only sockets whose attachment has `protocol: true`.
   */
  | {
      readonly op: "cast";
      readonly agent: readonly [string, string];
      readonly except: ReadonlyArray<string>;
      readonly text: boolean;
      readonly protocol: boolean;
    }
  /** `forget`: the agent is not told of the close; it knows nothing of this socket. */
  | {
      readonly op: "close";
      readonly sid: string;
      readonly code: number;
      readonly reason: string;
      readonly forget?: true;
    }
  /**
   * `begin`: the connect sequence starts. From here on the socket takes part in casts; frames of an
   * earlier attempt to connect it (its host was lost) are forgotten.
   */
  | {
      readonly op: "attach";
      readonly sid: string;
      readonly attachment: SocketAttachment;
      readonly begin?: true;
    }
  /**
   * A piece of a message past the broker's payload limit: the bodies with one `id`, joined in order
   * up to `last`, are the message as it would have been sent.
   */
  | { readonly op: "part"; readonly id: string; readonly last: boolean };

/** Answer to a durable input, on the envelope's `reply.subject`; the body is the response's. */
export interface InputAnswer {
  /** The envelope's `reply.id`. */
  readonly id: string;
  readonly status: number;
  readonly headers: HeaderPairs;
  /** Set when the input had been applied before: the journal sequence it was first applied at. */
  readonly duplicateOf?: number;
  readonly blob?: string;
}

/** A host asks every gateway for the sockets of a shard's agents (on `census`); each answers `CensusReply`. */
export interface CensusRequest {
  readonly shard: number;
  /** `next` of the reply before; absent for the first page. */
  readonly cursor?: string;
}
export interface CensusReply {
  readonly gateway: string;
  /** Present when there are more. */
  readonly next?: string;
  readonly sockets: ReadonlyArray<{
    readonly agent: readonly [string, string];
    readonly socket: SocketInfo;
  }>;
}

/** Every host's answer on `Subjects.erasure`: it has no local files of the agent any more. */
export interface ErasureReply {
  readonly host: string;
}

export const encodeMessage = <A extends object>(head: A, body?: Uint8Array): Uint8Array =>
  encodeFrame(head, body);

/** The head is trusted to be an `A`: see the header. Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeMessage<A>(bytes: Uint8Array): {
  readonly head: A;
  readonly body: Uint8Array;
} {
  const frame = decodeFrame(bytes);
  return { head: frame.head as A, body: frame.body };
}
