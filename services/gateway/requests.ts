/**
 * Between the server port's requests and the web's: URLs as the caller saw them, headers without what
 * only the inside may set, `Request` and `Response` for a module's `fetch`. Pure.
 */
import type { BodyReader, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { beginResponse } from "../../core/http/takeResponse.ts";
import type { Redaction } from "../../core/redaction/Redaction.ts";
import { makeRequest } from "../../core/input/runWebhook.ts";
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

/** Who returned it, for errors. */
const MODULE_FETCH = "The module's fetch";

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

/** As a record, repeated headers joined with ", "; without credentials, for it is stored. */
export function headerRecord(request: HttpRequest, redaction: Redaction): Record<string, string> {
  const record: Record<string, string> = {};
  for (const name in request.headers)
    if (
      !redaction.hidesHeader(name) &&
      !INTERNAL_PREFIXES.some((prefix) => name.startsWith(prefix))
    )
      record[name] = request.headers[name]!.join(", ");
  return record;
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
export type GatewayAnswer = HttpResponse & { readonly rest?: BodyReader };

/** What a module's `fetch` returned, as it goes out. Rejects with why it can't, or with what its body failed with at once. */
export async function toHttpResponse(response: Response): Promise<GatewayAnswer> {
  const begun = await beginResponse(response, MODULE_FETCH, WHOLE_BYTES_MAX);
  const { status, body, rest } = begun;
  const answer = { status, headers: messageHeaders(begun.headers), body };
  if (rest === undefined) return answer;
  const { reader } = rest;
  // The read that was begun is the first of what follows.
  let { next } = rest;
  const read = (): ReturnType<BodyReader["read"]> => {
    const first = next;
    next = undefined;
    return first ?? reader.read();
  };
  return { ...answer, rest: { read, cancel: (reason) => reader.cancel(reason) } };
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
