/**
 * The outgoing HTTP port: webhooks that agents send (`interface.md` §4.2).
 *
 * 1. Unless `allowPrivate`, nothing is sent to an address that is not of the public internet:
 *    loopback, private, link-local and metadata addresses, multicast and those reserved. Asked of
 *    every address that the name resolves to, and again of the one that is connected to, before the
 *    first byte goes.
 * 2. Redirects are not followed: their status is the answer.
 *
 * `services/node/NodeOutgoing` implements it on node:http.
 */
import type { Abort } from "../lazyFetch/AbortSource.ts";
import * as Context from "effect/Context";

export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly allowPrivate: boolean;
  readonly timeoutMs: number;
  /** Gives the request up: `Failed`. */
  readonly abort?: Abort;
}

export type OutgoingResult =
  | { readonly _tag: "Answered"; readonly status: number }
  /** Rule 1: a repetition would be refused, too. */
  | { readonly _tag: "Refused"; readonly message: string }
  /** No answer: not resolved, not connected, cut, or not in time. */
  | { readonly _tag: "Failed"; readonly message: string };

export interface OutgoingShape {
  readonly post: (request: OutgoingRequest) => Promise<OutgoingResult>;
  /** Why a URL's host is refused, as far as it is known unresolved; undefined if it is not. */
  readonly refusal: (url: URL) => string | undefined;
  readonly hmacSha256: (key: Uint8Array, data: Uint8Array) => Uint8Array;
}

export class Outgoing extends Context.Service<Outgoing, OutgoingShape>()(
  "agents/core/outgoing/Outgoing",
) {}

const missing = (): never => {
  throw new Error(
    "sendWebhook: this process can't send requests. Call it in an agent that a host runs",
  );
};

/** For processes that send nothing. */
export const NO_OUTGOING: OutgoingShape = { post: missing, refusal: missing, hmacSha256: missing };
