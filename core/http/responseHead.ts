/**
 * What may stand in the head of a response, decided once for every adapter: the status line's
 * reason, which header fields are the server's own, and which values could break out of their line
 * (response splitting). Adapters call it before they write the first byte, so a response that is
 * refused here has left nothing on the wire and another can still be sent.
 */
import type { HttpResponse } from "./HttpServer.ts";

/** A short answer of the server's own. */
export const textResponse = (status: number, body: string): HttpResponse => ({
  status,
  headers: [["content-type", "text/plain;charset=UTF-8"]],
  body,
});

// The IANA registry of HTTP status codes, without those that HTTP/1.1 responses cannot carry (1xx).
const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  203: "Non-Authoritative Information",
  204: "No Content",
  205: "Reset Content",
  206: "Partial Content",
  207: "Multi-Status",
  208: "Already Reported",
  226: "IM Used",
  300: "Multiple Choices",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  305: "Use Proxy",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  418: "I'm a teapot",
  421: "Misdirected Request",
  422: "Unprocessable Content",
  423: "Locked",
  424: "Failed Dependency",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  506: "Variant Also Negotiates",
  507: "Insufficient Storage",
  508: "Loop Detected",
  510: "Not Extended",
  511: "Network Authentication Required",
};

/** Final statuses only: 200 to 999. A code that is not registered gets the reason "Unknown". */
export const reasonPhrase = (status: number): string => {
  if (Number.isInteger(status) && status >= 200 && status <= 999)
    return REASONS[status] ?? "Unknown";
  throw new RangeError(`A response's status must be an integer from 200 to 999, not ${status}`);
};

/**
 * Whether the status means that no body follows, whatever the head says (RFC 9112, section 6.3).
 */
export const bodiless = (status: number): boolean => status === 204 || status === 304;

/**
 * Whether a whole answer says how long its body is. To a HEAD only where there is one: many
 * frameworks take it away, and a length must be a GET's or not be said (RFC 9110 §8.6).
 */
export const saysLength = (
  { status, body }: { readonly status: number; readonly body: Uint8Array | string },
  method: string,
): boolean => !bodiless(status) && (method !== "HEAD" || body.length > 0);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const PRINTABLE = /^[\t\x20-\x7e]*$/;
const LATIN1 = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Whether the text can name a header field, or an item of one (RFC 9110, section 5.6.2). */
export const isToken = (text: string): boolean => TOKEN.test(text);

/**
 * Whether the value can go out as it is, or must be encoded as Latin-1. Throws on one that may not
 * go out.
 */
export const headerEncoding = (name: string, value: string): "ascii" | "latin1" => {
  if (typeof value !== "string" || !isToken(name))
    throw new TypeError(`Not a header: ${JSON.stringify(name)} with a value of ${typeof value}`);
  if (PRINTABLE.test(value)) return "ascii";
  if (LATIN1.test(value)) return "latin1";
  throw new TypeError(`The value of header ${name} contains a character that is not allowed`);
};

export type HeaderOwner = "handler" | "server" | "connection";

/**
 * Framing, connection and date belong to the server; what a handler says about them is dropped,
 * save `connection: close`.
 */
export const headerOwner = (name: string): HeaderOwner => {
  switch (name.toLowerCase()) {
    case "connection":
      return "connection";
    case "content-length":
    case "transfer-encoding":
    case "keep-alive":
    case "upgrade":
    case "trailer":
    case "date":
      return "server";
    default:
      return "handler";
  }
};

/** What a caller gets whose handler failed; why is in the log. */
export const FAILED = textResponse(500, "Internal Server Error");

/** Throws an error that says why the response can't be sent. Nothing else stops one that passes. */
export const assertSendable = ({ status, headers, body }: HttpResponse): void => {
  reasonPhrase(status);
  for (const [name, value] of headers) headerEncoding(name, value);
  if (typeof body !== "string" && !(body instanceof Uint8Array))
    throw new TypeError(`A response's body must be text or bytes, not ${typeof body}`);
};
