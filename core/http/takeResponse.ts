/**
 * Takes the response of users' code apart and refuses what can't be an HTTP answer: for agents in
 * their host, for the module's `fetch` in its gateway. A `Response` can have status 101, the status
 * 0 of an error, or a body that was read or is being read; and an object that only looks like one
 * (a polyfill's, or handmade) can have anything. Refusing it here blames the code that returned it,
 * rather than the code that would send it later.
 */
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import { LazyResponse } from "../lazyFetch/LazyResponse.ts";
import { readAhead, type PendingBody } from "./readAhead.ts";
import { headerEncoding } from "./responseHead.ts";

export interface ResponseParts {
  readonly status: number;
  readonly headers: HeaderPairs;
  readonly body: Uint8Array | string;
}

/** A response whose body may still be in production. */
export interface ResponseBegun extends ResponseParts {
  readonly rest: PendingBody | undefined;
}

/** The range of the platform's class; only the server sends 1xx. */
const STATUS_MIN = 200;
const STATUS_MAX = 599;
const SWITCHING_PROTOCOLS = 101;
/** Clients of `node:http` drop those beyond 2,000. 100,000 hold a gateway for half a second. */
const HEADERS_MAX = 2_000;
/** UTF-16 units of all names and values, as on the platform (128 KB). Most clients take 16 KB. */
const HEADERS_LENGTH_MAX = 128 * 1024;

/**
 * Returns a response with its whole body. `by` says who returned it, for the error. Throws, or
 * rejects with, a `TypeError` that says what is wrong, or with the error of the body's stream. Not
 * `async`: most bodies are at hand, and a webhook waits for each additional promise.
 */
export function wholeResponse(
  response: unknown,
  by: string,
): ResponseParts | Promise<ResponseParts> {
  const taken = take(response, by);
  return taken.response === undefined ? taken : whole(taken, by);
}

/**
 * For a caller that receives a body as it is produced: waits only for its beginning, up to about
 * `bytesMax`. Rejects as `wholeResponse` does.
 */
export async function beginResponse(
  response: unknown,
  by: string,
  bytesMax: number,
): Promise<ResponseBegun> {
  const taken = take(response, by);
  if (taken.response === undefined) return { rest: undefined, ...taken };
  const stream: unknown = taken.response.body;
  if (typeof (stream as ReadableStream | null)?.getReader !== "function")
    return { rest: undefined, ...(await whole(taken, by)) };
  const { status, headers } = taken;
  const reader = (stream as ReadableStream<Uint8Array>).getReader();
  const { bytes, rest } = await readAhead({ reader, next: undefined }, bytesMax);
  return { status, headers, body: bytes, rest };
}

type Taken =
  | (ResponseParts & { readonly response?: undefined })
  | (Pick<ResponseParts, "status" | "headers"> & { readonly response: Response });

function take(response: unknown, by: string): Taken {
  // Looking at the shape of a lazy response would make its headers.
  const parts = LazyResponse.parts(response);
  if (parts !== undefined) return withSendableHeaders(parts, by);
  if (!isResponse(response))
    throw new TypeError(
      `${by} must return a Response; it returned ${response === null ? "null" : typeof response}`,
    );
  const { status } = response;
  if (!(Number.isInteger(status) && status >= STATUS_MIN && status <= STATUS_MAX))
    throw unsendable(by, statusFault(status));
  const head = withSendableHeaders({ status, headers: [...response.headers] }, by);
  const body = response.body as ReadableStream | null | undefined;
  if (response.bodyUsed === true) throw unsendable(by, "its body was already read");
  if (body?.locked === true) throw unsendable(by, "its body is being read (locked)");
  return body === null ? { ...head, body: "" } : { ...head, response };
}

/** Returns what it is given. */
function withSendableHeaders<A extends { readonly headers: HeaderPairs }>(given: A, by: string): A {
  const { headers } = given;
  if (headers.length > HEADERS_MAX)
    throw unsendable(by, `it has ${headers.length} headers, more than ${HEADERS_MAX}`);
  let length = 0;
  try {
    for (const [name, value] of headers) {
      headerEncoding(name, value);
      length += name.length + value.length;
    }
  } catch (error) {
    throw unsendable(by, (error as Error).message);
  }
  if (length > HEADERS_LENGTH_MAX)
    throw unsendable(by, `its headers have ${length} characters, more than ${HEADERS_LENGTH_MAX}`);
  return given;
}

async function whole(
  { status, headers, response }: Exclude<Taken, ResponseParts>,
  by: string,
): Promise<ResponseParts> {
  const body: unknown = await response.arrayBuffer();
  if (Object.prototype.toString.call(body) !== "[object ArrayBuffer]")
    throw unsendable(by, "its arrayBuffer() returned something else");
  return { status, headers, body: new Uint8Array(body as ArrayBuffer) };
}

const statusFault = (status: number): string =>
  status === SWITCHING_PROTOCOLS
    ? "its status is 101, and only the module's fetch can upgrade a request that asks for it"
    : `its status is ${status}, not a whole number from ${STATUS_MIN} to ${STATUS_MAX}`;

const unsendable = (by: string, why: string): TypeError =>
  new TypeError(`${by} returned a Response that can't be sent: ${why}`);

/** Checks the shape, not the class: a module may use another `Response`, as of a polyfill. */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Response).status === "number" &&
  typeof (value as Response).headers?.[Symbol.iterator] === "function" &&
  typeof (value as Response).arrayBuffer === "function";
