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
 */
import type { HttpResponse as UwsResponse } from "uWebSockets.js";
import { UwsBodyWriter } from "./UwsBodyWriter.ts";
import { asUtf8 } from "./asUtf8.ts";
import { AbortSource } from "../../core/http/AbortSource.ts";
import { BodyBuffer } from "../../core/http/BodyBuffer.ts";
import type {
  BodyReader,
  Exchange,
  HttpRequest,
  HttpResponse,
} from "../../core/http/HttpServer.ts";
import {
  bodiless,
  headerEncoding,
  headerOwner,
  reasonPhrase,
  saysLength,
} from "../../core/http/responseHead.ts";

/** What an exchange needs of its server. */
export interface ExchangeOwner {
  readonly onRequest: (exchange: Exchange) => void;
  /** Called once, when nothing more will be written. */
  readonly finished: () => void;
  /** Called when a body turns out to need more than one packet. */
  readonly bodyStarted: (exchange: UwsExchange) => void;
  readonly bodyEnded: (exchange: UwsExchange) => void;
  /** Whether connections are to end with their current answer. */
  readonly stopping: boolean;
}

const NO_BODY = new Uint8Array(0);

// Up to here the library copies what the kernel does not take at once; above, it is fed as the
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
  /** Of a streamed answer: the caller has gone. */
  #gone: (() => void) | undefined;

  constructor(owner: ExchangeOwner, request: HttpRequest, res: UwsResponse) {
    this.#owner = owner;
    this.request = request;
    this.#res = res;
    res.onAborted(() => this.#aborted());
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
    this.#owner.onRequest(this);
  }

  respond(response: HttpResponse): void {
    const status = this.#begin(response);
    // After an abort there is nobody to answer (rule 3 of HttpServer.ts).
    this.#res?.cork(() => this.#write(status, response));
  }

  stream(response: HttpResponse, rest: BodyReader): void {
    const status = this.#begin(response);
    const res = this.#res;
    if (res === undefined) return void rest.cancel().catch(() => undefined);
    if (bodiless(response.status) || this.request.method === "HEAD") {
      void rest.cancel().catch(() => undefined);
      return void res.cork(() => this.#write(status, { ...response, body: "" }));
    }
    let close = false;
    res.cork(() => {
      res.writeStatus(status);
      close = writeHeaders(res, response.headers) || this.#owner.stopping;
      if (close) res.writeHeader("connection", "close");
    });
    void this.#pump(res, response.body, rest, close);
  }

  /** Checks what is to be sent, before anything is. */
  #begin(response: HttpResponse): string {
    if (this.#responded) throw new Error(`respond was called twice for ${this.request.target}`);
    const status = `${response.status} ${reasonPhrase(response.status)}`;
    for (const [name, value] of response.headers) headerEncoding(name, value);
    this.#responded = true;
    return status;
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
      void rest.cancel().catch(() => undefined);
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
      res.writeStatus(`${status} ${reasonPhrase(status)}`);
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
        this.#owner.onRequest(this);
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
    this.#owner.onRequest(this);
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

  #write(status: string, response: HttpResponse): void {
    const res = this.#res;
    if (res === undefined) return;
    res.writeStatus(status);
    const close = writeHeaders(res, response.headers) || this.#owner.stopping;
    const body = response.body;
    if (bodiless(response.status) || this.request.method === "HEAD") {
      if (close) res.writeHeader("connection", "close");
      // Given to endWithoutBody, the length would keep the library waiting for that many bytes.
      if (saysLength(response, this.request.method))
        res.writeHeader("content-length", String(Buffer.byteLength(body)));
      res.endWithoutBody();
    } else if (body.length <= COPIED_BYTES_MAX) {
      res.end(asUtf8(body), close);
    } else {
      if (close) res.writeHeader("connection", "close");
      this.#stream(res, typeof body === "string" ? Buffer.from(body) : body);
      return;
    }
    this.#finish();
  }

  #stream(res: UwsResponse, body: Uint8Array): void {
    const [, done] = res.tryEnd(body, body.byteLength);
    if (done) return this.#finish();
    res.onWritable((offset) => {
      const [ok, ended] = res.tryEnd(body.subarray(offset), body.byteLength);
      if (ended) this.#finish();
      return ok;
    });
  }
}

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
