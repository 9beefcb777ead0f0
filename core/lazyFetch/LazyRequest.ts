/**
 * A `Request` that is built only as far as it is read. The platform's class makes a stream, an
 * abort signal and their promises for each: 15 µs, of which an agent that reads its headers and its
 * JSON needs none. Must equal the platform's in everything that an agent can see (by test);
 * anything unusual makes the real request, which is used from then on.
 *
 * The platform's own code (`fetch`, `new Request(request)`) recognizes its objects by private
 * fields, so `installLazyFetch` unwraps lazy ones first.
 */
import { abortOfSignal, type Abort } from "./AbortSource.ts";
import { copyHeaders } from "./copyHeaders.ts";
import { LazyBody } from "./LazyBody.ts";
import { asPairs, isPlainName, LazyHeaders, type PlainHeaders } from "./LazyHeaders.ts";
import { standIn } from "./standIn.ts";

const NativeRequest = globalThis.Request;

export interface LazyRequestInit {
  readonly method: string;
  readonly headers: HeadersInit;
  /** Null: a request without a body. */
  readonly body: Uint8Array | null;
  /** Fires when the sender leaves. Absent: never fires. */
  readonly abort?: Abort | undefined;
}

/** Methods that the platform does not normalize. */
const PLAIN_METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** Without user and password, which a `Request` refuses. The platform judges all else unusual. */
const PLAIN_ORIGIN = /^https?:\/\/[\w.:[\]-]+(?=[/?]|$)/;
/** The platform's `Headers` refuses characters that are not bytes, and these three. */
const PLAIN_VALUE = /^[^\0\r\n\u0100-\uffff]*$/;

/** Origins known to be valid. Paths and queries never break a URL, and a check costs 2.4 µs. */
const knownOrigins = new Set<string>();
/** An installation has a few. With more host names the set is emptied, and all checked again. */
const ORIGINS_MAX = 100;

export class LazyRequest {
  static #enabled = false;
  readonly #url: string;
  #href: string | undefined;
  readonly #method: string;
  readonly #given: PlainHeaders;
  /** What `headers` has returned before there was a real request. It stays this object. */
  #headers: Headers | undefined;
  readonly #body: LazyBody;
  readonly #abort: LazyRequestInit["abort"];
  #real: Request | undefined;

  private constructor(url: string, headers: PlainHeaders, init: LazyRequestInit) {
    const { method, body, abort } = init;
    this.#url = url;
    this.#method = method;
    this.#abort = abort;
    this.#given = headers;
    this.#body = new LazyBody(body, () => this.#unlazy());
  }

  /** A `Request` in all but class. Throws `TypeError` for what no request can be, as that does. */
  static make(url: string, init: LazyRequestInit): Request {
    if (!LazyRequest.#enabled) return new NativeRequest(url, nativeInit(init));
    const { headers } = init;
    if (!PLAIN_METHODS.has(init.method) || !isPlainUrl(url) || !arePlain(headers))
      return new NativeRequest(url, nativeInit(init));
    return new LazyRequest(url, headers, init) as unknown as Request;
  }

  /** Call it once the platform's code that takes requests accepts lazy ones. */
  static enable(): void {
    LazyRequest.#enabled = true;
  }

  /** What the platform's own code takes: the real request behind this one, or the value itself. */
  static unwrap<A>(value: A): A {
    return typeof value === "object" && value !== null && #real in value
      ? (value.#unlazy() as unknown as A)
      : value;
  }

  /**
   * Takes the bytes of the body if nothing has touched the request. The body is then used, and the
   * bytes must not be changed. Null: it has none. Undefined: it is not such a request, and must be
   * read like any other.
   */
  static take(value: unknown): Uint8Array | null | undefined {
    if (typeof value !== "object" || value === null || !(#real in value)) return undefined;
    return value.#body.take() as Uint8Array | null | undefined;
  }

  /** Fires when the sender of the request leaves. Makes no signal if there is none yet. */
  static abortOf(request: Request): Abort | undefined {
    return #abort in request ? request.#abort : abortOfSignal(request.signal);
  }

  get url(): string {
    return (this.#href ??= new URL(this.#url).href);
  }
  get method(): string {
    return this.#method;
  }
  get headers(): Headers {
    return this.#headers ?? this.#real?.headers ?? (this.#headers = LazyHeaders.of(this.#given));
  }
  get signal(): AbortSignal {
    return this.#abort?.signal ?? this.#unlazy().signal;
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

  #unlazy(): Request {
    if (this.#real === undefined) {
      const headers = this.#headers ?? this.#given;
      const init = { method: this.#method, headers, body: this.#body.source, abort: this.#abort };
      this.#real = new NativeRequest(this.#url, nativeInit(init as LazyRequestInit));
      this.#body.handOver(this.#real);
    } else if (this.#headers !== undefined) copyHeaders(this.#headers, this.#real.headers);
    return this.#real;
  }

  static {
    standIn(LazyRequest, NativeRequest, (self) => self.#unlazy());
  }
}

/**
 * As on the reference's platform, a request that is passed on to another server follows no
 * redirects: these are its caller's, with their cookies.
 */
const nativeInit = ({ abort, headers, ...init }: LazyRequestInit): RequestInit =>
  ({
    ...init,
    redirect: "manual",
    headers: asPairs(headers),
    ...(abort !== undefined && { signal: abort.signal }),
  }) as RequestInit;

function isPlainUrl(url: string): boolean {
  const origin = PLAIN_ORIGIN.exec(url)?.[0];
  if (origin === undefined) return false;
  if (knownOrigins.has(origin)) return true;
  if (!URL.canParse(url)) return false;
  if (knownOrigins.size >= ORIGINS_MAX) knownOrigins.clear();
  knownOrigins.add(origin);
  return true;
}

/** Whether `Headers` can be made of them later. Most agents read none or one of a dozen. */
function arePlain(headers: HeadersInit): headers is Exclude<HeadersInit, Headers> & PlainHeaders {
  if (headers instanceof Headers) return false;
  if (Array.isArray(headers))
    return headers.every(
      (pair) => pair.length === 2 && isPlainName(pair[0]!) && PLAIN_VALUE.test(pair[1]!),
    );
  const record = headers as Readonly<Record<string, string>>;
  for (const name in record)
    if (!isPlainName(name) || !PLAIN_VALUE.test(record[name]!)) return false;
  return true;
}
