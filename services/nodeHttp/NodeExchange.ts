/**
 * One HTTP exchange on node:http: reads the body, calls the handler and writes the answer.
 * NodeServer.ts creates it from the head of a request; the handler answers it.
 *
 * A refusal of a request whose body is still arriving lingers. The whole answer is written, but the
 * response, and with it the connection, ends only once the caller has finished or sends nothing for
 * `LINGER_MS`. Closing at once would reset the connection, and the reset would discard the answer
 * before the caller has read it: many read only after they have sent everything.
 *
 * A large answer is written in slices, each when the kernel has taken the one before: node:http
 * does not say how much of a write was taken, and `PeerBytes` asks who reads.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
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
}

const NO_BODY = new Uint8Array(0);

// A caller that reads none of its answer for this long is cut off, as by uWebSockets.js.
const WRITE_STALL_MS = 10_000;
// As nginx waits. The time for the whole body ends a caller that goes on sending.
const LINGER_MS = 5_000;
// A step that a slow reader takes within a few seconds, and few ticks for a fast one.
const SLICE_BYTES = 64 * 1024;

export class NodeExchange implements Exchange, Peer {
  readonly request: HttpRequest;
  body: Uint8Array = NO_BODY;
  keptBytes = 0;
  readonly #owner: ExchangeOwner;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #abort = new AbortSource();
  #buffer: BodyBuffer | undefined;
  #responded = false;
  #delivered = false;
  #finished = false;

  constructor(
    owner: ExchangeOwner,
    request: HttpRequest,
    req: IncomingMessage,
    res: ServerResponse,
  ) {
    this.#owner = owner;
    this.request = request;
    this.#req = req;
    this.#res = res;
    // node:http also emits "finish" for a response whose connection was destroyed.
    res.once("finish", () => (this.#delivered = !req.socket.destroyed));
    res.once("close", () => this.#closed());
  }

  get answered(): boolean {
    return this.#responded;
  }

  get aborted(): Abort {
    return this.#abort;
  }

  /** `declared` is the length of the body by its head, in bytes; undefined for a chunked body. */
  readBody(limit: number, declared: number | undefined): void {
    const refuse = (): void => this.refuseBody(NO_ROOM_FOR_BODY);
    const { bodies: total } = this.#owner.guard;
    const buffer = (this.#buffer = new BodyBuffer(limit, declared, { total, refuse }));
    const req = this.#req;
    req.on("data", (piece: Buffer) => {
      if (this.#responded || buffer.add(piece)) return;
      this.refuseBody(bodyTooLarge(limit));
    });
    req.once("end", () => {
      if (this.#responded || this.#abort.fired) return;
      this.body = buffer.take();
      this.start();
    });
  }

  start(): void {
    this.#owner.guard.onRequest(this);
  }

  respond(given: HttpResponse): void {
    const response = this.#begin(given);
    if (response !== undefined) this.#end(response);
  }

  #end(response: HttpResponse): void {
    // An answer after an abort is ignored (rule 3 of HttpServer.ts).
    if (this.#abort.fired) return;
    const body = response.body;
    const res = this.#res;
    this.#writeHead(response, saysLength(response, this.request.method));
    if (bodiless(response.status) || this.request.method === "HEAD") {
      res.end();
      return;
    }
    if (body.length <= COUNTED_BYTES_MIN) res.end(body);
    else void this.#pump(body);
  }

  stream(given: HttpResponse, rest: BodyReader): void {
    const response = this.#begin(given);
    const cancel = (): void => void cancelBody(rest);
    if (response !== given) {
      if (response !== undefined) this.#end(response);
      return cancel();
    }
    if (this.#abort.fired) return cancel();
    const res = this.#res;
    this.#writeHead(response, false);
    if (bodiless(response.status) || this.request.method === "HEAD") {
      res.end();
      return cancel();
    }
    res.flushHeaders();
    res.once("close", cancel);
    void this.#pump(response.body, rest);
  }

  /** Checks an answer before any of it is sent. Returns undefined for a second answer. */
  #begin(given: HttpResponse): HttpResponse | undefined {
    const response = this.#owner.guard.answer(this.request, given, this.#responded);
    this.#responded = true;
    return response;
  }

  #writeHead(response: HttpResponse, length: boolean): void {
    const { status } = response;
    const head = headerLines(response, this.#owner.exchanges.stopping, length);
    this.#res.writeHead(status, reasonPhrase(status), head);
  }

  async #pump(begin: Uint8Array | string, rest?: BodyReader): Promise<void> {
    try {
      await this.#write(typeof begin === "string" ? Buffer.from(begin) : begin);
      while (rest !== undefined) {
        const { done, value } = await rest.read();
        if (done || this.#abort.fired) break;
        await this.#write(value);
      }
      if (!this.#abort.fired) this.#res.end();
    } catch {
      this.#res.destroy();
    }
  }

  /** Resolves once node:http asks for more, or the caller has gone. */
  async #write(data: Uint8Array): Promise<void> {
    const res = this.#res;
    for (let at = 0; at < data.length && !this.#abort.fired; at += SLICE_BYTES) {
      if (res.write(data.subarray(at, at + SLICE_BYTES))) continue;
      this.#keep(data.length);
      res.socket?.setTimeout(WRITE_STALL_MS);
      await drained(res);
      res.socket?.setTimeout(0);
    }
    this.#keep(0);
  }

  /** So much of the answer waits for the caller, which has just taken some. */
  #keep(bytes: number): void {
    if (this.#finished) return;
    this.keptBytes = bytes;
    this.#owner.guard.unsent.report(this);
  }

  /** Answers 500 because `limitBody` has failed. */
  fail(): void {
    this.refuse(FAILED, "linger");
  }

  /** Refuses the body by rule 1 or 9 of HttpServer.ts. */
  refuseBody(response: HttpResponse): void {
    this.#owner.guard.onBodyRefused(this.request, response.status === 413 ? 413 : 503);
    this.refuse(response, "linger");
  }

  /** Answers instead of the handler. With `linger`, the rest of the body is read and dropped. */
  refuse(given: HttpResponse, after: "close" | "linger"): void {
    this.#responded = true;
    if (this.#abort.fired) return;
    const res = this.#res;
    const response = this.#owner.guard.refusal(this.request, given);
    const { status, body } = response;
    res.writeHead(status, reasonPhrase(status), headerLines(response, true, true));
    if (after === "close" || this.#req.complete) {
      res.end(body);
      return;
    }
    res.write(body);
    this.#req.once("end", () => res.end());
    this.#req.resume();
    this.#req.socket.setTimeout(LINGER_MS);
  }

  /** Destroys the connection of a caller that does not read. */
  cut(): void {
    this.#req.socket.destroy();
  }

  /** The connection has closed. node:http reports that only to the first unanswered response. */
  disconnected(): void {
    this.#res.emit("close");
  }

  #closed(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#buffer?.free();
    this.#owner.guard.unsent.forget(this);
    if (!this.#delivered) this.#abort.fire();
    this.#owner.exchanges.finished();
  }
}

/** Resolves when there is room again, or the connection has closed. */
const drained = (res: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });

/** Names and values in turn: in this form, node:http keeps repeated names separate. */
const headerLines = (response: HttpResponse, closes: boolean, length: boolean): string[] => {
  const lines: string[] = [];
  let close = closes;
  for (const [name, value] of response.headers) {
    const owner = headerOwner(name);
    if (owner === "connection") close ||= value.toLowerCase() === "close";
    if (owner === "handler") lines.push(name, value);
  }
  if (close) lines.push("connection", "close");
  if (length) lines.push("content-length", String(Buffer.byteLength(response.body)));
  return lines;
};
