/**
 * A `Response` that is built only as far as it is read, for the usual answers of agents: a text,
 * JSON or nothing, with plain headers. The platform's class makes a stream of each body, and
 * reading that back takes longer than all the rest of a small answer. Must equal the platform's in
 * everything that can be seen (by test); whatever is unusual is made by the platform's class.
 */
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import { copyHeaders } from "./copyHeaders.ts";
import { LazyBody } from "./LazyBody.ts";
import { standIn } from "./standIn.ts";

const NativeResponse = globalThis.Response;

/** Statuses with which a response can't have a body. */
const BODILESS = new Set([204, 205, 304]);
/** The smallest status that the class accepts; code can't make 1xx responses. */
const STATUS_MIN = 200;
/** As above: the last status of the last class. */
const STATUS_MAX = 599;
const TEXT_TYPE = "text/plain;charset=UTF-8";

/** The headers of the code that made it, or as they were passed. */
type GivenHeaders = Headers | HeaderPairs;

export class LazyResponse {
  static #enabled = false;
  readonly #body: LazyBody;
  readonly #status: number;
  #headers: GivenHeaders | undefined;
  /** What `headers` has returned before there was a real response. It stays this object. */
  #shown: Headers | undefined;
  #real: Response | undefined;

  private constructor(
    body: Uint8Array | string | null,
    status: number,
    headers: GivenHeaders | undefined,
  ) {
    this.#body = new LazyBody(body, () => this.#unlazy());
    this.#status = status;
    this.#headers = headers;
  }

  /** Undefined for anything unusual, which the platform's class must make or refuse. */
  static make(body: unknown, init: unknown, type = TEXT_TYPE): Response | undefined {
    if (typeof body !== "string" && body !== null && body !== undefined) return undefined;
    let status = STATUS_MIN;
    let headers: GivenHeaders | undefined;
    if (init !== undefined) {
      if (typeof init !== "object" || init === null) return undefined;
      const given = init as { status?: unknown; statusText?: unknown; headers?: HeadersInit };
      if (given.statusText !== undefined) return undefined;
      if (given.status !== undefined) {
        const asked = given.status;
        if (typeof asked !== "number" || !Number.isInteger(asked)) return undefined;
        if (asked < STATUS_MIN || asked > STATUS_MAX) return undefined;
        if (BODILESS.has(asked) && typeof body === "string") return undefined;
        status = asked;
      }
      if (given.headers !== undefined) {
        const all = new Headers(given.headers);
        if (typeof body === "string" && !all.has("content-type")) all.set("content-type", type);
        headers = all;
      }
    }
    if (headers === undefined && type !== TEXT_TYPE) headers = [["content-type", type]];
    return new LazyResponse(body ?? null, status, headers) as unknown as Response;
  }

  /**
   * The answer of another process. Nothing may change its bytes, and its headers were a response's.
   * Undefined if it is unusual, or `enable` was not called.
   */
  static of(body: Uint8Array, status: number, headers: HeaderPairs): Response | undefined {
    if (!LazyResponse.#enabled || status < STATUS_MIN || status > STATUS_MAX) return undefined;
    const given = BODILESS.has(status) ? null : body;
    return new LazyResponse(given, status, headers) as unknown as Response;
  }

  /** Call it once the platform's code that takes responses accepts lazy ones. */
  static enable(): void {
    LazyResponse.#enabled = true;
  }

  /** The parts to send if it is a lazy response that nothing has touched; else undefined. */
  static parts(
    value: unknown,
  ): { status: number; headers: HeaderPairs; body: Uint8Array | string } | undefined {
    if (typeof value !== "object" || value === null) return undefined;
    if (!(#real in value) || !value.#body.untouched) return undefined;
    const { source } = value.#body;
    const status = value.#status;
    const body = typeof source === "string" ? source.toWellFormed() : (source ?? "");
    if (value.#headers !== undefined) return { status, headers: [...value.#headers], body };
    const headers: HeaderPairs = source === null ? [] : [["content-type", TEXT_TYPE]];
    return { status, headers, body };
  }

  get status(): number {
    return this.#status;
  }
  get ok(): boolean {
    return this.#status <= 299;
  }
  get headers(): Headers {
    if (this.#shown !== undefined) return this.#shown;
    if (this.#real !== undefined) return this.#real.headers;
    return (this.#headers = this.#shown = this.#ownHeaders());
  }
  #ownHeaders(): Headers {
    const given = this.#headers;
    if (given instanceof Headers) return given;
    const type = this.#body.source === null ? undefined : { "content-type": TEXT_TYPE };
    return new Headers(given === undefined ? type : toInit(given));
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

  #unlazy(): Response {
    if (this.#real === undefined) {
      const given = this.#headers;
      const init = { status: this.#status, ...(given && { headers: toInit(given) }) };
      this.#real = new NativeResponse(this.#body.source as BodyInit | null, init);
      this.#body.handOver(this.#real);
    } else if (this.#shown !== undefined) copyHeaders(this.#shown, this.#real.headers);
    return this.#real;
  }

  static {
    standIn(LazyResponse, NativeResponse, (self) => self.#unlazy());
  }
}

const toInit = (given: GivenHeaders): HeadersInit => given as Headers | [string, string][];
