/**
 * One HTTP exchange on uWebSockets.js: gathers the body, hands itself to the handler, writes the
 * answer. UwsServer.ts creates it from the head of a request; the handler answers it.
 *
 * This is the gateway's hottest path, so it is plain code (measured: 0.6 of the rate of a bare
 * server that looks at no header, and copying the headers is most of the rest): three closures a
 * request (the library's callbacks), one copy of the body (the library reuses its buffer), no signal
 * until asked for, no timer (a slow body stands in the server's TimeoutQueue).
 *
 * 1. `res` is never touched after it was ended or aborted: the library frees what it points to.
 * 2. The head of a streamed answer leaves with its first piece: the build on npm has no `beginWrite`.
 * 3. The server's count of open exchanges goes up once and down once for each.
 * 4. What a caller does not read of its answers stays bounded. The library copies what `end` is given and takes the next
 *    request; `tryEnd` holds the answer until there is room for it, and what is pipelined behind one that is held
 *    cuts the connection. An answer without a body can't be held back: it is its head, and one each pass of the event loop.
 */
import type { HttpResponse as UwsResponse } from "uWebSockets.js";
import { UwsBodyWriter } from "./UwsBodyWriter.ts";
import { asUtf8 } from "./asUtf8.ts";
import { AbortSource } from "../../core/http/AbortSource.ts";
import { BodyBuffer } from "../../core/http/BodyBuffer.ts";
import type { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import {
  cancelBody,
  type BodyReader,
  type Exchange,
  type HttpRequest,
  type HttpResponse,
} from "../../core/http/HttpServer.ts";
import {
  bodiless,
  FAILED,
  headerEncoding,
  headerOwner,
  reasonPhrase,
  saysLength,
} from "../../core/http/responseHead.ts";

/** What an exchange needs of its server. */
export interface ExchangeOwner {
  readonly guard: GuardedHandlers;
  /** Called once, when nothing more will be written. */
  readonly finished: () => void;
  /** Called when a body turns out to need more than one packet. */
  readonly bodyStarted: (exchange: UwsExchange) => void;
  readonly bodyEnded: (exchange: UwsExchange) => void;
  /** Whether connections are to end with their current answer. */
  readonly stopping: boolean;
}

const NO_BODY = new Uint8Array(0);

// A connection's last answer: the library copies what the kernel does not take at once. Above, it is fed as the
// caller reads, so a slow reader of a large answer costs one buffer and not two.
const COPIED_BYTES_MAX = 64 * 1024;

export class UwsExchange implements Exchange {
  readonly request: HttpRequest;
  body: Uint8Array = NO_BODY;
  readonly #owner: ExchangeOwner;
  readonly #abort = new AbortSource();
  #res: UwsResponse | undefined;
  #gathered: BodyBuffer | undefined;
  #responded = false;
  /** The handler runs, within the library's parser. */
  #handling = false;
  /** Of a streamed answer: the caller has gone. */
  #gone: (() => void) | undefined;

  constructor(owner: ExchangeOwner, request: HttpRequest, res: UwsResponse) {
    this.#owner = owner;
    this.request = request;
    this.#res = res;
    res.onAborted(() => this.#aborted());
  }

  get answered(): boolean {
    return this.#responded;
  }

  get aborted(): AbortSignal {
    return this.#abort.signal;
  }

  /** `declared`: the body's length by its head; undefined when it comes in chunks. */
  readBody(limit: number, declared: number | undefined): void {
    // A chunked body may bring no event at all before its first chunk, so its time starts here.
    if (declared === undefined) this.#owner.bodyStarted(this);
    this.#res?.onData((piece, last) => this.#received(piece, last, limit, declared));
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
      close = writeHeaders(res, response.headers) || this.#owner.stopping;
      if (close) res.writeHeader("connection", "close");
    });
    void this.#pump(res, response.body, rest, close);
  }

  /** Checks what is to be sent, before anything is. */
  #begin(given: HttpResponse): HttpResponse | undefined {
    const response = this.#owner.guard.answer(this.request, given, this.#responded);
    this.#responded = true;
    return response;
  }

  #end(response: HttpResponse): void {
    // Rule 4: while the library parses, it goes on to the next request at once.
    if (this.#handling && (bodiless(response.status) || this.request.method === "HEAD"))
      setImmediate(() => this.#res?.cork(() => this.#write(response)));
    // After an abort there is nobody to answer (rule 3 of HttpServer.ts).
    else this.#res?.cork(() => this.#write(response));
  }

  async #pump(
    res: UwsResponse,
    begin: Uint8Array | string,
    rest: BodyReader,
    close: boolean,
  ): Promise<void> {
    const writer = new UwsBodyWriter(res);
    this.#gone = () => {
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

  /** `limitBody` has failed. */
  fail(): void {
    this.refuse(FAILED.status, String(FAILED.body), "close");
  }

  /**
   * Answers instead of the handler. `linger`: the rest of the body is read and dropped, so that the
   * answer arrives, until the library's timeout. `close`: at once, and nothing more is read.
   */
  refuse(status: number, text: string, after: "close" | "linger"): void {
    this.#responded = true;
    // While the library parses, it forgets a close when another request follows in the same bytes;
    // until then this one is pending, and whatever follows a pending one cuts the connection.
    if (after === "close") setImmediate(() => this.#refuse(status, text, after));
    else this.#refuse(status, text, after);
  }

  #refuse(status: number, text: string, after: "close" | "linger"): void {
    const res = this.#res;
    res?.cork(() => {
      res.writeStatus(statusLine(status));
      res.writeHeader("content-type", "text/plain;charset=UTF-8");
      if (after === "linger") res.writeHeader("connection", "close");
      res.end(asUtf8(text), after === "close");
      this.#finish();
    });
  }

  #received(chunk: ArrayBuffer, last: boolean, limit: number, declared: number | undefined): void {
    if (this.#responded || this.#res === undefined) return;
    if (this.#gathered === undefined) {
      if (last && chunk.byteLength <= limit) {
        this.body = Buffer.from(Buffer.from(chunk));
        if (declared === undefined) this.#owner.bodyEnded(this);
        this.start();
        return;
      }
      this.#gathered = new BodyBuffer(limit, declared);
      if (declared !== undefined) this.#owner.bodyStarted(this);
    }
    if (!this.#gathered.add(new Uint8Array(chunk))) {
      this.#owner.bodyEnded(this);
      // Nothing says how much more a chunked body has, so it is not read on to deliver the answer.
      this.refuse(413, "Content too large", "close");
      return;
    }
    if (!last) return;
    this.#owner.bodyEnded(this);
    this.body = this.#gathered.take();
    this.#gathered = undefined;
    this.start();
  }

  #aborted(): void {
    this.#owner.bodyEnded(this);
    this.#finish();
    this.#abort.fire();
    this.#gone?.();
  }

  #finish(): void {
    if (this.#res === undefined) return;
    this.#res = undefined;
    this.#owner.finished();
  }

  #write(response: HttpResponse): void {
    const res = this.#res;
    if (res === undefined) return;
    res.writeStatus(statusLine(response.status));
    const close = writeHeaders(res, response.headers) || this.#owner.stopping;
    const body = response.body;
    if (bodiless(response.status) || this.request.method === "HEAD") {
      if (close) res.writeHeader("connection", "close");
      // Given to endWithoutBody, the length would keep the library waiting for that many bytes.
      if (saysLength(response, this.request.method))
        res.writeHeader("content-length", String(Buffer.byteLength(body)));
      res.endWithoutBody();
    } else if (close && body.length <= COPIED_BYTES_MAX) {
      res.end(asUtf8(body), true);
    } else {
      if (close) res.writeHeader("connection", "close");
      return this.#tryEnd(res, body);
    }
    this.#finish();
  }

  /** Rule 4. */
  #tryEnd(res: UwsResponse, body: Uint8Array | string): void {
    const size = Buffer.byteLength(body);
    const [, done] = res.tryEnd(asUtf8(body), size);
    if (done) return this.#finish();
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    res.onWritable((offset) => {
      const [ok, ended] = res.tryEnd(bytes.subarray(offset), size);
      if (ended) this.#finish();
      return ok;
    });
  }
}

const statusLine = (status: number): string => `${status} ${reasonPhrase(status)}`;

/** Whether the handler asked for the connection to end. */
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
