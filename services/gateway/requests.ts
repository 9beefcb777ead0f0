/**
 * Between the server port's requests and the web's: URLs as the caller saw them, headers without what
 * only the inside may set, `Request` and `Response` for a module's `fetch`. Pure.
 */
import type { BodyReader, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { LazyResponse } from "../../core/http/LazyResponse.ts";
import { readAhead } from "../../core/http/readAhead.ts";
import { makeRequest } from "../../core/turn/runWebhook.ts";
import type { HeaderPairs } from "../../schemas/Call.ts";

/** Headers that the inside sets; from a client they are forgeries (`protocol.md`, table at the top). */
const INTERNAL_PREFIXES = ["x-agents-", "x-cf-agents-"];
/** Of one connection, not of the message (RFC 9110 §7.6.1); the server writes its own. */
const HOP_BY_HOP = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
]);

/** A body that is there at once is answered whole, with its length; every agent's answer that is no stream. */
const WHOLE_BYTES_MAX = Number.POSITIVE_INFINITY;

/** The full URL as the caller saw it. `publicUrl` stands for scheme and authority where it is configured. */
export function urlOf(request: HttpRequest, publicUrl: string | undefined): string {
  if (publicUrl !== undefined) return publicUrl.replace(/\/$/, "") + request.target;
  const host = request.headers["host"]?.[0] ?? "localhost";
  return `${request.secure ? "https" : "http"}://${host}${request.target}`;
}

/** As pairs; without forged internal headers. */
export function headerPairs(request: HttpRequest): HeaderPairs {
  const pairs: Array<readonly [string, string]> = [];
  for (const name in request.headers) {
    if (INTERNAL_PREFIXES.some((prefix) => name.startsWith(prefix))) continue;
    for (const value of request.headers[name]!) pairs.push([name, value]);
  }
  return pairs;
}

/** As a record, repeated headers joined with ", ". */
export function headerRecord(request: HttpRequest): Record<string, string> {
  const record: Record<string, string> = {};
  for (const name in request.headers)
    if (!INTERNAL_PREFIXES.some((prefix) => name.startsWith(prefix)))
      record[name] = request.headers[name]!.join(", ");
  return record;
}

/** The path of a request target, without the query. */
export function pathOf(target: string): string {
  const query = target.indexOf("?");
  return query === -1 ? target : target.slice(0, query);
}

/** `aborted`: fires when the caller leaves. Throws `TypeError` for a URL or a header that no `Request` can have. */
export const toRequest = (
  request: HttpRequest,
  url: string,
  body: Uint8Array,
  aborted: () => AbortSignal,
): Request => {
  const headers = headerPairs(request) as [string, string][];
  return makeRequest(request.method, url, { headers, body, signal: aborted });
};

/** `rest`: its body is still being made. */
export async function toHttpResponse(
  response: Response,
): Promise<HttpResponse & { readonly rest?: BodyReader }> {
  const parts = LazyResponse.parts(response);
  // A response to an upgrade says another status.
  if (parts?.status === response.status)
    return { status: parts.status, headers: messageHeaders(parts.headers), body: parts.body };
  const head = { status: response.status, headers: messageHeaders([...response.headers]) };
  if (response.body === null) return { body: "", ...head };
  const reader = response.body.getReader();
  const { bytes, rest } = await readAhead({ reader, next: undefined }, WHOLE_BYTES_MAX);
  if (rest === undefined) return { body: bytes, ...head };
  // The read that was begun is the first of what follows.
  let { next } = rest;
  const read = (): ReturnType<BodyReader["read"]> => {
    const begun = next;
    next = undefined;
    return begun ?? reader.read();
  };
  return { body: bytes, rest: { read, cancel: (reason) => reader.cancel(reason) }, ...head };
}

/** Without what belongs to one connection. */
export const messageHeaders = (headers: HeaderPairs): HeaderPairs =>
  headers.some(([name]) => HOP_BY_HOP.has(name))
    ? headers.filter(([name]) => !HOP_BY_HOP.has(name))
    : headers;

export const plain = (status: number, body: string, headers: HeaderPairs = []): HttpResponse => ({
  status,
  headers: [["content-type", "text/plain;charset=UTF-8"], ...headers],
  body,
});
