/**
 * What a process asks of an agent, or of the host of its shard: a request to `Subjects.call(shard,
 * id)`, or to `Subjects.control(shard, id)` if `isControl`, which the host that owns the shard
 * answers with one `CallReply`. No responders means that no host owns the shard at the moment: the
 * caller waits and retries within its own deadline.
 */
import type { AgentsQuestion } from "../AgentsQuestion.ts";
import type { InboxHead } from "../InboxEnvelope.ts";
import type { SocketInfo } from "./GatewayMessage.ts";
import type { HeaderPairs } from "./message.ts";
import type { TargetCall } from "./TargetCall.ts";

/** Start of the names of blobs that hold a call's body. A host reads no other blob for a call. */
export const CALL_BLOBS = "calls/";

/**
 * `suspect`: its host was lost while the call was pending, possibly because of it
 * (`core/input/Suspects`). `token`: the caller may cancel it by this name. `depth`: how many agents
 * wait for its answer, each for the next; absent: none. `piece`: the most bytes of a streamed body
 * in the answer; absent: 256 KiB. Older hosts ignore all four.
 */
export type Call = CallHead & {
  readonly suspect?: true;
  readonly token?: string;
  readonly depth?: number;
  readonly piece?: number;
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
   * Answered `taken`, or as a `fetch` (`core/runtime/subAgentCalls`). `readonly`: as for `connect`;
   * such a caller creates no sub-agent. An older host ignores it.
   */
  | {
      readonly kind: "gate";
      readonly id: string;
      readonly method: string;
      readonly url: string;
      readonly headers: HeaderPairs;
      readonly props?: unknown;
      readonly readonly?: true;
    }
  /** `readonly`: the default, which the agent's `shouldConnectionBeReadonly` can override. */
  | {
      readonly kind: "connect";
      readonly socket: SocketInfo;
      readonly props?: unknown;
      readonly readonly?: true;
    }
  /** Informs a host that took over or woke about a socket that is open. Answered `taken`. */
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
  /** Requests the next piece of a response's body (`stream` of `response`). `cancel`: ends it. */
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
  /** Discards the agent from memory, with all that it has not stored. Answered `taken`. */
  | { readonly kind: "abort"; readonly reason: string }
  /** Requests the current state. Starts the agent, with `props`, when it is not in memory. */
  | { readonly kind: "state"; readonly props?: unknown };

/**
 * Whether only hosts and operators may make the call, on `Subjects.control`: it ends or replaces
 * agents, discards what they have not stored, or asks for what a host knows of its agents. Gateways
 * and mail processes make all other calls (`deploy/nats/permissions.conf`).
 */
export function isControl(call: Call): boolean {
  switch (call.kind) {
    case "erase":
    case "restore":
    case "release":
    case "end":
    case "abort":
    case "connections":
    case "usage":
    case "query":
      return true;
    case "child":
      // A gateway's module adds sub-agents (`getSubAgentByName`).
      return call.op === "forget";
    default:
      return false;
  }
}

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
