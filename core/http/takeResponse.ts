/**
 * Takes the response of users' code apart, and refuses what can't be an HTTP answer: for agents in
 * their host, for the module's `fetch` in its gateway. A `Response` can be made that says "101", an
 * error's 0, a body that was read or is being read; and what only looks like one (a polyfill's, an
 * object by hand) can say anything. Refused here, it is an error of the code that returned it;
 * later it would be an error of whoever sends it.
 */
import type { HeaderPairs } from "../../schemas/Call.ts";
import { LazyResponse } from "../lazyFetch/LazyResponse.ts";
import { readAhead, type PendingBody } from "./readAhead.ts";
import { headerEncoding } from "./responseHead.ts";

export interface ResponseParts {
  readonly status: number;
  readonly headers: HeaderPairs;
  readonly body: Uint8Array | string;
}

/** With what is still being made of the body. */
export interface ResponseBegun extends ResponseParts {
  readonly rest: PendingBody | undefined;
}

/** As the platform's class has it; 1xx are the server's own. */
const STATUS_MIN = 200;
const STATUS_MAX = 599;
const SWITCHING_PROTOCOLS = 101;

/**
 * A response with its whole body. `by`: who returned it, for the error. Throws, or rejects with, a
 * `TypeError` that says what is wrong, or with what the body's stream failed with. Not `async`:
 * most bodies are at hand, and a promise more is one of those that a webhook waits for.
 */
export function wholeResponse(
  response: unknown,
  by: string,
): ResponseParts | Promise<ResponseParts> {
  const taken = take(response, by);
  return taken.response === undefined ? taken : whole(taken, by);
}

/**
 * For a caller who takes a body as it is made: waits for no more than its beginning, near
 * `bytesMax`. Rejects as `wholeResponse`.
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
  if (!isResponse(response))
    throw new TypeError(
      `${by} must return a Response; it returned ${response === null ? "null" : typeof response}`,
    );
  const { status } = response;
  if (!(Number.isInteger(status) && status >= STATUS_MIN && status <= STATUS_MAX))
    throw unsendable(by, statusFault(status));
  const parts = LazyResponse.parts(response);
  const headers = parts?.headers ?? [...response.headers];
  try {
    for (const [name, value] of headers) headerEncoding(name, value);
  } catch (error) {
    throw unsendable(by, (error as Error).message);
  }
  if (parts !== undefined) return { status, headers, body: parts.body };
  const body = response.body as ReadableStream | null | undefined;
  if (response.bodyUsed === true) throw unsendable(by, "its body was already read");
  if (body?.locked === true) throw unsendable(by, "its body is being read (locked)");
  return body === null ? { status, headers, body: "" } : { status, headers, response };
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

/**
 * By shape, not by class: a module may bring a `Response` of its own (a polyfill, another realm).
 */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Response).status === "number" &&
  typeof (value as Response).headers?.[Symbol.iterator] === "function" &&
  typeof (value as Response).arrayBuffer === "function";
