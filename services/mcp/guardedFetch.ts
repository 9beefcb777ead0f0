/**
 * `fetch` on node:http for MCP, to allowed addresses only and with bounded answers.
 *
 * 1. Before a byte is sent, the request's URL is checked, then the addresses that its name resolves
 *    to, then the address of the actual peer.
 * 2. Redirects are not followed: the caller receives them, and following one is a request of its
 *    own.
 * 3. An answer is at most `ANSWER_BYTES_MAX`. An event stream may be longer, but no single event,
 *    and its events are read at a limited rate (`EventPace`). A batch of messages, with the blanks
 *    before it, is at most `BATCH_BYTES_MAX`. An answer or event has at most `OPENINGS_MAX` lists
 *    and objects (`openingsIn`).
 * 4. At most `REQUESTS_MAX` requests are unanswered. A server that sends requests and accepts no
 *    answers would fill the memory; its connection is broken.
 *
 * Answers are requested uncompressed, so that the bound holds for memory too.
 */
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { openingsIn } from "../../core/http/openingsIn.ts";
import { BlockedAddress, type AddressGuard } from "./addressGuard.ts";
import { EventPace, EventSplitter } from "./EventPace.ts";

/** Room for images and files as base64. Anything larger belongs behind a link. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
/** A table of 16 MiB with rows of 32 bytes, and less than a second of the host's thread. */
const OPENINGS_MAX = 500_000;
/** As `ANSWER_BYTES_MAX`, for a batch of messages: it can contain thousands of requests. */
const BATCH_BYTES_MAX = 64 * 1024;
/** The first byte of a batch: "[". */
const BATCH = 0x5b;
/** What may precede the first byte of JSON: white space, and the three bytes of a UTF-8 BOM. */
const BLANK = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** How long a request whose answer never ends holds a connection, though no caller waits. */
export const REQUEST_LIFE_MS = 900_000;
/**
 * Shorter than servers keep an idle connection (5 s by default in Node), so that no request uses a
 * connection that the server is about to close.
 */
const IDLE_MS = 2_000;
/** Concurrent requests to one server; further requests wait. */
const SOCKETS_MAX = 64;

/** Rule 4: far more than an agent asks at once, and some 20 MB. */
const REQUESTS_MAX = 2_000;

const BODILESS = new Set([204, 205, 304]);

export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

export interface GuardedFetch {
  readonly fetch: FetchLike;
  /** Aborts all running requests. */
  readonly close: () => void;
}

/** Opens a `fetch` for one server. `broken` is as for `guardedFetch`. */
type OpenFetch = (server: string, broken: (message: string) => void) => GuardedFetch;

/** Provided by `McpClientsLayer` for all connections. */
export interface Wire {
  readonly open: OpenFetch;
  /** Logs why a server could not be connected to. */
  readonly unreachable: (server: string, why: string) => void;
}

/** `broken` is called when an event stream is cut for its size, and by rule 4. */
export function guardedFetch(
  guard: AddressGuard,
  broken: (message: string) => void = () => undefined,
): GuardedFetch {
  const pool = { keepAlive: true, maxSockets: SOCKETS_MAX, timeout: IDLE_MS, lookup: guard.lookup };
  const agents = { "http:": new http.Agent(pool), "https:": new https.Agent(pool) };
  const running = new Set<http.ClientRequest>();
  const pace = new EventPace();
  let closed = false;

  const fetch: FetchLike = async (input, init = {}) => {
    const url = new URL(input);
    guard.check(url); // rule 1
    if (closed) throw new Error("The connection is closed");
    if (running.size >= REQUESTS_MAX) {
      broken(TOO_MANY);
      throw new Error(TOO_MANY);
    }
    const secure = url.protocol === "https:";
    const { body, options } = requestOf(init);
    const agent = secure ? agents["https:"] : agents["http:"];
    const sent = (secure ? https : http).request(url, { ...options, agent });
    running.add(sent);
    sent.once("close", () => running.delete(sent));
    return new Promise<Response>((resolve, reject) => {
      sent.on("error", reject);
      sent.once("socket", (socket) => {
        // A socket that is aborted as its answer ends has no listener of Node's any more, and its
        // error, which the request reports, would end the process.
        if (!socket.listeners("error").includes(reported)) socket.on("error", reported);
        whenConnected(socket, secure, () => {
          if (isAllowed(socket, guard)) sent.end(body);
          else sent.destroy(new BlockedAddress(socket.remoteAddress ?? url.origin));
        });
      });
      sent.once("response", (answer) => {
        try {
          resolve(toResponse(answer, { broken, pace }));
        } catch (error) {
          sent.destroy();
          reject(error as Error);
        }
      });
    });
  };

  return {
    fetch,
    close: () => {
      closed = true;
      for (const sent of running) sent.destroy(new Error("The connection was closed"));
      agents["http:"].destroy();
      agents["https:"].destroy();
    },
  };
}

/** A GET opens an event stream, which may stay open. Other requests end after their limit. */
function requestOf({ method = "GET", signal, ...init }: RequestInit) {
  const headers = new Headers(init.headers);
  headers.set("accept-encoding", "identity");
  const { body, contentType } = bodyOf(init.body);
  if (contentType !== undefined && !headers.has("content-type"))
    headers.set("content-type", contentType);
  if (body !== undefined) headers.set("content-length", String(body.length));
  const limit = AbortSignal.timeout(REQUEST_LIFE_MS);
  const signals = [...(signal ? [signal] : []), ...(method === "GET" ? [] : [limit])];
  const options = {
    method,
    headers: Object.fromEntries(headers),
    ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
  };
  return { body, options };
}

/** Listens to errors that the request of the socket reports. */
const reported = (): void => undefined;

/** Calls `then` once the peer's address is known. A kept connection is checked again. */
function whenConnected(socket: Socket, secure: boolean, then: () => void): void {
  if (socket.connecting || socket.remoteAddress === undefined)
    socket.once(secure ? "secureConnect" : "connect", then);
  else then();
}

const isAllowed = ({ remoteAddress }: Socket, guard: AddressGuard): boolean =>
  remoteAddress !== undefined && guard.allows(remoteAddress);

function bodyOf(body: RequestInit["body"]): {
  readonly body: Buffer | undefined;
  readonly contentType?: string;
} {
  if (body === undefined || body === null) return { body: undefined };
  if (typeof body === "string") return { body: Buffer.from(body), contentType: "text/plain;charset=UTF-8" }; // prettier-ignore
  if (body instanceof URLSearchParams)
    return {
      body: Buffer.from(body.toString()),
      contentType: "application/x-www-form-urlencoded;charset=UTF-8",
    };
  if (body instanceof Uint8Array) return { body: Buffer.from(body) };
  throw new TypeError("A body for an MCP server must be text, a form or bytes");
}

const TOO_MANY = `The server leaves too many requests unanswered: ${REQUESTS_MAX}`;

/** What all event streams of a connection have in common. */
interface Streams {
  readonly broken: (message: string) => void;
  readonly pace: EventPace;
}

function toResponse(answer: http.IncomingMessage, streams: Streams): Response {
  const headers = new Headers();
  for (let i = 0; i < answer.rawHeaders.length; i += 2)
    headers.append(answer.rawHeaders[i]!, answer.rawHeaders[i + 1]!);
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 599) throw new Error(`The server answered with status ${status}`);
  const init = { status, statusText: answer.statusMessage ?? "", headers };
  if (BODILESS.has(status)) {
    answer.resume();
    return new Response(null, init);
  }
  const isStream = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  const bytes = isStream ? paced(answer, streams) : bounded(answer);
  const body = Readable.toWeb(Readable.from(bytes, { objectMode: false }));
  return new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>, init);
}

const tooLarge = (bytesMax: number): string =>
  `The server's answer is too large: more than ${bytesMax} bytes`;

const TOO_MANY_PARTS = `The server's answer is too large: more than ${OPENINGS_MAX} lists and objects`;

/** Throws past the bounds (rule 3). */
async function* bounded(answer: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  let openings = 0;
  let first: number | undefined;
  for await (const chunk of answer) {
    first ??= chunk.find((byte) => !BLANK.has(byte));
    bytes += chunk.length;
    const maybeBatch = first === undefined || first === BATCH;
    const bytesMax = maybeBatch ? BATCH_BYTES_MAX : ANSWER_BYTES_MAX;
    if (bytes > bytesMax) throw new Error(tooLarge(bytesMax));
    openings += openingsIn(chunk);
    if (openings > OPENINGS_MAX) throw new Error(TOO_MANY_PARTS);
    yield chunk;
  }
}

/** An event stream. Throws past the bounds of an event (rule 3). */
async function* paced(
  answer: AsyncIterable<Buffer>,
  { broken, pace }: Streams,
): AsyncGenerator<Uint8Array> {
  const splitter = new EventSplitter();
  for await (const chunk of answer) {
    const pieces = splitter.pieces(chunk);
    const why =
      splitter.openBytes > ANSWER_BYTES_MAX
        ? tooLarge(ANSWER_BYTES_MAX)
        : splitter.openOpenings > OPENINGS_MAX
          ? TOO_MANY_PARTS
          : undefined;
    if (why !== undefined) {
      broken(why);
      throw new Error(why);
    }
    for (const { bytes, events } of pieces) {
      yield bytes;
      const waitMs = pace.take(events);
      if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
    }
  }
}
