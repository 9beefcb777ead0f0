/**
 * Which values of the `Host` header a server answers. This protects a server on a loopback address
 * against DNS rebinding: if evil.example makes its own name resolve to 127.0.0.1, the browser gives
 * its page the origin of the server there, but its requests still have `Host: evil.example`. Pure;
 * used by the gateway and the private port.
 */

export interface ServedHosts {
  /** Names and addresses in addition to loopback, in lower case and without a port. */
  readonly names: ReadonlyArray<string>;
  /** Whether every IP address is answered too. No web page can have one as its own name. */
  readonly addresses: boolean;
}

const HOST = /^(?:\[([0-9a-f:.]+)\]|([^:[\]@/\\?#\s]+))(?::\d*)?$/;
const IPV4 = /^\d{1,3}(?:\.\d{1,3}){3}$/;

/** The name or address in a `Host` header, without the port; undefined if it is invalid. */
export function hostNameOf(header: string): string | undefined {
  const [, address, name] = HOST.exec(header.toLowerCase()) ?? [];
  // A name may end with the root's dot.
  return address ?? name?.replace(/\.$/, "");
}

/** `localhost` and names below it, 127.0.0.0/8, ::1. */
export const isLoopbackHost = (name: string): boolean =>
  name === "localhost" ||
  name.endsWith(".localhost") ||
  name === "::1" ||
  /^127(?:\.\d{1,3}){3}$/.test(name);

/** A request without the header (HTTP/1.0) is answered. */
export function servesHost(hosts: ServedHosts, header: string | undefined): boolean {
  if (header === undefined) return true;
  const name = hostNameOf(header);
  if (name === undefined) return false;
  if (isLoopbackHost(name) || hosts.names.includes(name)) return true;
  return hosts.addresses && (IPV4.test(name) || name.includes(":"));
}
