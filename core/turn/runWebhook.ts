/**
 * Runs one stored webhook as the agent's `onRequest`, and takes responses apart for the wire: whole for
 * the answer to a durable input, its beginning and the rest for a caller that takes it piece by piece.
 */
import { LazyRequest, type LazyRequestInit } from "../http/LazyRequest.ts";
import { LazyResponse } from "../http/LazyResponse.ts";
import { readAhead, type PendingBody } from "../http/readAhead.ts";
import type { HeaderPairs } from "../../schemas/Call.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { PIECE_BYTES_MAX } from "./ResponseStreams.ts";
import type { Turn } from "./Turn.ts";

export interface ResponseParts {
  readonly status: number;
  readonly headers: HeaderPairs;
  readonly body: Uint8Array | string;
}

/** With what is still being made of the body. */
export interface ResponseBegun extends ResponseParts {
  readonly rest: PendingBody | undefined;
}

export async function runWebhook(
  agent: ActiveAgent,
  turn: Turn,
  head: InboxHead,
  body: Uint8Array,
): Promise<ResponseParts> {
  const request = makeRequest(head.method ?? "POST", head.url ?? "http://agent/", {
    headers: head.headers ?? {},
    body,
  });
  turn.request = request;
  return responseParts(await agent.agent.onRequest(request));
}

/** A `Request`; GET and HEAD carry no body. Throws `TypeError` for what no HTTP request can be. */
export function makeRequest(
  method: string,
  url: string,
  parts: Pick<LazyRequestInit, "headers" | "signal"> & { readonly body: Uint8Array },
): Request {
  const bare = method === "GET" || method === "HEAD" || parts.body.length === 0;
  return LazyRequest.make(url, {
    method,
    headers: parts.headers,
    body: bare ? null : parts.body,
    signal: parts.signal,
  });
}

/** Not `async`: most bodies are at hand, and a promise more is one of those that a webhook waits for. Throws as `partsAtHand`. */
export const responseParts = (response: Response): ResponseParts | Promise<ResponseParts> =>
  partsAtHand(response) ?? wholeParts(response);

/** Of one whose body need not be waited for. Throws `TypeError` when the agent returned something that is no `Response`. */
function partsAtHand(response: Response): ResponseParts | undefined {
  assertResponse(response);
  return LazyResponse.parts(response);
}

async function wholeParts(response: Response): Promise<ResponseParts> {
  const body = response.body === null ? "" : new Uint8Array(await response.arrayBuffer());
  return { status: response.status, headers: [...response.headers], body };
}

/** For a caller who takes a body as it is made: waits for no more than its beginning. Throws as `partsAtHand`. */
export async function responseBegun(response: Response): Promise<ResponseBegun> {
  const parts = partsAtHand(response);
  if (parts !== undefined) return { rest: undefined, ...parts };
  const { status } = response;
  const headers: HeaderPairs = [...response.headers];
  if (response.body === null) return { status, headers, body: "", rest: undefined };
  const reader = response.body.getReader();
  const { bytes, rest } = await readAhead({ reader, next: undefined }, PIECE_BYTES_MAX);
  return { status, headers, body: bytes, rest };
}

function assertResponse(response: unknown): void {
  if (isResponse(response)) return;
  throw new TypeError(
    `onRequest must return a Response; it returned ${response === null ? "null" : typeof response}`,
  );
}

/** By shape, not by class: a module may bring a `Response` of its own (a polyfill, another realm). */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Response).status === "number" &&
  typeof (value as Response).arrayBuffer === "function";
