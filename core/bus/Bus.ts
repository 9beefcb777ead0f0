/**
 * The bus port: core NATS. Fast, ordered per sender and receiver, at most once: nothing that must
 * survive goes here. `services/nats/NatsBus`, `services/memory/MemoryBus`; one conformance suite.
 */
import * as Context from "effect/Context";
import * as Data from "effect/Data";

/** The broker can't be reached, or did not answer in time. Retry later. */
export class BrokerUnavailable extends Data.TaggedError("BrokerUnavailable")<{
  readonly message: string;
}> {}

/** The login may not make the request. The broker drops it, until a reload permits it. */
export class NotPermitted extends BrokerUnavailable {
  /** For what knows errors by their fields alone: the broker was reached. */
  readonly isRefusal = true;
}

export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  /** The subject on which an answer is awaited, if any: one where processes await answers. */
  readonly reply: string | undefined;
}

export type BusReply =
  | { readonly _tag: "Reply"; readonly data: Uint8Array }
  /** Nobody listens on the subject. Nothing was delivered. */
  | { readonly _tag: "NoResponders" }
  /** This process may not ask there. `message` names what it may not use. */
  | { readonly _tag: "Denied"; readonly message: string }
  /** No answer within `timeoutMs`, or the connection broke: it may have been delivered. */
  | { readonly _tag: "TimedOut" };

export interface BusShape {
  /** Bytes of the largest message, payload and headers. */
  readonly payloadBytesMax: number;
  /** Sends without waiting; dropped without a broker. Throws RangeError past `payloadBytesMax`. */
  readonly publish: (subject: string, data: Uint8Array, reply?: string) => void;
  /**
   * Publishes the answer to a request (`BusMessage.reply`). It may be batched with others, and what
   * is published after it may arrive first. An answer that must not be overtaken is sent by
   * `publish`.
   */
  readonly answer: (reply: string, data: Uint8Array) => void;
  /**
   * Delivers in order what other processes publish. `*` and `>` as in NATS. With `queue`, each
   * message goes to one member of the group. A process receives what it publishes or asks itself
   * only where it listens `alone`; otherwise a host would receive the states of its own agents.
   * `alone`: no other process listens on this subject, or none whose answer counts, so what this
   * one publishes or asks there is handed over without the broker, later than the call returns and
   * in order. Such a subject has no `*`, and a `>` only at its end. The returned function ends it:
   * what was on its way is still delivered, and then it resolves (at once while the broker is
   * away).
   */
  readonly subscribe: (
    subject: string,
    handler: (message: BusMessage) => void,
    options?: { readonly queue?: string; readonly alone?: boolean },
  ) => () => Promise<void>;
  /**
   * Asks whoever listens. `signal` ends it with `TimedOut`. Where one process listens alone, the
   * signal fires once that process may be another: what was learned of it is forgotten then.
   */
  readonly request: (
    subject: string,
    data: Uint8Array,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ) => Promise<BusReply>;
  /** False while the connection to the broker is down. */
  readonly connected: () => boolean;
  /**
   * Calls `f` whenever the connection is restored, until the returned function is called. What
   * others published meanwhile is lost.
   */
  readonly onReconnected: (f: () => void) => () => void;
}

export class Bus extends Context.Service<Bus, BusShape>()("agents/core/bus/Bus") {}
