/**
 * Reads the head of a request in the same way for every adapter: the headers as a record, how the
 * body is framed, and whether it is a WebSocket handshake. Nothing here waits, or allocates beyond
 * the record itself, because it runs for every request.
 *
 * A request whose framing is ambiguous (RFC 9112, section 6.3) is `Malformed`. It is refused so
 * that a proxy in front and this server never disagree about where a request ends.
 */
import { isToken } from "./responseHead.ts";
import { hostNameOf } from "./servedHosts.ts";

export type HeaderRecord = Record<string, ReadonlyArray<string>>;

interface RequestHead {
  readonly target: string;
  readonly method: string;
  readonly headers: HeaderRecord;
}

/** A `Malformed` request is refused with 400 and this text. */
type BodyFraming =
  | { readonly _tag: "None" }
  | { readonly _tag: "Length"; readonly bytes: number }
  | { readonly _tag: "Chunked" }
  | { readonly _tag: "Malformed"; readonly text: string };

/** `None`: plain HTTP, whatever it offers. `Malformed`: it asks for a WebSocket but lacks `why`. */
type Handshake =
  | { readonly _tag: "None" }
  | { readonly _tag: "WebSocket" }
  | { readonly _tag: "Malformed"; readonly why: string };

// A constructor whose prototype has no prototype. Its objects stay in V8's fast mode, unlike those
// of Object.create(null), and a header named `__proto__` is an ordinary key on them.
const NullPrototype = function () {} as unknown as {
  new <A>(): Record<string, A>;
  prototype: object;
};
NullPrototype.prototype = Object.create(null) as object;

export const emptyRecord = <A>(): Record<string, A> => new NullPrototype<A>();

export const emptyHeaders: () => HeaderRecord = emptyRecord;

/** `name` is in lower case. The values of a repeated name are kept in their order. */
export const addHeader = (headers: HeaderRecord, name: string, value: string): void => {
  const earlier = headers[name];
  if (earlier === undefined) headers[name] = [value];
  else (earlier as string[]).push(value);
};

const NONE: BodyFraming = { _tag: "None" };
const CHUNKED: BodyFraming = { _tag: "Chunked" };
const MALFORMED: BodyFraming = { _tag: "Malformed", text: "Bad request" };
// 15 digits stay below Number.MAX_SAFE_INTEGER, and a petabyte exceeds every limit.
const LENGTH = /^\d{1,15}$/;

const bodyFraming = (headers: HeaderRecord): BodyFraming => {
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

const NO_HANDSHAKE: Handshake = { _tag: "None" };
const WEB_SOCKET: Handshake = { _tag: "WebSocket" };
const bad = (why: string): Handshake => ({ _tag: "Malformed", why });

/**
 * The one place that decides whether a request is a WebSocket handshake: a GET without a body that
 * has every header of RFC 6455, section 4.2.1. An offer of another protocol (Java's client offers
 * `h2c` with every request), or with another method, is ignored, as RFC 9110, section 7.8, allows.
 */
export const handshake = (method: string, headers: HeaderRecord): Handshake => {
  const upgrade = headers["upgrade"];
  if (upgrade === undefined || method !== "GET") return NO_HANDSHAKE;
  if (upgrade.length !== 1 || upgrade[0]?.toLowerCase() !== "websocket") return NO_HANDSHAKE;
  if (!listed(headers["connection"]).some((option) => option.toLowerCase() === "upgrade"))
    return bad("connection: upgrade");
  if (headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined)
    return bad("an end after the head: a handshake has no body and no content-length");
  const key = headers["sec-websocket-key"];
  if (key?.length !== 1 || !KEY.test(key[0] ?? "")) return bad("one sec-websocket-key of 16 bytes");
  const version = headers["sec-websocket-version"];
  if (version?.length !== 1 || version[0] !== VERSION) return bad("sec-websocket-version: 13");
  const protocols = listed(headers["sec-websocket-protocol"]);
  if (!protocols.every((name) => isToken(name)) || new Set(protocols).size < protocols.length)
    return bad("a sec-websocket-protocol that lists distinct names");
  return WEB_SOCKET;
};

/** The text of the 400 for a malformed WebSocket request. */
export const badHandshake = (why: string): string => `Bad WebSocket handshake: it lacks ${why}\n`;

/** Removes an offer that is not accepted: later readers would take the request for an upgrade. */
const dropOffer = (headers: HeaderRecord): void => {
  if (headers["upgrade"] !== undefined) Reflect.deleteProperty(headers, "upgrade");
};

/**
 * Checks the head of a request that is not an upgrade, and returns how its body is framed. Removes
 * an offer of another protocol.
 */
export const checkHead = ({ target, method, headers }: RequestHead): BodyFraming => {
  // uWebSockets.js accepts a request line without a method.
  if (!isToken(method) || !namesResource({ target, headers })) return MALFORMED;
  const framing = bodyFraming(headers);
  if (framing._tag === "Malformed") return framing;
  const upgrade = handshake(method, headers);
  if (upgrade._tag === "Malformed") return { _tag: "Malformed", text: badHandshake(upgrade.why) };
  dropOffer(headers);
  return framing;
};

/** The items of a header that is a list. */
const listed = (lines: ReadonlyArray<string> = []): string[] =>
  lines.flatMap((line) => line.split(",").map((item) => item.trim()));

/** Returns `wanted` if the caller offered it. Browsers fail a socket that is answered another. */
export const subprotocol = (
  headers: HeaderRecord,
  wanted: string | undefined,
): string | undefined => {
  const offered = headers["sec-websocket-protocol"];
  if (wanted === undefined || offered === undefined) return undefined;
  return listed(offered).includes(wanted) ? wanted : undefined;
};

const ORIGIN_TARGET = /^\/[!-~]*$/;

/**
 * Whether target and host form a valid URL. The target must be a path as a URL spells it: not `*`,
 * not a full URL, no raw UTF-8. The host must be sent once and be a single host: a `/` or `?` in it
 * would become part of the path that is routed (RFC 9112, section 3.2). It may be empty, and
 * HTTP/1.0 sends none.
 */
export const namesResource = ({
  target,
  headers,
}: Pick<RequestHead, "target" | "headers">): boolean =>
  ORIGIN_TARGET.test(target) && isOneHost(headers["host"]);

const isOneHost = (hosts: ReadonlyArray<string> = [""]): boolean =>
  hosts.length === 1 && (hosts[0] === "" || isHost(hosts[0]!));

/** Hosts that are known to be valid, because parsing a URL for each request costs 2 µs. */
const knownHosts = new Set<string>();
/** A server has a few. With more, the set is emptied, and they are checked again. */
const HOSTS_MAX = 100;

/** A URL refuses some hosts of this form, such as 999.1.1.1 or a port above 65535. */
function isHost(host: string): boolean {
  if (knownHosts.has(host)) return true;
  if (hostNameOf(host) === undefined || !URL.canParse(`http://${host}`)) return false;
  if (knownHosts.size >= HOSTS_MAX) knownHosts.clear();
  knownHosts.add(host);
  return true;
}

/** The path of a request target, without the query. */
export const pathOf = (target: string): string => {
  const query = target.indexOf("?");
  return query === -1 ? target : target.slice(0, query);
};
