/**
 * One HTTP exchange on uWebSockets.js: reads the body, calls the handler and writes the answer.
 * UwsServer.ts creates it from the head of a request; the handler answers it.
 *
 * This is the gateway's hottest path, so it is plain code: three closures for each request (the
 * library's callbacks), one copy of the body (the library reuses its buffer), no signal unless it
 * is read, and no clock timer (slow bodies share the server's TimeoutQueue). It reaches 0.6 of the
 * rate of a bare server that reads no header; copying the headers accounts for most of the
 * difference.
 *
 * 1. `res` is never used after it was ended or aborted: the library frees its memory.
 * 2. The head of a streamed answer is sent with the first piece: the build on npm has no
 *    `beginWrite`.
 * 3. Answers that a caller does not read use bounded memory. `end` copies the answer and takes the
 *    next request. `tryEnd` instead holds the answer until there is room, and a request pipelined
 *    behind it cuts the connection. An answer without a body cannot be held, because it is only a
 *    head; at most one is sent for each pass of the event loop. The bytes that are kept for callers
 *    are counted by the server's `PeerBytes`.
 */
import type { HttpResponse as UwsResponse } from "uWebSockets.js";
import { UwsBodyWriter } from "./UwsBodyWriter.ts";
import { asUtf8 } from "./asUtf8.ts";
import { AbortSource, type Abort } from "../../core/lazyFetch/AbortSource.ts";
import { BodyBuffer } from "../../core/http/BodyBuffer.ts";
import type { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import { COUNTED_BYTES_MIN, type Peer } from "../../core/http/PeerBytes.ts";
import {
  cancelBody,
  type BodyReader,
  type Exchange,
  type HttpRequest,
  type HttpResponse,
} from "../../core/http/HttpServer.ts";
import {
  bodiless,
  bodyTooLarge,
  FAILED,
  headerEncoding,
  headerOwner,
  NO_ROOM_FOR_BODY,
  reasonPhrase,
  saysLength,
} from "../../core/http/responseHead.ts";
import type { OpenExchanges } from "../http/OpenExchanges.ts";

/** What an exchange needs from its server. */
export interface ExchangeOwner {
  readonly guard: GuardedHandlers;
  readonly exchanges: OpenExchanges;
  /**
   * Called for a body that needs more than one packet. Refuses the exchange if the body is late.
   * The returned function cancels the timeout.
   */
  readonly startBodyTimeout: (exchange: UwsExchange) => () => void;
  /** Runs a write that is not corked by its own response (rule 3 of UwsBodyWriter.ts). */
  readonly uncorked: (write: () => void) => void;
}

const NO_BODY = new Uint8Array(0);

export class UwsExchange implements Exchange, Peer {
  readonly request: HttpRequest;
  body: Uint8Array = NO_BODY;
  keptBytes = 0;
  readonly #owner: ExchangeOwner;
  readonly #abort = new AbortSource();
  #res: UwsResponse | undefined;
  #buffer: BodyBuffer | undefined;
  #cancelBodyTimeout: (() => void) | undefined;
  #responded = false;
  /** True while the handler runs inside the library's parser. */
  #handling = false;
  /** Ends a streamed answer whose caller has gone. */
  #cancelStream: (() => void) | undefined;

  constructor(owner: ExchangeOwner, request: HttpRequest, res: UwsResponse) {
    this.#owner = owner;
    this.request = request;
    this.#res = res;
    res.onAborted(() => this.#onAborted());
  }

  get answered(): boolean {
    return this.#responded;
  }

  get aborted(): Abort {
    return this.#abort;
  }

  /** `declared` is the length of the body by its head, in bytes; undefined for a chunked body. */
  readBody(limit: number, declared: number | undefined): void {
    // The library reports nothing before the first chunk, so the time of a chunked body starts
    // here.
    if (declared === undefined) this.#startBodyTimeout();
    this.#res?.onData((piece, last) => this.#onData(piece, last, limit, declared));
  }

  #startBodyTimeout(): void {
    this.#cancelBodyTimeout = this.#owner.startBodyTimeout(this);
  }

  #endBodyTimeout(): void {
    this.#cancelBodyTimeout?.();
    this.#cancelBodyTimeout = undefined;
  }

  start(): void {
    this.#handling = true;
    this.#owner.guard.onRequest(this);
    this.#handling = false;
  }

  respond(given: HttpResponse): void {
    const response = this.#begin(given);
    if (response !== undefined) this.#end(response);
  }

  stream(given: HttpResponse, rest: BodyReader): void {
    const response = this.#begin(given);
    const res = this.#res;
    const bare = bodiless(given.status) || this.request.method === "HEAD";
    if (response !== given || res === undefined || bare) {
      void cancelBody(rest);
      if (response !== undefined) this.#end(bare ? { ...response, body: "" } : response);
      return;
    }
    let close = false;
    res.cork(() => {
      res.writeStatus(statusLine(response.status));
      close = writeHeaders(res, response.headers) || this.#owner.exchanges.stopping;
      if (close) res.writeHeader("connection", "close");
    });
    void this.#pump(res, response.body, rest, close);
  }

  /** Checks an answer before any of it is sent. Returns undefined for a second answer. */
  #begin(given: HttpResponse): HttpResponse | undefined {
    const response = this.#owner.guard.answer(this.request, given, this.#responded);
    this.#responded = true;
    return response;
  }

  #end(response: HttpResponse): void {
    // Rule 3: inside its parser, the library continues with the next request at once.
    if (this.#handling && (bodiless(response.status) || this.request.method === "HEAD"))
      setImmediate(() => this.#res?.cork(() => this.#write(response)));
    // An answer after an abort is ignored (rule 3 of HttpServer.ts).
    else this.#res?.cork(() => this.#write(response));
  }

  async #pump(
    res: UwsResponse,
    begin: Uint8Array | string,
    rest: BodyReader,
    close: boolean,
  ): Promise<void> {
    const waits = (bytes: number): void => this.#keep(bytes);
    const writer = new UwsBodyWriter(res, waits, this.#owner.uncorked);
    this.#cancelStream = () => {
      writer.abandon();
      void cancelBody(rest);
    };
    try {
      await writer.write(typeof begin === "string" ? Buffer.from(begin) : begin);
      for (;;) {
        const { done, value } = await rest.read();
        if (this.#res === undefined) return;
        if (done) break;
        await writer.write(value);
      }
      res.cork(() => res.end(undefined, close));
      this.#finish();
    } catch {
      this.#res?.close();
    }
  }

  /** Answers 500 because `limitBody` has failed. */
  fail(): void {
    this.refuse(FAILED, "close");
  }

  /** Refuses the body by rule 1 or 9 of HttpServer.ts. */
  refuseBody(response: HttpResponse, after: "close" | "linger"): void {
    this.#endBodyTimeout();
    this.#owner.guard.onBodyRefused(this.request, response.status === 413 ? 413 : 503);
    this.refuse(response, after);
  }

  /**
   * Answers instead of the handler. With `linger`, the rest of the body is read and dropped until
   * the library's timeout, so that the answer arrives. With `close`, the connection closes and
   * nothing more is read.
   */
  refuse(response: HttpResponse, after: "close" | "linger"): void {
    this.#responded = true;
    const answer = this.#owner.guard.refusal(this.request, response);
    // Inside its parser, the library ignores a close if another request follows in the same packet.
    // Until the answer is sent, a following request cuts the connection.
    if (after === "close") setImmediate(() => this.#refuse(answer, after));
    else this.#refuse(answer, after);
  }

  #refuse({ status, headers, body }: HttpResponse, after: "close" | "linger"): void {
    const res = this.#res;
    res?.cork(() => {
      res.writeStatus(statusLine(status));
      writeHeaders(res, headers);
      if (after === "linger") res.writeHeader("connection", "close");
      res.end(asUtf8(body), after === "close");
      this.#finish();
    });
  }

  #onData(chunk: ArrayBuffer, last: boolean, limit: number, declared: number | undefined): void {
    if (this.#responded || this.#res === undefined) return;
    if (this.#buffer === undefined) {
      if (last && chunk.byteLength <= Math.min(limit, COUNTED_BYTES_MIN)) {
        this.body = Buffer.from(Buffer.from(chunk));
        if (declared === undefined) this.#endBodyTimeout();
        this.start();
        return;
      }
      // The rest of a chunked body has no known length, so it is not read to deliver the answer.
      const after = declared === undefined ? "close" : "linger";
      const refuse = (): void => this.refuseBody(NO_ROOM_FOR_BODY, after);
      const { bodies: total } = this.#owner.guard;
      this.#buffer = new BodyBuffer(limit, declared, { total, refuse });
      if (declared !== undefined) this.#startBodyTimeout();
    }
    const fits = this.#buffer.add(new Uint8Array(chunk));
    // A declared body within the limit does not pass it.
    if (!fits) this.refuseBody(bodyTooLarge(limit), "close");
    if (!last || this.#responded) return;
    this.#endBodyTimeout();
    this.body = this.#buffer.take();
    this.start();
  }

  /** So much of the answer waits for the caller, which has just taken some. */
  #keep(bytes: number): void {
    if (this.#res === undefined) return;
    this.keptBytes = bytes;
    this.#owner.guard.unsent.report(this);
  }

  cut(): void {
    this.#res?.close();
  }

  #onAborted(): void {
    this.#endBodyTimeout();
    this.#finish();
    this.#abort.fire();
    this.#cancelStream?.();
  }

  #finish(): void {
    if (this.#res === undefined) return;
    this.#res = undefined;
    this.#buffer?.free();
    if (this.keptBytes > 0) this.#owner.guard.unsent.forget(this);
    this.#owner.exchanges.finished();
  }

  #write(response: HttpResponse): void {
    const res = this.#res;
    if (res === undefined) return;
    res.writeStatus(statusLine(response.status));
    const close = writeHeaders(res, response.headers) || this.#owner.exchanges.stopping;
    const body = response.body;
    if (bodiless(response.status) || this.request.method === "HEAD") {
      if (close) res.writeHeader("connection", "close");
      // Passed to endWithoutBody, a length would make the library wait for that many bytes.
      if (saysLength(response, this.request.method))
        res.writeHeader("content-length", String(Buffer.byteLength(body)));
      res.endWithoutBody();
    } else if (close && body.length <= COUNTED_BYTES_MIN) {
      // The connection's last answer. The library copies what the kernel does not take at once. A
      // larger one is written as the caller reads: a slow reader costs one buffer and not two.
      res.end(asUtf8(body), true);
    } else {
      if (close) res.writeHeader("connection", "close");
      return this.#tryEnd(res, body);
    }
    this.#finish();
  }

  /** Rule 3. */
  #tryEnd(res: UwsResponse, body: Uint8Array | string): void {
    const size = Buffer.byteLength(body);
    const [, done] = res.tryEnd(asUtf8(body), size);
    if (done) return this.#finish();
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    this.#keep(size);
    res.onWritable((offset) => {
      const [ok, ended] = res.tryEnd(bytes.subarray(offset), size);
      if (ended) this.#finish();
      else this.#keep(size);
      return ok;
    });
  }
}

const statusLine = (status: number): string => `${status} ${reasonPhrase(status)}`;

/** Returns whether the handler asked for the connection to close. */
const writeHeaders = (res: UwsResponse, headers: HttpResponse["headers"]): boolean => {
  let close = false;
  for (const [name, value] of headers) {
    const owner = headerOwner(name);
    if (owner === "connection") close ||= value.toLowerCase() === "close";
    if (owner !== "handler") continue;
    const latin1 = headerEncoding(name, value) === "latin1";
    res.writeHeader(name, latin1 ? Buffer.from(value, "latin1") : value);
  }
  return close;
};
