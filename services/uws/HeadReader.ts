/**
 * Copies the head of a request out of uWebSockets.js, which frees it when the callback returns. One
 * reader serves a server: reading never waits, so its record is one at a time, and the callback that
 * the library calls for each header is made once and not per request.
 */
import type { HttpRequest as UwsRequest, HttpResponse as UwsResponse } from "uWebSockets.js";
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import { addHeader, emptyHeaders, type HeaderRecord } from "../../core/http/requestHead.ts";
import { remoteAddress } from "./remoteAddress.ts";

const NON_ASCII = /[\u0080-\uffff]/;

// What a header line has besides its name and value: the colon, the space and the line's end.
const LINE_BYTES = 4;

/** Where the caller is costs a system call, and few ask. */
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
      return ""; // answered or aborted: the library has let go of it
    }
  }
}

export class HeadReader {
  /** The size of the head that was read last. */
  bytes = 0;
  #headers: HeaderRecord = emptyHeaders();
  readonly #nonAscii = new Set<string>();

  read(res: UwsResponse, req: UwsRequest): HttpRequest {
    const headers = (this.#headers = emptyHeaders());
    const path = req.getUrl();
    // Undefined without a question mark, which the declarations don't say.
    const query = req.getQuery() as string | undefined;
    const target = query === undefined ? path : `${path}?${query}`;
    this.bytes = target.length;
    req.forEach(this.#add);
    if (this.#nonAscii.size > 0) this.#exactBytes(req);
    return new RequestHead(req.getCaseSensitiveMethod(), target, headers, res);
  }

  readonly #add = (name: string, value: string): void => {
    addHeader(this.#headers, name, value);
    this.bytes += name.length + value.length + LINE_BYTES;
    if (NON_ASCII.test(value)) this.#nonAscii.add(name);
  };

  /** The library decodes values as UTF-8; header values are bytes, one character each, as in `Headers`. */
  #exactBytes(req: UwsRequest): void {
    for (const name of this.#nonAscii) {
      const [first = "", ...rest] = this.#headers[name] ?? [];
      // getHeader gives the bytes of the first, but not in Node 24's build; the rest can only be
      // turned back from what was decoded, which loses bytes that are no UTF-8.
      const asked = req.getHeader(name);
      const exact = asked === first ? bytesOf(first) : asked;
      this.#headers[name] = [exact, ...rest.map(bytesOf)];
    }
    this.#nonAscii.clear();
  }
}

const bytesOf = (decoded: string): string => Buffer.from(decoded, "utf8").toString("latin1");
