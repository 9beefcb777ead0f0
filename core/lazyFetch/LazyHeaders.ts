/**
 * The `Headers` of a request, looked up by name in what came. The platform's class converts and
 * checks each one first (4 µs for a webhook's ten), and most agents look at one or two. Must equal
 * the platform's in everything that can be seen (by test): a repeated name, a change or an
 * iteration makes the real object, which is used from then on. `fetch`, `new Request` and `new
 * Headers` accept it as an iterable.
 */
import { standIn } from "./standIn.ts";

const NativeHeaders = globalThis.Headers;

/** By name, or in pairs; each was found `isPlainName` and a value of one line. */
export type PlainHeaders =
  Readonly<Record<string, string>> | ReadonlyArray<readonly [string, string]>;

/** What `Headers` takes as it is, by RFC 9110. */
const PLAIN_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const TAB = 0x09;
const SPACE = 0x20;

export const isPlainName = (name: string): boolean => PLAIN_NAME.test(name);

export class LazyHeaders {
  readonly #given: PlainHeaders;
  #real: Headers | undefined;

  private constructor(given: PlainHeaders) {
    this.#given = given;
  }

  /** A `Headers` in all but class. The caller must not change what it passes. */
  static of(given: PlainHeaders): Headers {
    return new LazyHeaders(given) as unknown as Headers;
  }

  get(...args: [string]): string | null {
    const found = this.#find(args[0]);
    return found === undefined ? this.#unlazy().get(...args) : found;
  }
  has(...args: [string]): boolean {
    const found = this.#find(args[0]);
    return found === undefined ? this.#unlazy().has(...args) : found !== null;
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.#unlazy()[Symbol.iterator]();
  }

  /** Null: there is no such header. Undefined: only the real object can tell. */
  #find(name: unknown): string | null | undefined {
    if (this.#real !== undefined || typeof name !== "string" || !isPlainName(name))
      return undefined;
    const given = this.#given;
    const wanted = name.toLowerCase();
    let value: string | undefined;
    if (isPairs(given)) {
      for (const [key, text] of given) {
        if (!isNamed(key, wanted)) continue;
        if (value !== undefined) return undefined;
        value = text;
      }
    } else
      for (const key in given) {
        if (!isNamed(key, wanted)) continue;
        if (value !== undefined) return undefined;
        value = given[key]!;
      }
    return value === undefined ? null : withoutBlankEnds(value);
  }

  #unlazy(): Headers {
    return (this.#real ??= new NativeHeaders(asPairs(this.#given as HeadersInit)));
  }

  static {
    standIn(LazyHeaders, NativeHeaders, (self) => self.#unlazy());
  }
}

/**
 * The value as the platform trims it. A loop, because `/[\t ]+$/` takes time by the square of a run
 * of blanks, and the caller chooses the value.
 */
function withoutBlankEnds(value: string): string {
  const isBlank = (at: number): boolean => {
    const unit = value.charCodeAt(at);
    return unit === SPACE || unit === TAB;
  };
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(start)) start++;
  while (start < end && isBlank(end - 1)) end--;
  return value.slice(start, end);
}

/** The headers as pairs. From a record, the platform's class loses a header named `__proto__`. */
export const asPairs = (headers: HeadersInit): HeadersInit =>
  Symbol.iterator in headers ? headers : Object.entries(headers);

const isPairs = (given: PlainHeaders): given is ReadonlyArray<readonly [string, string]> =>
  Array.isArray(given);

const isNamed = (key: string, lowerCase: string): boolean =>
  key.length === lowerCase.length && key.toLowerCase() === lowerCase;
