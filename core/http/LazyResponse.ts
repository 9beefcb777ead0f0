/**
 * A `Response` that is built only as far as it is looked at, for what agents answer most: a text,
 * JSON or nothing, with plain headers. The platform's class makes a stream of each body, and
 * reading that back takes longer than all the rest of a small answer. Must equal the platform's in
 * everything that can be seen (by test); whatever is unusual is made by the platform's class.
 */
import { LazyBody } from "./LazyBody.ts";
import { standIn } from "./standIn.ts";

const NativeResponse = globalThis.Response;

/** Statuses with which a response can't have a body. */
const BODILESS = new Set([204, 205, 304]);
/** What the class takes; 1xx are not for responses that code makes. */
const STATUS_MIN = 200;
/** As above: the last status of the last class. */
const STATUS_MAX = 599;
const TEXT_TYPE = "text/plain;charset=UTF-8";

export class LazyResponse {
  readonly #body: LazyBody;
  readonly #status: number;
  #headers: Headers | undefined;
  #real: Response | undefined;

  private constructor(body: string | null, status: number, headers: Headers | undefined) {
    this.#body = new LazyBody(body, () => this.#unlazy());
    this.#status = status;
    this.#headers = headers;
  }

  /** Undefined: it is unusual, and the platform's class must make it or refuse it. */
  static make(body: unknown, init: unknown, type = TEXT_TYPE): Response | undefined {
    if (typeof body !== "string" && body !== null && body !== undefined) return undefined;
    let status = STATUS_MIN;
    let headers: Headers | undefined;
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
        headers = new Headers(given.headers);
        if (typeof body === "string" && !headers.has("content-type"))
          headers.set("content-type", type);
      }
    }
    if (headers === undefined && type !== TEXT_TYPE)
      headers = new Headers({ "content-type": type });
    return new LazyResponse(body ?? null, status, headers) as unknown as Response;
  }

  /** What goes on the wire, when nobody has touched it since it was made; else undefined. */
  static parts(
    value: object,
  ): { status: number; headers: [string, string][]; body: string } | undefined {
    if (!(#real in value) || !value.#body.untouched) return undefined;
    const body = value.#body.source as string | null;
    const status = value.#status;
    if (value.#headers !== undefined)
      return { status, headers: [...value.#headers], body: body?.toWellFormed() ?? "" };
    const headers: [string, string][] = body === null ? [] : [["content-type", TEXT_TYPE]];
    return { status, headers, body: body?.toWellFormed() ?? "" };
  }

  get status(): number {
    return this.#status;
  }
  get ok(): boolean {
    return this.#status <= 299;
  }
  get headers(): Headers {
    if (this.#real !== undefined) return this.#real.headers;
    return (this.#headers ??= new Headers(
      this.#body.source === null ? undefined : { "content-type": TEXT_TYPE },
    ));
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
  clone(): Response {
    return this.#unlazy().clone();
  }

  #unlazy(): Response {
    if (this.#real === undefined) {
      const init = { status: this.#status, ...(this.#headers && { headers: this.#headers }) };
      this.#real = new NativeResponse(this.#body.source as string | null, init);
      this.#body.handOver(this.#real);
    }
    return this.#real;
  }

  static {
    standIn(LazyResponse, NativeResponse, (self) => self.#unlazy());
  }
}
