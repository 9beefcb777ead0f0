/**
 * Converts between the requests of the HTTP server port and the web's `Request` and `Response`:
 * full URLs as the caller saw them, headers without forged internal ones, bodies. Pure.
 */
import type { Abort } from "../../core/lazyFetch/AbortSource.ts";
import type { BodyReader, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { emptyRecord } from "../../core/http/requestHead.ts";
import { beginResponse } from "../../core/http/takeResponse.ts";
import type { Redaction } from "../../core/redaction/Redaction.ts";
import { makeRequest } from "../../core/input/runWebhook.ts";
import type { HeaderPairs } from "../../schemas/bus/message.ts";

/** Prefixes of headers that only gateways and hosts set (`protocol.md`, table at the top). */
const INTERNAL_PREFIXES = ["x-agents-", "x-cf-agents-"];
/**
 * Headers of a connection, not of a message (RFC 9110 §7.6.1). The server has read those of a
 * request: Node's `fetch` refuses to send a request that code passes on with one of them. It writes
 * its own to answers.
 */
const HOP_BY_HOP = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
]);

/** A body that is there is sent whole, with its length. A stream without end is not waited for. */
const WHOLE_BYTES_MAX = 64 * 1024 * 1024;

/** Names the source of a response in errors. */
const MODULE_FETCH = "The module's fetch";

/** The full URL as the caller saw it. `publicUrl`, if set, replaces scheme and authority. */
export function urlOf(request: HttpRequest, publicUrl: string | undefined): string {
  if (publicUrl !== undefined) return publicUrl.replace(/\/$/, "") + request.target;
  const host = request.headers["host"]?.[0] || "localhost";
  return `${request.secure ? "https" : "http"}://${host}${request.target}`;
}

/** Whether a request's header is the connection's, or an internal one that the caller forged. */
const isNotMessages = (name: string): boolean =>
  HOP_BY_HOP.has(name) || INTERNAL_PREFIXES.some((prefix) => name.startsWith(prefix));

/** Returns the headers of the message as pairs. */
function headerPairs(request: HttpRequest): HeaderPairs {
  const pairs: Array<readonly [string, string]> = [];
  for (const name in request.headers) {
    if (isNotMessages(name)) continue;
    for (const value of request.headers[name]!) pairs.push([name, value]);
  }
  return pairs;
}

/**
 * Returns the headers of the message as a record, repeated ones joined with ", ". The record is
 * stored, so it contains no credentials.
 */
export function headerRecord(request: HttpRequest, redaction: Redaction): Record<string, string> {
  const record = emptyRecord<string>();
  for (const name in request.headers)
    if (!redaction.hidesHeader(name) && !isNotMessages(name))
      record[name] = request.headers[name]!.join(", ");
  return record;
}

/**
 * Creates a web `Request`. `abort` fires when the caller disconnects. Throws `TypeError` for a URL
 * or a header that a `Request` cannot have.
 */
export const toRequest = (
  request: HttpRequest,
  url: string,
  body: Uint8Array,
  abort: Abort,
): Request => {
  const headers = headerPairs(request) as [string, string][];
  return makeRequest(request.method, url, { headers, body, abort });
};

/** `rest` reads the remainder of a streamed body. Absent if `body` is all of it. */
export type GatewayAnswer = HttpResponse & { readonly rest?: BodyReader };

/**
 * Converts the response of a module's `fetch`. Rejects if it cannot be sent, and with the error of
 * its body if the first read fails.
 */
export async function toHttpResponse(response: Response): Promise<GatewayAnswer> {
  const begun = await beginResponse(response, MODULE_FETCH, WHOLE_BYTES_MAX);
  const { status, body, rest } = begun;
  const answer = { status, headers: messageHeaders(begun.headers), body };
  if (rest === undefined) return answer;
  const { reader, held, next } = rest;
  // What `beginResponse` has read, or begun to read, comes first.
  let first = held === undefined ? next : Promise.resolve({ done: false, value: held } as const);
  const read = (): ReturnType<BodyReader["read"]> => {
    const result = first ?? reader.read();
    first = undefined;
    return result;
  };
  return { ...answer, rest: { read, cancel: (reason) => reader.cancel(reason) } };
}

/** Removes the headers of a connection, and the length, which the server finds itself. */
export const messageHeaders = (headers: HeaderPairs): HeaderPairs =>
  headers.some(([name]) => isServers(name))
    ? headers.filter(([name]) => !isServers(name))
    : headers;

const isServers = (name: string): boolean => name === "content-length" || HOP_BY_HOP.has(name);
