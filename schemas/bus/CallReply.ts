/**
 * The answers of hosts: the reply to a `Call`, and the answer to a durable input, which goes to the
 * subject in its envelope.
 */
import type { SocketAttachment } from "./GatewayMessage.ts";
import type { HeaderPairs } from "./message.ts";

/** Start of the names of blobs that hold an answer's body. A caller reads and removes no other. */
export const ANSWER_BLOBS = "answers/";

/** An error on the wire, for the other side to catch. Its stack is internal, so it is left out. */
export interface RemoteError {
  readonly name: string;
  readonly message: string;
  readonly cause?: RemoteCause;
  /** Own properties, such as `code`. Absent: it has none, or is from an older host. */
  readonly fields?: Readonly<Record<string, string | number | boolean>>;
  /** Of a `JournalRateExceeded`, which the caller receives as one. Absent: from an older host. */
  readonly journalRate?: { readonly bytesMax: number; readonly retryAfterMs: number };
}
export type RemoteCause = { readonly error: RemoteError } | { readonly value: unknown };

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
  | { readonly kind: "piece"; readonly end?: "whole" | "failed" | "gone"; readonly blob?: string }
  /** The socket is accepted. Frames that were sent to it before come first, then `close`. */
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
  /** The host does not know this socket, or not its last message: `resume`, then send it again. */
  | { readonly kind: "unknownSocket" }
  /** The input is applied and stored. The body is its response's; other fields: `InputAnswer`. */
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
  /** Why the host refused the input, and neither ran nor stored it. Absent: it did not. */
  readonly refused?: string;
  /** The host has said in its log and in the delivery log how the input ended. */
  readonly reported?: true;
  readonly blob?: string;
}
