/**
 * Runs one stored webhook as the agent's `onRequest`, and makes the requests that agents and
 * modules receive. `runEnvelope` calls it for inputs of its kind; `InputRuns` answers with its
 * result.
 */
import { LazyRequest, type LazyRequestInit } from "../lazyFetch/LazyRequest.ts";
import { wholeResponse, type ResponseParts } from "../http/takeResponse.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";

export interface WebhookAgent extends Pick<AgentTurns, "id"> {
  readonly agent: { onRequest(request: Request): Response | Promise<Response> };
}

export function runWebhook(
  agent: WebhookAgent,
  turn: Turn,
  head: InboxHead,
  body: Uint8Array,
): Promise<ResponseParts> {
  const request = makeRequest(head.method ?? "POST", head.url ?? "http://agent/", {
    headers: head.headers ?? {},
    body,
  });
  turn.request = request;
  // Not `async`, which saves a promise for each webhook.
  return Promise.resolve(agent.agent.onRequest(request)).then((response) =>
    wholeResponse(response, agent.id.class),
  );
}

/** A `Request`; GET and HEAD have no body. Throws `TypeError` for a bad method, URL or header. */
export function makeRequest(
  method: string,
  url: string,
  parts: Pick<LazyRequestInit, "headers" | "abort"> & { readonly body: Uint8Array },
): Request {
  const bare = method === "GET" || method === "HEAD" || parts.body.length === 0;
  return LazyRequest.make(url, {
    method,
    headers: parts.headers,
    body: bare ? null : parts.body,
    abort: parts.abort,
  });
}
