/**
 * What the head of a request says, read the same way by every adapter: the headers as a record, how
 * the body is framed, and whether it is a WebSocket handshake. Adapters feed it; nothing here waits
 * or allocates beyond the record itself, because it runs for every request.
 *
 * A request whose framing can be read in two ways (RFC 9112, section 6.3) is `Malformed`: refusing
 * it is what keeps a proxy in front and this server from disagreeing about where a request ends.
 */

export type HeaderRecord = Record<string, ReadonlyArray<string>>;

export type BodyFraming =
  | { readonly _tag: "None" }
  | { readonly _tag: "Length"; readonly bytes: number }
  | { readonly _tag: "Chunked" }
  | { readonly _tag: "Malformed" };

export type Handshake = "none" | "websocket" | "malformed";

// A constructor with a null-prototype prototype gives objects that stay in V8's fast mode, which
// Object.create(null) does not, and on which a header named `__proto__` is an ordinary key.
const NullPrototype = function () {} as unknown as { new (): HeaderRecord; prototype: object };
NullPrototype.prototype = Object.create(null) as object;

export const emptyHeaders = (): HeaderRecord => new NullPrototype();

/** `name` in lower case. A repeated name gathers its values in the order they came. */
export const addHeader = (headers: HeaderRecord, name: string, value: string): void => {
  const earlier = headers[name];
  if (earlier === undefined) headers[name] = [value];
  else (earlier as string[]).push(value);
};

const NONE: BodyFraming = { _tag: "None" };
const CHUNKED: BodyFraming = { _tag: "Chunked" };
const MALFORMED: BodyFraming = { _tag: "Malformed" };
// 15 digits stay below Number.MAX_SAFE_INTEGER, and a petabyte is over every limit there is.
const LENGTH = /^\d{1,15}$/;

export const bodyFraming = (headers: HeaderRecord): BodyFraming => {
  const lengths = headers["content-length"];
  const codings = headers["transfer-encoding"];
  if (lengths === undefined && codings === undefined) return NONE;
  if (codings !== undefined) {
    const one = codings.length === 1 && codings[0]?.toLowerCase() === "chunked";
    return lengths === undefined && one ? CHUNKED : MALFORMED;
  }
  const length = lengths?.length === 1 ? lengths[0] : undefined;
  if (length === undefined || !LENGTH.test(length)) return MALFORMED;
  return { _tag: "Length", bytes: Number(length) };
};

// RFC 6455, section 4.2.1: the key is 16 bytes in base64; 13 is the only version ever deployed.
const KEY = /^[A-Za-z0-9+/]{22}==$/;
const VERSION = "13";

/** Offers of other protocols (Java's client offers `h2c` with every request) are plain HTTP. */
export const handshake = (method: string, headers: HeaderRecord): Handshake => {
  const upgrade = headers["upgrade"];
  if (upgrade === undefined || method !== "GET") return "none";
  if (upgrade.length !== 1 || upgrade[0]?.toLowerCase() !== "websocket") return "none";
  const key = headers["sec-websocket-key"];
  const version = headers["sec-websocket-version"];
  const sound = key?.length === 1 && KEY.test(key[0] ?? "") && version?.[0] === VERSION;
  return sound ? "websocket" : "malformed";
};

/** `wanted` if the caller offered it: an answer that was not offered makes browsers fail the socket. */
export const subprotocol = (
  headers: HeaderRecord,
  wanted: string | undefined,
): string | undefined => {
  const offered = headers["sec-websocket-protocol"];
  if (wanted === undefined || offered === undefined) return undefined;
  return offered.some((line) => line.split(",").some((item) => item.trim() === wanted))
    ? wanted
    : undefined;
};

const ORIGIN_TARGET = /^\/[!-~]*$/;

/** Whether the target is a path as a URL spells it: not `*`, not a full URL, no raw UTF-8. */
export const isOriginTarget = (target: string): boolean => ORIGIN_TARGET.test(target);
