/**
 * Decides for every adapter what the head of a response may contain: the reason phrase, the header
 * fields that only the server sets, and the values that could break out of their line (response
 * splitting). Adapters call it before they write the first byte, so that another response can be
 * sent in place of a refused one.
 */
import type { HttpResponse } from "./HttpServer.ts";

/** A short answer of the server itself. */
export const textResponse = (
  status: number,
  body: string,
  headers: HttpResponse["headers"] = [],
): HttpResponse => ({
  status,
  headers: [["content-type", "text/plain;charset=UTF-8"], ...headers],
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

/** Whether no body follows a response of this status, whatever its head says (RFC 9112, 6.3). */
export const bodiless = (status: number): boolean => status === 204 || status === 304;

/**
 * Whether a complete answer states the length of its body. The answer to a HEAD does so only if it
 * has a body: many frameworks remove it, and a stated length has to be that of the GET (RFC 9110
 * §8.6).
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

/** Whether the value goes as it is or as Latin-1. Throws for one that may not be sent. */
export const headerEncoding = (name: string, value: string): "ascii" | "latin1" => {
  if (typeof value !== "string" || !isToken(name))
    throw new TypeError(`Not a header: ${JSON.stringify(name)} with a value of ${typeof value}`);
  if (PRINTABLE.test(value)) return "ascii";
  if (LATIN1.test(value)) return "latin1";
  throw new TypeError(`The value of header ${name} contains a character that is not allowed`);
};

type HeaderOwner = "handler" | "server" | "connection";

/** The server sets framing, connection and date. Of a handler's, `connection: close` is kept. */
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

/** The answer to a request whose handler failed; the log has the reason. */
export const FAILED = textResponse(500, "Internal Server Error");

/** The answer in place of a large one, while too many large ones are not read. */
export const NO_ROOM = textResponse(
  503,
  "The answer was dropped: too many callers do not read theirs. Try again later.\n",
);

/** The answer in place of the handler's, while the bodies of other requests leave no room. */
export const NO_ROOM_FOR_BODY = textResponse(
  503,
  "The body was dropped: too many large ones arrive at once. Try again later.\n",
  [["retry-after", "1"]],
);

/** The answer to a body that is larger than its limit. */
export const bodyTooLarge = (limit: number): HttpResponse =>
  textResponse(413, `Content too large: at most ${limit} bytes are accepted here`);

/** Throws an error that says why the response can't be sent. A response that passes can be sent. */
export const assertSendable = ({ status, headers, body }: HttpResponse): void => {
  reasonPhrase(status);
  for (const [name, value] of headers) headerEncoding(name, value);
  if (typeof body !== "string" && !(body instanceof Uint8Array))
    throw new TypeError(`A response's body must be text or bytes, not ${typeof body}`);
};
