/**
 * The messages between gateways and hosts over the bus (core NATS). Each message is a `Frame`.
 *
 * A *call* is a request to `Subjects.call(shard, id)`; the host that owns the shard answers with
 * one `CallReply`. No responders means that no host owns the shard at the moment: the caller waits
 * and retries within its own deadline. A *gateway message* on `Subjects.gateway(id, "frame")` is a
 * frame for sockets, in order. An *answer* to a durable input goes to the subject in its envelope.
 *
 * These types are not decoded by schema: both ends are processes of this release, `Frame` has
 * checked version and checksum, and the socket relay is a hot path.
 */
import type { AgentsQuestion } from "./AgentsQuestion.ts";
import { decodeFrame, encodeFrame } from "./Frame.ts";
import type { InboxHead } from "./InboxEnvelope.ts";
import type { TargetCall } from "./TargetCall.ts";

/** Start of the names of blobs that hold a call's body. A host reads no other blob for a call. */
export const CALL_BLOBS = "calls/";
/** The same for an answer's body. A caller reads and removes no other blob for an answer. */
export const ANSWER_BLOBS = "answers/";

export type HeaderPairs = ReadonlyArray<readonly [string, string]>;

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
  /**
   * Set by the host after `connect`; survives hibernation and moves. The gateway reads only
   * `protocol`.
   */
  readonly attachment?: SocketAttachment;
  /**
   * Number of the first message of its client that is not known to be accepted. Absent: only the
   * gateway knows.
   */
  readonly next?: number;
}

export interface SocketAttachment {
  readonly tags: ReadonlyArray<string>;
  readonly state: unknown;
  readonly readonly: boolean;
  /** False: protocol frames (identity, state, MCP servers) are not sent to this socket. */
  readonly protocol: boolean;
  /**
   * The agent's life that it belongs to: the sequence of the last `destroyed` event. Absent: the
   * first life.
   */
  readonly life?: number;
  /**
   * The durable streams that its client reads: the client's id for it, and the key. Absent: none.
   */
  readonly reads?: ReadonlyArray<readonly [id: string, key: string]>;
}

/** An error on the wire, for the other side to catch. Its stack is internal, so it is left out. */
export interface RemoteError {
  readonly name: string;
  readonly message: string;
  readonly cause?: RemoteCause;
}
export type RemoteCause = { readonly error: RemoteError } | { readonly value: unknown };

/**
 * `suspect`: its host was lost while the call was pending, possibly because of it
 * (`core/input/Suspects`). `token`: the caller may cancel it by this name. `depth`: how many agents
 * wait for its answer, each for the next; absent: none. Older hosts ignore all three.
 */
export type Call = CallHead & {
  readonly suspect?: true;
  readonly token?: string;
  readonly depth?: number;
  /** W3C trace context of the caller. Absent: it is not traced, or a header of a `fetch` has it. */
  readonly traceparent?: string;
};

type CallHead =
  | {
      readonly kind: "fetch";
      readonly id: string;
      readonly method: string;
      readonly url: string;
      readonly headers: HeaderPairs;
      /**
       * Props for `onStart`, from `routeAgentRequest` or `getAgentByName`. The gateway removes any
       * that a client sends.
       */
      readonly props?: unknown;
      /**
       * The method that takes the request in place of `onRequest`: a stub's call with a `Request`.
       * An older host ignores it.
       */
      readonly to?: string;
      /** Key of the body in the blob store, for a body past the bus's payload limit. */
      readonly blob?: string;
    }
  /**
   * Asks whether this upgrade is for the agent itself or for a sub-agent that its URL names.
   * Answered `taken`, or as a `fetch` (`core/runtime/subAgentCalls`).
   */
  | {
      readonly kind: "gate";
      readonly id: string;
      readonly method: string;
      readonly url: string;
      readonly headers: HeaderPairs;
      readonly props?: unknown;
    }
  /** `readonly`: the default, which the agent's `shouldConnectionBeReadonly` can override. */
  | {
      readonly kind: "connect";
      readonly socket: SocketInfo;
      readonly props?: unknown;
      readonly readonly?: true;
    }
  /**
   * Informs a host that took over or woke about a socket that is already open. Answered `taken`.
   */
  | { readonly kind: "resume"; readonly socket: SocketInfo }
  /**
   * The frame's body is the message. `text`: it was a text message. `number`: counts the client's
   * messages from 1; the agent accepts each number once and in order. Absent: an older gateway,
   * which sends one message at a time.
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
  /** `durable`: under the caller's key, so that it may be repeated. Older hosts refuse it. */
  | (({ readonly kind: "rpc" } | { readonly kind: "durable"; readonly key: string }) & {
      readonly method: string;
      readonly args: ReadonlyArray<unknown>;
      /** `args` is one `StructuredText` of all arguments, and the result must be one. */
      readonly structured?: true;
      readonly props?: unknown;
    })
  | TargetCall
  /**
   * Requests the next piece of a response's body (`stream` of a `response`). `cancel`: ends the
   * body.
   */
  | { readonly kind: "pull"; readonly stream: string; readonly cancel?: true }
  /**
   * The caller of the call with this token waits no more: the signal of its turn aborts. Answered
   * `taken`, whether the call is still under way or not. Older hosts refuse it.
   */
  | { readonly kind: "cancel"; readonly call: string }
  /**
   * What the agents of the shard cost (`core/telemetry/Usage`); the address only says which shard.
   * Answered `result`. Older hosts refuse it.
   */
  | { readonly kind: "usage" }
  /**
   * A question over all agents (`core/query/Queries`); the address only says which shard. Answered
   * `response` with an `AgentsAnswer` as JSON. Older hosts refuse it.
   */
  | ({ readonly kind: "query" } & AgentsQuestion)
  /**
   * The agent's open sockets, in the order in which the host has them (`SocketLists`). The
   * agent is not woken. Answered `result`. Older hosts refuse it, and wake the agent.
   */
  | { readonly kind: "connections"; readonly skip: number; readonly limit: number }
  /**
   * Ends the agent's quarantine. Answered `result` with its `QuarantineMark`, or with null where it
   * is not quarantined. Older hosts refuse it.
   */
  | { readonly kind: "release" }
  /**
   * A durable input that is not stored (`core/input/DirectInput`), with its own body. Answered
   * `done` or `stored`. After any other reply, or none, the caller stores it in the inbox.
   */
  | { readonly kind: "input"; readonly head: InboxHead }
  /**
   * Erases the agent without running its code, and drops its waiting inputs. Answered `result` with
   * the journal's sequence (`endLife`).
   */
  | { readonly kind: "erase" }
  /**
   * Puts the agent back to the snapshot in the body (`core/restore/restoreEvent`), once for each
   * `key`, and only in the life that it is in. Answered `result` with the journal's sequence. Older
   * hosts refuse it.
   */
  | {
      readonly kind: "restore";
      readonly key: string;
      /** As `SnapshotHead.life`; 0: the first. */
      readonly life: number;
      /** As for `fetch`. */
      readonly blob?: string;
    }
  /** A sub-agent is requested, or has destroyed itself. Answered `result`. */
  | {
      readonly kind: "child";
      readonly op: "add" | "forget";
      readonly className: string;
      readonly name: string;
    }
  /** The parent deletes this agent. Answered `result` once that is stored. */
  | { readonly kind: "end" }
  /**
   * Discards the agent from memory, with all that it has not stored. Answered
   * `taken`.
   */
  | { readonly kind: "abort"; readonly reason: string }
  /** Requests the current state. Starts the agent, with `props`, when it is not in memory. */
  | { readonly kind: "state"; readonly props?: unknown };

/** The calls that an agent's slot answers; the shard answers the others. */
export type SlotCall = Exclude<
  Call,
  { readonly kind: "query" | "usage" | "release" | "connections" }
>;

/** The calls that the agent itself answers. */
export type AgentCall = Exclude<
  Call,
  {
    readonly kind:
      | "erase"
      | "restore"
      | "input"
      | "abort"
      | "cancel"
      | "query"
      | "usage"
      | "release"
      | "connections";
  }
>;

export type CallReply =
  | {
      readonly kind: "response";
      readonly status: number;
      readonly headers: HeaderPairs;
      readonly blob?: string;
      /** The body continues: `pull` it by this id. */
      readonly stream?: string;
    }
  /**
   * The request is for another agent: the caller sends it there with this URL and, where present,
   * with this method, these headers and the reply's body.
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
   * A piece of a body; empty after a while without data: pull again. `end`: the last piece, because
   * the body is `whole`, the agent's stream `failed`, or it is `gone` with its host.
   */
  | {
      readonly kind: "piece";
      readonly end?: "whole" | "failed" | "gone";
      readonly blob?: string;
    }
  /**
   * The socket is accepted. Frames that were sent to it before this reply come first, then `close`.
   */
  | {
      readonly kind: "connected";
      readonly attachment: SocketAttachment;
      readonly close?: { readonly code: number; readonly reason: string };
    }
  /**
   * The message or the close is accepted; no further reply follows. `next`: all messages of the
   * socket below this number are accepted too.
   */
  | { readonly kind: "taken"; readonly next?: number }
  /**
   * The host does not know this socket, or expects another message: send `resume`, then the message
   * again.
   */
  | { readonly kind: "unknownSocket" }
  /**
   * The input is applied and stored. The body is that of its response; other fields are as in
   * `InputAnswer`.
   */
  | ({ readonly kind: "done" } & Omit<InputAnswer, "id">)
  /** The input is in the inbox. Its answer goes to the reply subject of its envelope. */
  | { readonly kind: "stored" }
  /** `structured`: the value is a `StructuredText`. */
  | { readonly kind: "result"; readonly value?: unknown; readonly structured?: true }
  | ({ readonly kind: "error" } & RemoteError)
  /** `seq` and `time` of the last event; 0 without one. */
  | {
      readonly kind: "state";
      readonly seq: number;
      readonly time: number;
      readonly state?: unknown;
    }
  /**
   * Not handled by this host now (no lease, starting, stopping). Nothing was done: retry. `late`:
   * the lease has expired or the call had begun, so it may be done, here or elsewhere. `ended`: the
   * process that ran it alone has ended; it counts like the loss of a host.
   */
  | { readonly kind: "notHere"; readonly late?: true; readonly ended?: true };

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
  /** The journal sequence at which the input was first applied. Absent: it was not a duplicate. */
  readonly duplicateOf?: number;
  /** Journal sequence of the event that ended the input. Absent: from an older host. */
  readonly seq?: number;
  /** The input exhausted its attempts, and the answer is the plain 500. */
  readonly dead?: true;
  /** The host has said in its log and in the delivery log how the input ended. */
  readonly reported?: true;
  readonly blob?: string;
}

/** Every host's answer on `Subjects.erasure`: its local files of the agent are deleted. */
export type ErasureReply = { readonly host: string };

export const encodeMessage = <A extends object>(head: A, body?: Uint8Array): Uint8Array =>
  encodeFrame(head, body);

/**
 * Trusts the head to be an `A`, as the header explains. Throws `CorruptFrame` or `UnknownVersion`.
 */
export function decodeMessage<A>(bytes: Uint8Array): {
  readonly head: A;
  readonly body: Uint8Array;
} {
  const frame = decodeFrame(bytes);
  return { head: frame.head as A, body: frame.body };
}
