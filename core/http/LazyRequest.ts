/**
 * A `Request` that is built only as far as it is read. The platform's class makes a stream, an abort
 * signal and their promises for each: 15 µs, of which an agent that reads its headers and its JSON
 * needs none. Must equal the platform's in everything that an agent can see (by test); whatever is
 * unusual makes the real one, and asks that from then on.
 *
 * The platform's own code (`fetch`, `new Request(request)`) tells its objects by private fields:
 * `services/node/lazyFetchClasses` unwraps these before it sees them.
 */
import { LazyBody } from "./LazyBody.ts";
import { standIn } from "./standIn.ts";

const NativeRequest = globalThis.Request;

export interface LazyRequestInit {
  readonly method: string;
  readonly headers: HeadersInit;
  /** Null: a request without a body. */
  readonly body: Uint8Array | null;
}

/** Methods that the platform takes as they are. */
const PLAIN_METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** No user and password, which a `Request` refuses; anything else unusual is the real one's to judge. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+(?:[/?]|$)/;

export class LazyRequest {
  static #enabled = false;
  readonly #url: string;
  readonly #method: string;
  readonly #headers: Headers;
  readonly #body: LazyBody;
  #real: Request | undefined;

  private constructor(url: string, { method, headers, body }: LazyRequestInit) {
    this.#url = url;
    this.#method = method;
    this.#headers = new Headers(headers);
    this.#body = new LazyBody(body, () => this.#unlazy());
  }

  /** A `Request` in all but class. Throws `TypeError` for what no request can be, as the class does. */
  static make(url: string, init: LazyRequestInit): Request {
    if (!LazyRequest.#enabled) return new NativeRequest(url, init as RequestInit);
    if (!PLAIN_METHODS.has(init.method) || !PLAIN_URL.test(url) || !URL.canParse(url))
      return new NativeRequest(url, init as RequestInit);
    return new LazyRequest(url, init) as unknown as Request;
  }

  /** From now on: the platform's code that takes requests knows these. */
  static enable(): void {
    LazyRequest.#enabled = true;
  }

  /** What the platform's own code can take: the real request behind this one, or the value itself. */
  static unwrap<A>(value: A): A {
    return typeof value === "object" && value !== null && #real in value
      ? (value.#unlazy() as unknown as A)
      : value;
  }

  get url(): string {
    return new URL(this.#url).href;
  }
  get method(): string {
    return this.#method;
  }
  get headers(): Headers {
    return this.#real?.headers ?? this.#headers;
  }
  get bodyUsed(): boolean {
    return this.#body.used;
  }
  arrayBuffer(): Promise<ArrayBuffer> {
    return this.#body.arrayBuffer();
  }
  text(): Promise<string> {
    return this.#body.text();
  }
  json(): Promise<unknown> {
    return this.#body.json();
  }
  clone(): Request {
    return this.#unlazy().clone();
  }

  #unlazy(): Request {
    if (this.#real === undefined) {
      const init = { method: this.#method, headers: this.#headers, body: this.#body.source };
      this.#real = new NativeRequest(this.#url, init as RequestInit);
      this.#body.handOver(this.#real);
    }
    return this.#real;
  }

  static {
    standIn(LazyRequest, NativeRequest, (self) => self.#unlazy());
  }
}
