/**
 * The address of a caller as a key: of rate limits, and of what is counted or recorded by address.
 * One caller has one key, however a proxy writes its address. Pure.
 */
import type { HttpRequest } from "./HttpServer.ts";

/**
 * Returns the caller's address as a key. Behind `trustedProxies` proxies it is the address that the
 * outermost of them saw: the n-th entry of `X-Forwarded-For` from its end. Earlier entries can be
 * forged. The key of an IPv6 caller is its /64 network.
 */
export function addressOf(
  request: Pick<HttpRequest, "headers" | "remoteAddress">,
  trustedProxies: number,
): string {
  if (trustedProxies === 0) return addressKeyOf(request.remoteAddress);
  const forwarded = (request.headers["x-forwarded-for"] ?? []).flatMap((line) => line.split(","));
  const seen = forwarded.at(-trustedProxies)?.trim();
  return addressKeyOf(seen === undefined || seen === "" ? request.remoteAddress : seen);
}

/** Some proxies write the caller's port, too. */
const WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$/;
/** An IPv4 address in IPv6 (RFC 4291, 2.5.5.2), as a dotted address or as its two last groups. */
const MAPPED = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([\da-f]{1,4}):([\da-f]{1,4}))$/;

/** Returns an address as a key: one of IPv6 as its /64 network, which one caller has whole. */
export function addressKeyOf(seen: string): string {
  if (!seen.includes(":")) return seen;
  const [, bracketed, v4] = WITH_PORT.exec(seen) ?? [];
  if (v4 !== undefined) return v4;
  const address = (bracketed ?? seen).toLowerCase();
  if (!address.includes(":")) return address;
  const [, dotted, high, low] = MAPPED.exec(address) ?? [];
  if (dotted !== undefined) return dotted;
  if (high === undefined || low === undefined) return network(address);
  const bytes = [high, low].flatMap((group) => [
    parseInt(group, 16) >> 8,
    parseInt(group, 16) & 255,
  ]);
  return bytes.join(".");
}

/** Returns the first four of the eight groups, with `::` expanded and without leading zeros. */
function network(address: string): string {
  const [before = "", after] = address.split("::");
  const head = before === "" ? [] : before.split(":");
  const tail = after === undefined || after === "" ? [] : after.split(":");
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  const groups = [...head, ...Array.from({ length: zeros }, () => "0"), ...tail].slice(0, 4);
  return groups.map((group) => group.replace(/^0+(?=.)/, "")).join(":");
}
