/**
 * Copies the head of a request out of uWebSockets.js, which frees it when the callback returns. A
 * server has one reader: reading is synchronous, so one head is read at a time, and the callback
 * for headers is created once and not for each request.
 */
import type { HttpRequest as UwsRequest, HttpResponse as UwsResponse } from "uWebSockets.js";
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import { addHeader, emptyHeaders, type HeaderRecord } from "../../core/http/requestHead.ts";
import { remoteAddress } from "./remoteAddress.ts";

const NON_ASCII = /[\u0080-\uffff]/;

// Bytes of a header line beside its name and value: the colon, the space and the line end.
const LINE_BYTES = 4;

/** Reads the caller's address on first use: it costs a system call, and few handlers need it. */
class RequestHead implements HttpRequest {
  readonly secure = false;
  readonly method: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly #res: UwsResponse;
  #address: string | undefined;

  constructor(method: string, target: string, headers: HeaderRecord, res: UwsResponse) {
    this.method = method;
    this.target = target;
    this.headers = headers;
    this.#res = res;
  }

  get remoteAddress(): string {
    return (this.#address ??= this.#readAddress());
  }

  #readAddress(): string {
    try {
      return remoteAddress(this.#res.getRemoteAddress());
    } catch {
      return ""; // answered or aborted: the library has freed the response
    }
  }
}

export class HeadReader {
  /** Size of the head that was read last, in bytes. */
  bytes = 0;
  #headers: HeaderRecord = emptyHeaders();
  readonly #nonAscii = new Set<string>();

  read(res: UwsResponse, req: UwsRequest): HttpRequest {
    const headers = (this.#headers = emptyHeaders());
    const path = req.getUrl();
    // Undefined without a question mark, although the declarations say otherwise.
    const query = req.getQuery() as string | undefined;
    const target = query === undefined ? path : `${path}?${query}`;
    this.bytes = target.length;
    req.forEach(this.#add);
    if (this.#nonAscii.size > 0) this.#restoreBytes(req);
    return new RequestHead(req.getCaseSensitiveMethod(), target, headers, res);
  }

  readonly #add = (name: string, value: string): void => {
    addHeader(this.#headers, name, value);
    this.bytes += name.length + value.length + LINE_BYTES;
    if (NON_ASCII.test(value)) this.#nonAscii.add(name);
  };

  /** Restores values that were decoded as UTF-8: a character for each byte, as in `Headers`. */
  #restoreBytes(req: UwsRequest): void {
    for (const name of this.#nonAscii) {
      const [first = "", ...rest] = this.#headers[name] ?? [];
      // getHeader returns the bytes of the first value, except in the build for Node 24. Further
      // values are encoded again, which loses bytes that are not UTF-8.
      const raw = req.getHeader(name);
      const exact = raw === first ? bytesOf(first) : raw;
      this.#headers[name] = [exact, ...rest.map(bytesOf)];
    }
    this.#nonAscii.clear();
  }
}

const bytesOf = (decoded: string): string => Buffer.from(decoded, "utf8").toString("latin1");
